"""JSON that holds records in another shape than one after the other, and how it is rewritten.

Programs write a whole table as one object: records in a field of it, or columns, rows or cells by
their names, as `DataFrame.to_json` of pandas does by default.
"""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from corpusmill.corpus.records.record_documents import NoTextError
from corpusmill.errors import option

# Fields inside others are looked into so deep.
_LEVELS = 3
_MARK = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],]', re.DOTALL)
_BY_COLUMNS = "(first(.[]) | keys_unsorted[]) as $row | map_values(.[$row])"
_BY_CELLS = ".columns as $names | .data[] | [$names, .] | transpose | map({(.[0]): .[1]}) | add"
_BY_LISTS = "range(first(.[]) | length) as $row | map_values(.[$row])"
_PANDAS = 'in pandas, to_json(orient="records", lines=True) writes them so'


def close_json(start: str) -> Any:
    """Return what the beginning of a value in JSON holds, without what is cut off, or None.

    Example:
        '{"data": [{"a": 1}, {"a"' gives {"data": [{"a": 1}]}.
    """
    open_marks, end, closing = list[str](), 0, ""
    for mark in _MARK.finditer(start):
        if mark[0] in "{[":
            open_marks.append("}" if mark[0] == "{" else "]")
        elif mark[0] in "}]" and open_marks:
            open_marks.pop()
        if mark[0] in ",}]":
            end = mark.start() if mark[0] == "," else mark.end()
            closing = "".join(reversed(open_marks))
    with suppress(ValueError, RecursionError):
        return json.loads(start[:end] + closing)
    return None


def explain_table(record: dict[str, Any], file: str) -> NoTextError | None:
    """Return why an object is a table of columns, rows or cells; None if it may be a record.

    Args:
        record: the only object of a file.
        file: its path.
    """
    values = [*record.values()]
    inner = values[0] if values and isinstance(values[0], dict) else {}
    if inner and all(isinstance(value, dict) for value in values):
        if _are_numbers(inner) and all(value.keys() == inner.keys() for value in values):
            return _explain(file, "each of its fields holds a column, row by row", _BY_COLUMNS)
        if _are_numbers(record):
            return _explain(file, "each of its fields holds a record", ".[]")
    columns, rows = record.get("columns"), record.get("data")
    if isinstance(columns, list) and isinstance(rows, list) and rows and isinstance(rows[0], list):
        return _explain(file, "its field data is an array of rows without names", _BY_CELLS)
    return None


def explain_records(record: dict[str, Any], file: str) -> NoTextError | None:
    """Return where the records are that an object without a text holds; None if it holds none.

    Args:
        record: the only object of a file.
        file: its path.
    """
    # Of several, as in pandas' "table", the outermost one, or the longest.
    if arrays := sorted(_find_records(record, "", 1)):
        path = arrays[0][2]
        cause = f"its field {path.removeprefix('.')} is an array of records"
        return _explain(file, cause, f"{path}[]")
    lists = [value for value in record.values() if isinstance(value, list)]
    if lists and len(lists) == len(record) and len({*map(len, lists)}) == 1:
        return _explain(file, "each of its fields is an array, of a whole column", _BY_LISTS)
    inner = [value.keys() for value in record.values() if isinstance(value, dict)]
    if len(inner) == len(record) > 1 and all(keys == inner[0] for keys in inner):
        return _explain(file, "each of its fields holds a record", ".[]")
    return None


def _are_numbers(names: dict[str, Any]) -> bool:
    return all(map(str.isdecimal, names))


def _find_records(value: dict[str, Any], path: str, level: int) -> Iterator[tuple[int, int, str]]:
    """Yield how deep arrays of objects are, their lengths below zero, and paths as jq has them."""
    for name, inner in value.items():
        step = f".{name}" if re.fullmatch(r"[A-Za-z_]\w*", name) else f".{json.dumps(name)}"
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            yield level, -len(inner), path + step
        elif isinstance(inner, dict) and level < _LEVELS:
            yield from _find_records(inner, path + step, level + 1)


def _explain(file: str, cause: str, program: str) -> NoTextError:
    command = f"jq -c {shlex.quote(program)} {shlex.quote(file)} > records.jsonl"
    cure = f"Write one record a line, as by: {command} ({_PANDAS})"
    return NoTextError(option("input", file), f"{cause}, and the file has to hold records", cure)
