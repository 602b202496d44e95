"""Small data sets of all objectives, built once per session, and an empty cache folder."""

from pathlib import Path

import pytest

from tests.tools.small_datasets import OBJECTIVES, Recipe, write_dataset


def _write(name: str, folders: pytest.TempPathFactory) -> Path:
    folder = folders.mktemp(name) / "out"
    write_dataset(folder, Recipe(OBJECTIVES[name]))
    return folder


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set with static masks; like all of these it has 3 + 1 shards."""
    return _write("bert", tmp_path_factory)


@pytest.fixture(scope="session")
def bert_dynamic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set with words to mask at load time (`seg_labels`)."""
    return _write("bert_dynamic", tmp_path_factory)


@pytest.fixture(scope="session")
def ernie(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write("ernie", tmp_path_factory)


@pytest.fixture(scope="session")
def electra(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write("electra", tmp_path_factory)


@pytest.fixture(scope="session")
def gpt_stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set whose rows are documents."""
    return _write("gpt_stream", tmp_path_factory)


@pytest.fixture(scope="session")
def gpt_windows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return windows of at most 48 tokens that overlap by 8."""
    return _write("gpt_windows", tmp_path_factory)


@pytest.fixture(scope="session")
def gpt_pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return packed rows of at most 64 tokens, with `cu_seqlens`."""
    return _write("gpt_pack", tmp_path_factory)


@pytest.fixture
def cache_folder(tmp_path: Path) -> Path:
    """Return a folder for unpacked shards."""
    return tmp_path / "cache"
