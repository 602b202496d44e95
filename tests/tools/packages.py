"""Packages as pip installs them, from the pages that describe how they are written."""

import os
import re
import tomllib
from pathlib import Path

from tests.conftest import CHECKOUT

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def install(folder: Path, page: str) -> dict[str, str]:
    """Install the packages of a page, and return the environment in which they are found.

    On the page, the code of a package is followed by its pyproject.toml.

    Args:
        folder: where they are installed.
        page: name of the page in docs/how-to.
    """
    folder.mkdir(exist_ok=True)
    code = ""
    for language, content in read_blocks(page):
        if language == "python":
            code = content
        elif language == "toml":
            _install(folder, code, tomllib.loads(content)["project"])
    return environment(folder)


def read_blocks(page: str) -> list[tuple[str, str]]:
    """The language and the content of each block of code of a page of docs/how-to."""
    text = (CHECKOUT / "docs" / "how-to" / page).read_text(encoding="utf-8")
    return [(block[1], block[2]) for block in _BLOCK.finditer(text)]


def environment(*folders: Path) -> dict[str, str]:
    """The environment of a process that finds the packages in these folders and our own."""
    paths = [str(folder) for folder in (*folders, CHECKOUT)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _install(folder: Path, code: str, project: dict[str, object]) -> None:
    name, version = project["name"], project["version"]
    module = str(name).replace("-", "_")
    (folder / f"{module}.py").write_text(code, encoding="utf-8")
    info = folder / f"{module}-{version}.dist-info"
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
