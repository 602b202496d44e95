"""The manifest of a data set, and where its files are."""

from fnmatch import fnmatchcase
from pathlib import Path

from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.shards import read_manifest
from corpusmill.location import locate


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
