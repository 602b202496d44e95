"""Packages as pip installs them: of the pages that describe them, and of examples/."""

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder

from corpusmill import plugins
from tests.conftest import CHECKOUT
from tests.docs.pages import read_blocks


def install(folder: Path, page: str) -> dict[str, str]:
    """Install the packages of a page, and return the environment in which they are found.

    Args:
        folder: where they are installed.
        page: name of the page in docs/how-to.
    """
    folder.mkdir(exist_ok=True)
    for block in read_blocks(CHECKOUT / "docs" / "how-to" / page):
        name = Path(block.title).name
        if name == "pyproject.toml":
            _register(folder, tomllib.loads(block.code)["project"])
        elif name.endswith(".py"):
            (folder / name).write_text(block.code, encoding="utf-8")
    return environment(folder)


def environment(*folders: Path) -> dict[str, str]:
    """The environment of a process that finds the packages in these folders and our own."""
    paths = [str(folder) for folder in (*folders, CHECKOUT)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


@pytest.fixture(scope="session")
def quality_rules_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked wheel of examples/quality-rules."""
    folder = tmp_path_factory.mktemp("quality-rules")
    builder = WheelBuilder(str(CHECKOUT / "examples" / "quality-rules"))
    [wheel] = builder.build(directory=str(folder / "dist"), versions=["standard"])
    ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


@pytest.fixture
def quality_rules(quality_rules_site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process, and those that it starts, find the filters of examples/quality-rules."""
    monkeypatch.syspath_prepend(quality_rules_site)
    monkeypatch.setenv("PYTHONPATH", environment(quality_rules_site)["PYTHONPATH"])
    plugins.installed_entries.cache_clear()
    yield
    plugins.installed_entries.cache_clear()


def _register(folder: Path, project: dict[str, object]) -> None:
    name, version = project["name"], project["version"]
    info = folder / f"{str(name).replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = project["entry-points"]
    assert isinstance(groups, dict)
    lines = [
        line
        for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{entry} = {value}" for entry, value in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
