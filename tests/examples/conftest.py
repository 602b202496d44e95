"""Data sets that the programs and recipes of examples/ are tried with, built once a session."""

from collections.abc import Callable
from pathlib import Path

import pytest

from corpusmill.objectives.objective import ObjectiveOptions
from tests.corpusmill.reading.small_datasets import Recipe, write_small_dataset

Builder = Callable[[ObjectiveOptions], Path]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """Builds a data set of the bundled sample, or gives the one that was built before."""
    built: dict[ObjectiveOptions, Path] = {}

    def build_once(options: ObjectiveOptions) -> Path:
        if options not in built:
            folder = tmp_path_factory.mktemp("examples") / "out"
            built[options] = write_small_dataset(folder, Recipe(options))
        return built[options]

    return build_once


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpacked shards go where they are removed again, and not into the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
