"""Packages as pip installs them, from the pages that describe how they are written."""

import os
import tomllib
from pathlib import Path

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
