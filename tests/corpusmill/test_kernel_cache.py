import os
from pathlib import Path

import pytest

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
