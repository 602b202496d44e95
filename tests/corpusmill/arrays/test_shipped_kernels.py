"""Kernels that a wheel brings along are used just where they fit, and give the same numbers."""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from numba.core.types import int64

import corpusmill
from corpusmill.arrays import numba_cache
from corpusmill.arrays.numba_cache import BASELINES, find_shipped, name_kernel
from corpusmill.arrays.randomness import derive_key

# An integer and a floating-point number of three kernels, and how often one was compiled.
_CALL = """
from corpusmill.arrays.kernel_cache import before_compiling
from corpusmill.arrays.randomness import derive_key, draw, to_uniform
compiled = []
before_compiling(lambda: compiled.append(1))
key = derive_key(1, 2, 3, 4)
print(key, float(to_uniform(draw(key, 5))).hex(), len(compiled))
"""
_SHIP = """
from pathlib import Path
from corpusmill.arrays.kernel_cache import SHIPPED_FOLDER, kernel_folder
from corpusmill.arrays.numba_cache import ship_kernels
assert ship_kernels(kernel_folder(), SHIPPED_FOLDER) >= 2
"""
_FOLDER = Path("corpusmill", "compiled_kernels")


def run(program: str, packages: Path, cache: Path, **variables: str) -> list[str]:
    """Run a program with a copy of the package and a cache of its own; return its words."""
    places = {"PYTHONPATH": str(packages), "NUMBA_CACHE_DIR": str(cache), "XDG_CACHE_HOME": ""}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd="/", env={**os.environ, **places, **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with kernels for the baseline of this machine."""
    if platform.machine() not in BASELINES:
        pytest.skip(f"kernels are shipped for {', '.join(BASELINES)}")
    packages = tmp_path_factory.mktemp("packages")
    ignored = shutil.ignore_patterns("__pycache__", _FOLDER.name)
    shutil.copytree(Path(corpusmill.__file__).parent, packages / "corpusmill", ignore=ignored)
    processor, _ = BASELINES[platform.machine()]
    baseline = {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ""}
    cache = tmp_path_factory.mktemp("cache")
    assert run(_CALL, packages, cache, **baseline)[-1] == "1"
    run(_SHIP, packages, cache, **baseline)
    return packages


@pytest.fixture(scope="module")
def native(shipped: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the same kernels return if they are compiled for this machine's own processor."""
    packages = tmp_path_factory.mktemp("native")
    shutil.copytree(shipped, packages, dirs_exist_ok=True)
    shutil.rmtree(packages / _FOLDER)
    *results, compiled = run(_CALL, packages, tmp_path_factory.mktemp("cache"))
    assert compiled == "1"
    return results


def test_shipped_kernels_give_the_same_numbers_until_what_they_are_compiled_from_changes(
    copied: Path, native: list[str], tmp_path: Path
) -> None:
    source = copied / "corpusmill" / "arrays" / "randomness.py"
    (source.parent / "new.py").touch()
    source.write_text(f"# Below the first line.\n{source.read_text()}")
    assert run(_CALL, copied, tmp_path) == [*native, "0"]
    source.write_text(source.read_text().replace("_TWO_TO_MINUS_53 = ", "_TWO_TO_MINUS_53 = 2 * "))
    doubled = (2 * float.fromhex(native[1])).hex()
    assert run(_CALL, copied, tmp_path) == [native[0], doubled, "1"]
    assert len(list(tmp_path.rglob("*.nbc"))) == 1


def test_a_shipped_kernel_is_for_one_python_numba_llvm_system_and_machine(
    shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = json.loads((shipped / _FOLDER / "index.json").read_text())
    signature = (int64, int64, int64, int64)
    assert name_kernel(derive_key, signature) in index["kernels"]
    platform = numba_cache._PLATFORM
    for place in range(len(platform)):
        other = (*platform[:place], "another", *platform[place + 1 :])
        monkeypatch.setattr(numba_cache, "_PLATFORM", other)
        assert name_kernel(derive_key, signature) not in index["kernels"]


def change_index(folder: Path, **changes: object) -> None:
    path = folder / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def flip_bits(folder: Path) -> None:
    path = folder / "kernels.bin"
    path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))


# What becomes of a folder of kernels, and whether it still is one for this machine.
CHANGES: list[tuple[Callable[[Path], object], bool]] = [
    (lambda folder: change_index(folder, features=["sse2", "of-tomorrow"]), False),
    (lambda folder: (folder / "index.json").unlink(), False),
    (lambda folder: (folder / "index.json").write_text("{"), False),
    (lambda folder: change_index(folder, kernels={}), True),
    (flip_bits, True),
    (lambda folder: os.truncate(folder / "kernels.bin", 9), True),
    (lambda folder: (folder / "kernels.bin").unlink(), True),
]


@pytest.fixture
def copied(shipped: Path, tmp_path: Path) -> Path:
    shutil.copytree(shipped, tmp_path / "packages")
    return tmp_path / "packages"


def test_kernels_that_do_not_fit_or_are_damaged_are_not_there(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = next(iter(json.loads((shipped / _FOLDER / "index.json").read_text())["kernels"]))
    whole = find_shipped(shipped / _FOLDER)
    assert whole
    assert whole.find(name)
    for number, (change, is_fit) in enumerate(CHANGES):
        folder = shutil.copytree(shipped / _FOLDER, tmp_path / str(number))
        change(folder)
        kernels = find_shipped(folder)
        assert (kernels is not None) == is_fit
        assert not (kernels and kernels.find(name))
    # Whoever names a processor has kernels compiled for it.
    monkeypatch.setattr("numba.config.CPU_NAME", "generic")
    find_shipped.cache_clear()
    assert find_shipped(shipped / _FOLDER) is None


def test_damaged_kernels_are_compiled(copied: Path, native: list[str], tmp_path: Path) -> None:
    flip_bits(copied / _FOLDER)
    assert run(_CALL, copied, tmp_path / "cache") == [*native, "1"]
