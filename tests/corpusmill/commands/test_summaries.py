"""What an objective builds, read from its source."""

from pathlib import Path
from typing import Any

import pytest

from corpusmill.commands.table import read_summary
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.plugins import Plugins


def table(value: str) -> Plugins[Any]:
    return Plugins("corpusmill.tests.none", "objective", {"mine": value}, lambda one: one, "one")


def test_our_objectives_have_the_summary_of_their_class() -> None:
    for name in OBJECTIVES.names:
        assert read_summary(OBJECTIVES, name) == OBJECTIVES[name].summary


def test_a_module_is_read_and_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "package_that_fails" / "inner"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("raise RuntimeError")
    for source, summary in {
        'class Mine:\n    summary = "Build mine."\n': "Build mine.",
        'class Mine:\n    summary: str = (\n"Build " "mine."\n)\n': "Build mine.",
        'class Other:\n    summary = "Build another."\n': "",
        "class Mine:\n    summary = str(1)\n": "",
        "class Mine(\n": "",
    }.items():
        (package / "objective.py").write_text(f"raise RuntimeError\n{source}")
        assert read_summary(table("package_that_fails.inner.objective:Mine"), "mine") == summary
    for module in ("no_such_package.objective", "package_that_fails.inner.none"):
        assert read_summary(table(f"{module}:Mine"), "mine") == ""
