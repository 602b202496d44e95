from pathlib import Path

import pytest

from tests.buckets import bucket

__all__ = ["bucket", "output"]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "new" / "out"
