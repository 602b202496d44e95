"""The figures of tables as numbers, in a file, and their comparison with the last ones.

What is compared is time: processor seconds, or in tables without them rates. The ways of others in
the same table are the control. Their code is as it was, so that their times tell by how much the
machine is slower than the last time, and how widely it swings: a figure of ours is slower if its
time, beside theirs, has grown by more than a tenth and by more than that of any of theirs, in two
measurements of the table.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

# How the names of rows and columns begin whose code is not ours.
_OTHERS = (
    "the article's way", "import apache_beam", "Hugging Face", "tiktoken", "tokenizers ",
    "gigatoken", "fastokens", "rustbpe", "bare loop", "Arrow's writer", "protobuf", "fastavro",
    "datasets,", "LitData", "MosaicML", "nanoGPT",
)  # fmt: skip
_PROCESSOR = "processor seconds"
# Larger is faster.
_RATES = ("examples/s", "MB/s", "written/s", "read/s")
# The first of these words in a heading is its unit.
_UNITS = (
    "times", "share", *_RATES, "tokens/s", "bytes/example", _PROCESSOR, "seconds", "MiB", "MB",
    "bytes", "examples", "s",
)  # fmt: skip
_CELL = re.compile(r"([+-]?[\d,]*\.?\d+) ?(%|[kM]?B)?")
_SLOWER = 1.1


@dataclass(frozen=True)
class Figure:
    """A number of a table.

    Attributes:
        row: the row's name; if several rows have it, with their second cell.
        column: the column's heading.
        value: the number.
        unit: that of the cell, else of the column, else of the table.
    """

    row: str
    column: str
    value: float
    unit: str

    @property
    def is_other(self) -> bool:
        """Whether it is about the code of others."""
        return self.row.startswith(_OTHERS) or self.column.startswith(_OTHERS)


class Change(NamedTuple):
    """How a figure of ours has changed.

    Attributes:
        figure: the new one.
        last: the last value.
        factor: its time, relative to the last one, beside the ways of others in the table.
        noise: by what factor a way of others has become slower beside the rest of them.
    """

    figure: Figure
    last: float
    factor: float
    noise: float

    @property
    def is_slower(self) -> bool:
        """Whether it takes a tenth longer, and more than the noise explains."""
        return self.factor > max(_SLOWER, self.noise)

    def __str__(self) -> str:
        """Return what has changed."""
        figure = self.figure
        return (
            f"{figure.row}, {figure.column}: {self.last:,g} -> {figure.value:,g} {figure.unit}, "
            f"{self.factor:.2f} times as long"
        )


def read_figures(tables: str) -> list[Figure]:
    """Return the numbers of tables in Markdown, as `print_table` prints them."""
    return [figure for table in re.split("\n{2,}", tables.strip()) for figure in _read_table(table)]


def _read_table(table: str) -> Iterator[Figure]:
    lines = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()]
    [title, *headings], rows = lines[0], lines[2:]
    names = [row[0] for row in rows]
    for name, *cells in rows:
        full = f"{name}, {cells[0]}" if names.count(name) > 1 else name
        for heading, cell in zip(headings, cells, strict=False):
            if number := _CELL.fullmatch(cell):
                unit = number[2] or _unit_of(heading) or _unit_of(title)
                yield Figure(full, heading, float(number[1].replace(",", "")), unit)


def _unit_of(heading: str) -> str:
    words = f" {heading} ".replace(":", " ")
    return next((unit for unit in _UNITS if f" {unit} " in words), "")


def compare(last: Sequence[Figure], now: Sequence[Figure]) -> list[Change]:
    """Return the changes of our times in one table; others' and new figures are not among them."""
    units = (_PROCESSOR,) if _PROCESSOR in {figure.unit for figure in now} else _RATES
    before = {(figure.row, figure.column, figure.unit): figure.value for figure in last}
    times = {}
    for figure in now:
        value = before.get((figure.row, figure.column, figure.unit))
        if figure.unit in units and value and figure.value:
            ratio = figure.value / value
            times[figure] = ratio if figure.unit == _PROCESSOR else 1 / ratio
    others = [ratio for figure, ratio in times.items() if figure.is_other]
    drift = median(others or [1.0])
    noise = max(others, default=drift) / drift
    return [
        Change(figure, before[figure.row, figure.column, figure.unit], ratio / drift, noise)
        for figure, ratio in times.items()
        if not figure.is_other
    ]


def compare_tables(last: Mapping[str, Any] | None, now: Mapping[str, Any]) -> list[Change]:
    """Return the changes between two tables as `write_table` writes them."""
    figures = [[Figure(**one) for one in table["figures"]] for table in (last, now) if table]
    return compare(*figures) if last else []


def find_slower(changes: Sequence[Change]) -> set[tuple[str, str]]:
    """Return the rows and columns of the figures that are slower."""
    return {(each.figure.row, each.figure.column) for each in changes if each.is_slower}


def tell(
    last: Mapping[str, Any] | None, now: Mapping[str, Any], before: AbstractSet[tuple[str, str]]
) -> Iterator[tuple[str, bool]]:
    """Yield lines about a table, each with whether it is about a figure that is slower.

    Args:
        last: what `write_table` wrote for it on this machine, if it did.
        now: what is written now.
        before: the figures that were slower in the measurement before this one, too; no others are.
    """
    changes = compare_tables(last, now)
    if last is None or not changes:
        yield "nothing to compare on this machine", False
        return
    versions = last["versions"]
    renewed = [
        f"{name} {versions.get(name)} -> {number}"
        for name, number in now["versions"].items()
        if versions.get(name) != number
    ]
    compared = f"{len(changes)} times compared with those of {last['day']}"
    yield "; ".join([compared, *renewed]), False
    slower = find_slower(changes) & before
    for change in changes:
        if change.factor > _SLOWER:
            is_slower = (change.figure.row, change.figure.column) in slower
            yield f"{change}: {'slower' if is_slower else 'perhaps slower, or noise'}", is_slower


def read_tables(path: Path, machine: Mapping[str, Any]) -> dict[str, Any]:
    """Return the last tables of a machine, by name; there may be none.

    Args:
        path: of the file of figures, which may be missing.
        machine: describes it; those of others are not returned.
    """
    return next((each["tables"] for each in _read(path) if each["machine"] == machine), {})


def write_table(path: Path, machine: Mapping[str, Any], name: str, table: object) -> None:
    """Write a table in place of the machine's last one; all other tables stay in the file."""
    tables = {**read_tables(path, machine), name: table}
    others = [each for each in _read(path) if each["machine"] != machine]
    text = json.dumps([*others, {"machine": machine, "tables": tables}], indent=1)
    path.write_text(f"{text}\n", encoding="utf-8")


def _read(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []
