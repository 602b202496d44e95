"""What a data set holds, whatever numbers its versions have: a run that starts over has another."""

import hashlib
import re
from pathlib import Path

from corpusmill.dataset.manifest import CARD, MANIFEST
from tests.tools.moments import Tree, read_tree


def number_versions(tree: Tree) -> Tree:
    """Return what a folder with one data set holds as if the numbers of its versions had no gaps.

    Args:
        tree: all that is in the folder.
    """
    names = (re.search(r"(?:^|/)v(\d+)(?=/|$)", name) for name in tree)
    numbers = sorted({int(name[1]) for name in names if name})

    def rename(text: str) -> str:
        return re.sub(r"\bv(\d+)(?=/|$)", lambda name: f"v{_rank(int(name[1]), numbers)}", text)

    renamed = {rename(name): content for name, content in tree.items()}
    for name, content in renamed.items():
        if content is not None and name.rpartition("/")[2] in {MANIFEST, CARD}:
            text = re.sub(r'"(sha256|version)":\s*("\w*"|\d+)', "", content.decode())
            renamed[name] = rename(text).encode()
    return renamed


def _rank(number: int, numbers: list[int]) -> int:
    return numbers.index(number) + 1 if number in numbers else number


def digests_by_version(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file of a data set, by its name with the rank of its version."""
    return {
        name: hashlib.sha256(content).hexdigest()
        for name, content in number_versions(read_tree(folder)).items()
        if content is not None
    }
