"""Folders of token files, as `corpusmill audit` reads them, and damages of them."""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from corpusmill.audit.token_files import (
    DAMAGE,
    TOKEN_FORMATS,
    TokenFile,
    TokenFolder,
    TokenRows,
    explain,
)
from corpusmill.location import locate
from tests.tools.table_rows import check_rows

Rows = list[list[int]]
Edit = Callable[[bytes], bytes | None]
# The file that is changed, how, the rows that are read nevertheless, and a part of a fault.
Damage = tuple[str, Edit, Rows, str]


class ReadFile(NamedTuple):
    """What a reader gives of a token file.

    Attributes:
        rows: the ids of each row, whose pieces are joined.
        columns: the values of each row, by what they tell.
        numbers: those of the rows in their file.
        faults: what is wrong, the error of opening it among it.
        files: as they were opened.
    """

    rows: Rows
    columns: dict[str, Rows]
    numbers: list[int]
    faults: list[str]
    files: list[TokenFile]


def read_files(
    path: Path | str, name: str, dtype: str | None = None, every: int = 1
) -> dict[str, ReadFile]:
    """Read all files of a format in a folder, by their names in it."""
    location = locate(str(path))
    folder = TokenFolder(location, location.list(), dtype)
    token_format = TOKEN_FORMATS[name]
    files = {}
    for file, belonging in token_format.find(folder).items():
        assert all(other in folder.sizes for other in belonging)
        try:
            opened = token_format.open(folder, file)
        except DAMAGE as error:
            files[file] = ReadFile([], {}, [], [explain(error)], [])
        else:
            assert all(one.name.startswith(str(path)) for one in opened)
            files[file] = _join([_read(one, every) for one in opened])
    return files


def _join(files: list[ReadFile]) -> ReadFile:
    """Return the files of an index as one."""
    columns: dict[str, Rows] = {}
    for file in files:
        for name, values in file.columns.items():
            columns.setdefault(name, []).extend(values)
    rows = [row for file in files for row in file.rows]
    numbers = [number for file in files for number in file.numbers]
    faults = [fault for file in files for fault in file.faults]
    return ReadFile(rows, columns, numbers, faults, [file.files[0] for file in files])


def _read(file: TokenFile, every: int) -> ReadFile:
    rows, numbers = list[list[int]](), list[int]()
    columns: dict[str, Any] = {}
    for some in _list_rows(file, every):
        offsets = some.offsets.tolist()
        assert offsets[0] == 0
        assert offsets[-1] == len(some.ids)
        bounds = list(pairwise(offsets))
        for column in [None, *some.columns]:
            values = (some.ids if column is None else some.columns[column]).tolist()
            target = rows if column is None else columns.setdefault(str(column), [])
            parts = [values[begin:end] for begin, end in bounds]
            if parts and not some.is_begun:
                target[-1] += parts.pop(0)
            target += parts
        first = some.first + (0 if some.is_begun else 1)
        numbers += range(first, some.first + len(bounds))
    assert file.format
    # Only where segments change is told.
    for row in columns.get("segments", ()):
        row[:] = [number - row[0] for number in row]
    return ReadFile(rows, columns, numbers, file.faults, [file])


def _list_rows(file: TokenFile, every: int) -> Iterator[TokenRows]:
    """Yield the rows; an error that the audit expects of a reader is a fault."""
    try:
        yield from file.read(every)
    except DAMAGE as error:
        file.faults.append(explain(error))


def read_file(path: Path | str, name: str, dtype: str | None = None, every: int = 1) -> ReadFile:
    """Read the one file of a format in a folder."""
    [file] = read_files(path, name, dtype, every).values()
    return file


def lose(_: bytes) -> None:
    """Return that a file is deleted."""


def empty(_: bytes) -> bytes:
    """Return nothing of a file."""
    return b""


def cut(number: int) -> Edit:
    """Return what takes away the last bytes."""
    return lambda content: content[:-number]


def put(place: int, number: int, dtype: str = "<u4") -> Edit:
    """Return what writes a number over the bytes at a place."""
    new = np.array([number], dtype).tobytes()
    return lambda content: content[:place] + new + content[place + len(new) :]


def swap(old: str | bytes, new: str | bytes) -> Edit:
    """Return what replaces some bytes once."""
    before, after = (text.encode() if isinstance(text, str) else text for text in (old, new))
    return lambda content: content.replace(before, after, 1)


def check_damages(
    tmp_path: Path,
    name: str,
    write: Callable[[Path], object],
    damages: Iterable[Damage],
    dtype: str | None = None,
) -> None:
    """Check that each damage is a fault with a cause in words, and that the rest is read.

    Args:
        tmp_path: a folder for all of them.
        name: of the format.
        write: writes the files to a folder.
        damages: of the files; one whose edit returns None is deleted.
        dtype: the type of ids, where the user has given it.
    """

    def check(row: tuple[int, Damage]) -> None:
        number, (path, edit, rows, fault) = row
        folder = tmp_path / f"{name}-{number}"
        folder.mkdir()
        write(folder)
        before = (folder / path).read_bytes()
        after = edit(before)
        assert after != before
        (folder / path).write_bytes(after or b"")
        if after is None:
            (folder / path).unlink()
        file = read_file(folder, name, dtype)
        assert file.rows == rows, (file.rows, file.faults)
        assert any(fault in text for text in file.faults), file.faults
        assert all(len(text.split()) > 2 for text in file.faults), file.faults

    check_rows(enumerate(damages), check)
