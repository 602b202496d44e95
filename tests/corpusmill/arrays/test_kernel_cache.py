import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import corpusmill
from corpusmill.arrays.kernel_cache import STAMP, drop_stale_kernels


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Two sources, and a kernel that was cached when they were as they are."""
    (tmp_path / "inner" / "__pycache__").mkdir(parents=True)
    (tmp_path / "a.py").write_text("first")
    (tmp_path / "inner" / "b.py").write_text("second")
    assert drop_stale_kernels(tmp_path) == 0
    (tmp_path / "inner" / "__pycache__" / "b.nbi").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("source", "content", "dropped"),
    [
        ("a.py", "first", 0),  # written once more, as by a second installation
        ("a.py", "changed", 1),
        ("inner/b.py", "changed", 1),
        ("inner/new.py", "", 1),
    ],
)
def test_kernels_of_other_sources_are_dropped(
    source: str, content: str, dropped: int, package: Path
) -> None:
    (package / source).write_text(content)
    assert drop_stale_kernels(package) == dropped
    assert (package / "inner" / "__pycache__" / "b.nbi").exists() == (not dropped)
    assert drop_stale_kernels(package) == 0


def test_kernels_of_unknown_sources_are_dropped(package: Path) -> None:
    (package / "__pycache__" / STAMP).unlink()
    assert drop_stale_kernels(package) == 1


def test_a_kernel_that_another_process_deletes_meanwhile_is_passed_by(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (package / "a.py").write_text("changed")
    unlink = Path.unlink

    def unlink_twice(path: Path, missing_ok: bool = False) -> None:
        unlink(path)
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_twice)
    assert drop_stale_kernels(package) == 1
    assert not list(package.rglob("*.nbi"))


@pytest.fixture
def unwritable_package(tmp_path: Path) -> Iterator[Path]:
    """A copy of the package that not even root can write to, in the folder that it gives."""
    folder = tmp_path / "packages"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(corpusmill.__file__).parent, folder / "corpusmill", ignore=ignored)
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
    places = {"HOME": str(tmp_path / home), "XDG_CACHE_HOME": "", "TMPDIR": str(tmp_path / "temp")}
    program = (
        f"{first}import numpy as np, corpusmill.arrays.randomness as of;"
        "print(of.__file__, of.derive_keys(np.uint64(0), np.zeros(1, np.uint64), 0, 0))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **places, "PYTHONPATH": str(unwritable_package)},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(str(unwritable_package))
    [folder] = (tmp_path / kept_in).rglob("corpusmill-kernels-*")
    assert list(folder.rglob("*.nbi"))
    assert folder.stat().st_mode & 0o077 == 0
