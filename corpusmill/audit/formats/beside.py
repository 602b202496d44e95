"""Indexes, and the files of a folder that belong to each."""

import posixpath
from pathlib import PurePosixPath

from corpusmill.audit.token_files import TokenFolder


def find_beside(folder: TokenFolder, index: str, mark: str = "") -> dict[str, list[str]]:
    """Find indexes by their name, with the files below them whose names hold a mark.

    A file belongs to the index that is nearest, as an index of several folders names what the
    indexes of these name, too.
    """
    files = dict[str, list[str]]()
    for file in folder.sizes:
        indexes = (str(parent / index) for parent in PurePosixPath(file).parents)
        nearest = next((name for name in indexes if name in folder.sizes), file)
        if nearest != file and mark in posixpath.basename(file):
            files.setdefault(nearest, []).append(file)
    return files


def join_beside(folder: TokenFolder, index: str, *names: str) -> str:
    """Return the first of some files that are beside an index and in the folder.

    Raises:
        FileNotFoundError: there is none.
    """
    for name in names:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(index), name))
        if path in folder.sizes:
            return path
    raise FileNotFoundError("its index names it, and it is not in the folder")
