"""Data sets for the tests of examples/, built once in a session."""

from collections.abc import Callable
from pathlib import Path

import pytest

from corpusmill.formats.output_options import OutputOptions
from corpusmill.objectives.objective_options import ObjectiveOptions
from tests.tools.packages import quality_rules, quality_rules_site
from tests.tools.small_datasets import Recipe, write_dataset

__all__ = ["quality_rules", "quality_rules_site"]

Builder = Callable[..., Path]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """A function that builds a data set `out` of the bundled sample and returns its parent."""
    built: dict[Recipe, Path] = {}

    def build_once(
        options: ObjectiveOptions,
        output: OutputOptions = OutputOptions(),  # noqa: B008  frozen
    ) -> Path:
        recipe = Recipe(options, output)
        if recipe not in built:
            built[recipe] = tmp_path_factory.mktemp("examples")
            write_dataset(built[recipe] / "out", recipe)
        return built[recipe]

    return build_once


@pytest.fixture(autouse=True)
def _own_cache_and_folder(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep the user's cache and the checkout as they are; tests may change the folder further."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.chdir(tmp_path)
