"""The dialects of CSV and TSV files: what separates cells, and what quotes mean in them.

No file says which dialect it has. The beginning of a file tells it: in the right one, all rows have
as many cells as the header.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

# "double" writes a quote within quotes twice, "backslash" after a backslash.
Quotes = Literal["double", "backslash", "none"]
SEPARATORS = (",", ";", "\t", "|")
# So many show whether a file is a table.
_MOST_LINES = 1000


class Dialect(NamedTuple):
    """A dialect.

    Attributes:
        separator: the character between cells.
        quotes: what quotes mean.
    """

    separator: str = ","
    quotes: Quotes = "double"

    def read_rows(self, lines: Iterable[str]) -> Any:
        """Return the reader of Python's `csv` for lines with their ends; it is strict."""
        options: dict[str, Any] = {}
        if self.quotes == "none":
            options["quoting"] = csv.QUOTE_NONE
        if self.quotes == "backslash":
            options |= {"escapechar": "\\", "doublequote": False}
        return csv.reader(lines, delimiter=self.separator, strict=True, **options)


class Rows(NamedTuple):
    """The first rows of a table, as a dialect has them.

    Attributes:
        cells: the number of cells in each row, the header first; empty if one cannot be read.
        has_long: whether a cell goes on over the end of a line.
        enclosed: how many cells begin and end with a quote more often than at one end alone.
    """

    cells: Sequence[int]
    has_long: bool
    enclosed: int

    @property
    def are_right(self) -> bool:
        """Whether all rows have as many cells as the header, and no quotes around them."""
        return len({*self.cells}) == 1 and self.enclosed <= 0


def list_lines(text: str, is_whole: bool) -> list[str]:
    """Return the complete lines of a text, with their ends."""
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", text)
    return lines if is_whole or text.endswith("\n") else lines[:-1]


def measure_rows(lines: Sequence[str], dialect: Dialect, is_whole: bool) -> Rows:
    """Read the first rows of a table in a dialect.

    Args:
        lines: its first lines, with their ends.
        dialect: the dialect.
        is_whole: whether these are all lines; if not, the last row may have no end.
    """
    reader, cells, ends = dialect.read_rows(iter(lines)), list[int](), [0]
    enclosed = 0
    try:
        for row in reader:
            if row:
                cells.append(len(row))
            ends.append(reader.line_num)
            if dialect.quotes == "none":
                for cell in row:
                    quotes = cell[:1].count('"') + cell[1:][-1:].count('"')
                    enclosed += (0, -1, 1)[quotes]
    except csv.Error:
        if is_whole or reader.line_num < len(lines):
            cells = []
        ends.append(reader.line_num)
    return Rows(cells, any(end - begin > 1 for begin, end in pairwise(ends)), enclosed)


def find_separator(header: str, text_field: str) -> str:
    """Return what separates the cells of a header.

    Args:
        header: the first line.
        text_field: a name that is one of its cells, or may be.

    Example:
        "id;text" and "text" give ";".
    """
    names = {one: [cell.strip().strip('"') for cell in header.split(one)] for one in SEPARATORS}
    return max(SEPARATORS, key=lambda one: (text_field in names[one], len(names[one])))


def find_dialect(
    text: str, is_whole: bool, separator: str | None, quotes: Quotes | None, text_field: str
) -> Dialect:
    """Find the dialect of a table.

    Args:
        text: the beginning of the file.
        is_whole: whether that is all of it.
        separator: the separator; None for the one that the header shows.
        quotes: what quotes mean; None for what the rows show.
        text_field: the name of the column of texts.

    Returns:
        The dialect in which all rows have as many cells as the header, with quotes that are
        doubled if there is none or several.
    """
    lines = list_lines(text, is_whole)
    header = next((line for line in lines if line.strip()), text)
    separator = separator or find_separator(header.rstrip("\r\n"), text_field)
    if quotes:
        return Dialect(separator, quotes)
    double, backslash, none = (Dialect(separator, each) for each in get_args(Quotes))
    candidates = (double, backslash, none) if _has_escapes(text, separator) else (double, none)
    rows = {dialect: measure_rows(lines, dialect, is_whole) for dialect in candidates}
    good = [dialect for dialect in candidates if rows[dialect].are_right]
    # Rows that are right line by line have no cells of several lines, and so no quotes. Any line is
    # right where there is one column.
    if none in good and rows[good[0]].has_long and rows[none].cells[0] > 1:
        return none
    if backslash in good and not _has_bare_quotes(text, separator):
        return backslash
    return good[0] if good else double


def _has_escapes(text: str, separator: str) -> bool:
    """Whether a backslash stands before a quote or a separator."""
    return '\\"' in text or f"\\{separator}" in text


def _has_bare_quotes(text: str, separator: str) -> bool:
    """Whether a quote within a cell has no backslash before it."""
    ends = rf"[{re.escape(separator)}\r\n]"
    return bool(re.search(rf'(?<![\\\r\n])(?<!{re.escape(separator)})"(?!{ends}|\Z)', text[1:]))


def list_rows(text: str, is_whole: bool, separator: str) -> list[list[str]]:
    """Return the first rows of a table, in the dialect in which most have as many cells.

    Args:
        text: the beginning of a file.
        is_whole: whether that is all of it.
        separator: the separator.

    Returns:
        The rows that are not blank, the header first; a row that cannot be read has no cells.
    """
    lines = list_lines(text, is_whole)[:_MOST_LINES]
    tables = [[*_read_rows(lines, Dialect(separator, quotes))] for quotes in get_args(Quotes)]
    return max(tables, key=lambda rows: sum(len(row) == len(rows[0]) for row in rows))


def _read_rows(lines: Sequence[str], dialect: Dialect) -> Iterator[list[str]]:
    """Yield rows; after one that fails, the line after its first line begins the next one."""
    start = 0
    while start < len(lines):
        reader, base = dialect.read_rows(iter(lines[start:])), start
        try:
            for row in reader:
                start = base + reader.line_num
                if row:
                    yield row
        except csv.Error:
            if base + reader.line_num < len(lines):
                yield []
            start += 1
