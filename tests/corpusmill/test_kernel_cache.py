import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import corpusmill
from corpusmill.kernel_cache import drop_stale_kernels


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A source of time 100, and a cached kernel."""
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "a.py").write_text("")
    (tmp_path / "__pycache__" / "a.nbi").write_text("")
    os.utime(tmp_path / "a.py", (100, 100))
    return tmp_path


@pytest.mark.parametrize(("written", "dropped"), [(99, 1), (100, 0), (101, 0)])
def test_kernels_older_than_a_source_are_dropped(written: int, dropped: int, package: Path) -> None:
    kernel = package / "__pycache__" / "a.nbi"
    os.utime(kernel, (written, written))
    assert drop_stale_kernels(package) == dropped
    assert kernel.exists() == (not dropped)


def test_a_kernel_that_another_process_deletes_meanwhile_is_passed_by(package: Path) -> None:
    # It is listed, and gone when it is looked at.
    (package / "__pycache__" / "b.nbi").symlink_to("nowhere")
    assert drop_stale_kernels(package) == 0
    os.utime(package / "__pycache__" / "a.nbi", (99, 99))
    assert drop_stale_kernels(package) == 2
    assert list((package / "__pycache__").iterdir()) == []


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


@pytest.mark.parametrize("first", ["", "import numba;"])
def test_a_user_without_any_place_to_write_to_has_kernels(
    first: str, unwritable_package: Path, tmp_path: Path
) -> None:
    temp = tmp_path / "temp"
    temp.mkdir()
    nowhere = {"HOME": str(unwritable_package / "home"), "XDG_CACHE_HOME": ""}
    program = (
        f"{first}import numpy as np, corpusmill.randomness as of;"
        "print(of.__file__, of.derive_keys(np.uint64(0), np.zeros(1, np.uint64), 0, 0))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **nowhere, "TMPDIR": str(temp), "PYTHONPATH": str(unwritable_package)},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(str(unwritable_package))
    kept = list(temp.glob("corpusmill-kernels-*/**/*.nbi"))
    assert kept
    [folder] = temp.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
