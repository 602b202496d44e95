import os
import pickle
import runpy
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numba
import pytest
from numba.core.caching import NullCache

import corpusmill
from corpusmill.arrays.kernel_cache import njit

PACKAGE = Path(corpusmill.__file__).parent
# The functions as they are in the file, though an environment may name the folder of its kernels.
_FUNCTIONS = runpy.run_path(str(PACKAGE / "arrays" / "kernel_cache.py"))
choose_folder = _FUNCTIONS["kernel_folder"].__wrapped__


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that NUMBA_CACHE_DIR names."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "caches"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "caches"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path / "caches"


def test_only_kernels_that_are_long_unused_are_removed(caches: Path) -> None:
    current, other = choose_folder(), caches / "another"
    unused, used = (current.with_name(f"{current.name}-{name}") for name in ("unused", "used"))
    paths = [
        parent / f"{number}{suffix}"
        for parent in (current, unused, used, other)
        for number in range(2)
        for suffix in (".nbi", ".nbc", ".lock", ".txt")
    ]
    for path in paths:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.touch()
    old = time.time() - 31 * 86_400
    for path in (*(path for path in paths if path.stem == "0"), unused):
        os.utime(path, (old, old))
    _FUNCTIONS["_remove_unused"].__wrapped__()
    assert [path for path in paths if not path.exists()] == [
        parent / f"0{suffix}"
        for parent in (current, unused)
        for suffix in (".nbi", ".nbc", ".lock")
    ]
    for path in unused.iterdir():
        path.unlink()
    os.utime(unused, (old, old))
    _FUNCTIONS["_remove_unused"].__wrapped__()
    assert {*caches.iterdir()} == {current, used, other}


def test_a_folder_of_another_user_is_not_used(
    caches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    (tmp_path / "temp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temp"))
    folders = []
    for parent in ("caches", "home", "temp"):
        folders.append(choose_folder())
        assert folders[-1].parent == caches.parent / parent
        assert folders[-1].stat().st_mode & 0o077 == 0
        os.chown(folders[-1], 12345, 12345)
    last = choose_folder()
    assert last not in folders
    assert last.stat().st_uid == 0
    assert os.environ["NUMBA_CACHE_DIR"] == numba.config.CACHE_DIR == str(last)


def test_a_link_to_a_folder_is_not_used(caches: Path) -> None:
    folder = choose_folder()
    folder.rename(caches / "another")
    folder.symlink_to(caches / "another")
    assert choose_folder() != folder


def run_python(program: str, *arguments: str, **variables: str) -> str:
    """Run a program that imports the package; return its output."""
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_importing_the_library_writes_nothing_and_imports_no_numba(tmp_path: Path) -> None:
    places = {name: str(tmp_path) for name in ("HOME", "TMPDIR", "NUMBA_CACHE_DIR")}
    program = "import sys, corpusmill; print('numba' in sys.modules)"
    assert run_python(program, **places, XDG_CACHE_HOME="").strip() == "False"
    assert not list(tmp_path.iterdir())


def test_kernels_are_compiled_once_and_keep_other_functions_where_they_are(tmp_path: Path) -> None:
    program = (
        "import numba, numpy as np;"
        "from corpusmill.arrays.kernel_cache import before_compiling;"
        "from corpusmill.arrays.randomness import derive_key;"
        "before_compiling(lambda: print('compiling'));"
        "derive_key(np.uint64(0), np.uint64(0), 0, 0);"
        "print(sum(derive_key.compiled.stats.cache_hits.values()), numba.config.CACHE_DIR)"
    )
    for told, hits in ((["compiling"], 0), ([], 1)):
        output = run_python(program, NUMBA_CACHE_DIR=str(tmp_path / "caches"))
        assert output.split() == [*told, str(hits), str(tmp_path / "caches")]


_CALL_WHEN_TOLD = """
import sys, numba
from corpusmill.arrays.kernel_cache import before_compiling
from corpusmill.arrays.randomness import derive_key
before_compiling(lambda: print("compiling"))
numba.njit(lambda: 0)()  # what numba itself needs takes as long as the kernel
print("ready", flush=True)
sys.stdin.readline()
print(derive_key(1, 2, 3, 4))
"""


def test_a_kernel_that_processes_need_at_once_is_compiled_by_one(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _CALL_WHEN_TOLD],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    outputs = [process.communicate()[0].split() for process in processes]
    assert sorted(map(len, outputs)) == [1, 2]
    assert len({output[-1] for output in outputs}) == 1


# Calls kernels, one of which numba then compiles into a function that calls it.
_COMBINE = """
import sys, numba
from corpusmill.arrays import randomness
from corpusmill.arrays.kernel_cache import before_compiling

before_compiling(lambda: print("compiling"))
key = randomness.derive_key(1, 2, 3, 4)
print(key, "numba.np.polynomial" in sys.modules)

@numba.njit
def combine(seed):
    key = randomness.derive_key(seed, 2, 3, 4)
    return key ^ randomness.draw(key, 5)

print(combine(1), key ^ randomness.draw(key, 5), combine.py_func(1))
"""


def test_a_kernel_is_loaded_with_little_of_numba_and_called_by_one_that_is_compiled(
    tmp_path: Path,
) -> None:
    programs = [run_python(_COMBINE, NUMBA_CACHE_DIR=str(tmp_path)).splitlines() for _ in range(2)]
    (told, first, *compiled), (loaded, *combined) = programs
    assert told == "compiling"  # and not again for a function that is not kept
    key = first.removesuffix(" True")
    assert loaded == f"{key} False"
    assert combined == compiled
    assert len({*combined[-1].split()}) == 1


@pytest.fixture
def unwritable_package(tmp_path: Path) -> Iterator[Path]:
    """The folder of a copy of the package that not even root can write to."""
    folder = tmp_path / "packages"
    shutil.copytree(PACKAGE, folder / "corpusmill", ignore=shutil.ignore_patterns("__pycache__"))
    mounted = subprocess.run(
        ["mount", "--bind", "-o", "ro", folder, folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no folder can be made unwritable here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize(
    ("first", "home", "kept_in"), [("", "packages", "temp"), ("import numba;", "home", "home")]
)
def test_a_user_who_may_not_write_to_the_package_has_kernels(
    first: str, home: str, kept_in: str, unwritable_package: Path, tmp_path: Path
) -> None:
    for name in ("temp", "home"):
        (tmp_path / name).mkdir()
    places = {
        "HOME": str(tmp_path / home), "TMPDIR": str(tmp_path / "temp"),
        "XDG_CACHE_HOME": "", "NUMBA_CACHE_DIR": "",
    }  # fmt: skip
    program = (
        f"{first}import os; os.chdir({str(tmp_path)!r});"
        "import numpy as np, corpusmill.arrays.randomness as module;"
        "print(module.__file__, module.derive_key(np.uint64(0), np.uint64(0), 0, 0))"
    )
    output = run_python(program, **places, PYTHONPATH=str(unwritable_package))
    assert output.startswith(str(unwritable_package))
    [folder] = (tmp_path / kept_in).rglob("corpusmill-kernels-*")
    assert list(folder.glob("*.nbc"))
    assert folder.stat().st_mode & 0o077 == 0


# Calls a kernel with each of some folders, in processes that share what numba needs to compile.
_CALL = """
import os, sys, numba
from corpusmill.arrays.kernel_cache import before_compiling
from corpusmill.arrays.randomness import derive_key
numba.njit(lambda: 0)()
for folder in sys.argv[1:]:
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
        continue
    numba.config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"] = folder
    compiled = []
    before_compiling(lambda: compiled.append(1))
    print(derive_key(1, 2, 3, 4), len(compiled), flush=True)
    os._exit(0)
"""
DAMAGES: list[Callable[[bytes], bytes]] = [
    lambda _: b"",
    lambda content: content[: len(content) // 2],
    lambda content: content[:-40] + bytes([content[-40] ^ 1]) + content[-39:],
    lambda _: pickle.dumps(print),
]


def test_damaged_files_of_a_kernel_are_compiled_anew(tmp_path: Path) -> None:
    def call(*folders: Path) -> list[str]:
        return run_python(_CALL, *map(str, folders)).splitlines()

    first, again = call(*[tmp_path / "intact"] * 2)
    result, compiled = first.split()
    assert compiled == "1"
    assert again == f"{result} 0"
    [kernels] = (tmp_path / "intact").iterdir()
    assert kernels.stat().st_mode & 0o077 == 0
    folders = []
    for number, change in enumerate(DAMAGES):
        folders.append(tmp_path / f"damaged-{number}")
        shutil.copytree(tmp_path / "intact", folders[-1])
        for file in folders[-1].rglob("*.nbc"):
            file.write_bytes(change(file.read_bytes()))
    told = call(*folders, *folders)
    assert told == [f"{result} {compiled}" for compiled in (1, 0) for _ in folders]


@njit
def add(first: int, second: int) -> int:
    return first + second


@njit
def add_constants(number: int) -> int:
    return add(number, 1) + add(number, second=2) + add(number, number)  # type: ignore[no-any-return]


def test_constants_that_a_kernel_passes_on_need_no_compilation_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What an earlier run of the tests has compiled would be loaded, and add nothing.
    monkeypatch.setattr(add_constants.compiled, "_cache", NullCache())
    assert add_constants(5) == 6 + 7 + 10
    assert len(add.compiled.signatures) == 1
