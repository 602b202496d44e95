"""The recipes in docs/how-to, run as users run them."""

import os
import re
from pathlib import Path
from typing import Any

from tests.conftest import CHECKOUT

PAGES = tuple(
    CHECKOUT / "docs" / "how-to" / f"{name}.md"
    for name in (
        "read-in-pytorch",
        "read-with-trainer-and-lightning",
        "read-in-other-frameworks",
    )
)

_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
_BLOCK = re.compile(r"^```python(?: title=\"needs [^\"]*\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read_blocks(*pages: Path) -> dict[str, list[str]]:
    """Return the Python blocks of each section that has some, by its heading.

    Args:
        pages: by default those of the recipes.
    """
    blocks = {}
    for page in pages or PAGES:
        _, *parts = _HEADING.split(page.read_text(encoding="utf-8"))
        sections = zip(parts[::2], parts[1::2], strict=True)
        blocks.update({name: found for name, text in sections if (found := _BLOCK.findall(text))})
    return blocks


def run_recipes(folder: Path, *recipes: str) -> dict[str, Any]:
    """Change to the folder with the data set `out`, and run blocks there in order.

    Args:
        folder: the folder; a fixture changes back.
        recipes: headings; "GPT 2" is only the second block of that section.

    Returns:
        The names that the blocks have defined.
    """
    os.chdir(folder)
    names: dict[str, Any] = {"__name__": "recipe"}
    for recipe in recipes:
        exec(compile(find_code(recipe), recipe, "exec"), names)  # noqa: S102  the code of our page
    return names


def find_code(recipe: str) -> str:
    """Return the code of a section, or of one of its blocks."""
    heading, _, number = recipe.rpartition(" ")
    blocks = read_blocks()
    if number.isdigit():
        return blocks[heading][int(number) - 1]
    return "\n".join(blocks[recipe])
