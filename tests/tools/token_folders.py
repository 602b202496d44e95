"""Folders of token files, as `corpusmill audit` reads them."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from corpusmill.audit.token_files import (
    DAMAGE,
    TOKEN_FORMATS,
    TokenFile,
    TokenFolder,
    TokenRows,
    explain,
)
from corpusmill.location import locate

Rows = list[list[int]]


class ReadFile(NamedTuple):
    """What a reader gives of a token file.

    Attributes:
        rows: the ids of each row, whose pieces are joined.
        columns: the values of each row, by what they tell.
        numbers: those of the rows in their file.
        faults: what is wrong, the error of opening it among it.
        file: as it was opened; None if it could not be.
    """

    rows: Rows
    columns: dict[str, Rows]
    numbers: list[int]
    faults: list[str]
    file: TokenFile | None


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
            files[file] = ReadFile([], {}, [], [explain(error)], None)
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
    return ReadFile(rows, columns, numbers, faults, files[-1].file)


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
    return ReadFile(rows, columns, numbers, file.faults, file)


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
