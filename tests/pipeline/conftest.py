from pathlib import Path

import pytest

from tests.tools.buckets import bucket
from tests.tools.running_job import LONG

__all__ = ["bucket", "long_text", "output"]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "new" / "out"


@pytest.fixture(scope="module")
def long_text(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text that a job is still at work on when a test stops it."""
    file = tmp_path_factory.mktemp("long") / "text"
    file.write_bytes(sample.read_bytes() * LONG)
    return file
