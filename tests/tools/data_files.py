"""The manifest of a data set, where its files are, what they hold, and how they are damaged."""

import hashlib
import re
from fnmatch import fnmatchcase
from pathlib import Path

from corpusmill.dataset.manifest import CARD, MANIFEST, Manifest
from corpusmill.dataset.shards import read_manifest
from corpusmill.location import locate
from tests.tools.moments import Tree, read_tree


def manifest_of(folder: Path) -> Manifest:
    """Return the manifest of a data set."""
    return read_manifest(locate(str(folder)))


def find_file(folder: Path, name: str) -> Path:
    """Return where a file of a data set is, of its name without the version that wrote it."""
    return folder / manifest_of(folder).path_of(name)


def find_files(folder: Path, pattern: str) -> list[Path]:
    """Return where the files of a data set are whose names without versions fit a pattern.

    Args:
        folder: the data set.
        pattern: as of the shell, such as "train-*" or "provenance/*"; a star stands for no slash.

    Returns:
        In the order of the names.
    """
    paths = manifest_of(folder).paths
    return [
        folder / paths[name]
        for name in sorted(paths)
        if fnmatchcase(name, pattern) and name.count("/") == pattern.count("/")
    ]


def damage_file(path: Path, kind: str) -> None:
    """Damage a file.

    Args:
        path: the file.
        kind: "cut" leaves its first half, "gone" deletes it, "flipped" flips one bit in the middle,
            "zeroed" keeps its size.
    """
    content = bytearray(path.read_bytes())
    match kind:
        case "cut":
            content = content[: len(content) // 2]
        case "flipped":
            content[len(content) // 2] ^= 4
        case "zeroed":
            content = bytearray(len(content))
    path.unlink()
    if kind != "gone":
        path.write_bytes(content)


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
