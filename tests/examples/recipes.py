"""The code blocks of examples/README.md, to be run as their readers run them."""

import os
import re
from pathlib import Path
from typing import Any

from tests.conftest import CHECKOUT

PAGE = CHECKOUT / "examples" / "README.md"

_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read_blocks(page: Path = PAGE) -> dict[str, list[str]]:
    """The Python of each section that has any, by its heading."""
    _, *parts = _HEADING.split(page.read_text())
    sections = zip(parts[::2], parts[1::2], strict=True)
    return {heading: found for heading, text in sections if (found := _BLOCK.findall(text))}


def run_recipes(folder: Path, *recipes: str) -> dict[str, Any]:
    """Go to a folder where `out` is, and run blocks there, one behind the other.

    Args:
        folder: where to go; fixtures of pytest come back from it.
        recipes: headings; "GPT 2" is the second block of that section alone.

    Returns:
        The names that they have defined.
    """
    os.chdir(folder)
    names: dict[str, Any] = {"__name__": "recipe"}
    for recipe in recipes:
        exec(compile(find_code(recipe), recipe, "exec"), names)  # noqa: S102  our own page's
    return names


def find_code(recipe: str) -> str:
    """The code of a section, or of one of its blocks."""
    heading, _, number = recipe.rpartition(" ")
    blocks = read_blocks()
    if number.isdigit():
        return blocks[heading][int(number) - 1]
    return "\n".join(blocks[recipe])
