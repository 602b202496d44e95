"""Small data sets of all objectives, built once a session, and a cache of one's own."""

from pathlib import Path

import pytest

from tests.tools.small_datasets import OBJECTIVES, Recipe, write_small_dataset


def _write(name: str, folders: pytest.TempPathFactory) -> Path:
    return write_small_dataset(folders.mktemp(name) / "out", Recipe(OBJECTIVES[name]))


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Static masks; 3 shards of train and one of validation, as all of these have."""
    return _write("bert", tmp_path_factory)


@pytest.fixture(scope="session")
def bert_dynamic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Whole words to mask at load time (`seg_labels`)."""
    return _write("bert_dynamic", tmp_path_factory)


@pytest.fixture(scope="session")
def ernie(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write("ernie", tmp_path_factory)


@pytest.fixture(scope="session")
def electra(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write("electra", tmp_path_factory)


@pytest.fixture(scope="session")
def gpt_stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A row is a document."""
    return _write("gpt_stream", tmp_path_factory)


@pytest.fixture(scope="session")
def gpt_windows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """At most 48 tokens, of which 8 are shared."""
    return _write("gpt_windows", tmp_path_factory)


@pytest.fixture(scope="session")
def gpt_pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of at most 64 tokens, with `cu_seqlens`."""
    return _write("gpt_pack", tmp_path_factory)


@pytest.fixture
def cache_folder(tmp_path: Path) -> Path:
    """Where unpacked shards go."""
    return tmp_path / "cache"
