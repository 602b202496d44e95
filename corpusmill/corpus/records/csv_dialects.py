"""The dialects of CSV and TSV files: what separates cells, and what quotes mean in them.

No file says which dialect it has. The beginning of a file tells it: in the right one, rows have as
many cells as the header. `csv.Sniffer` knows no quotes that are letters or stand after a backslash.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

# "double" writes a quote within quotes twice, "backslash" after a backslash.
Quotes = Literal["double", "backslash", "none"]
SEPARATORS = (",", ";", "\t", "|")
# So many show whether a file is a table.
_MOST_LINES = 1000
_MOST_CELL = 2**31 - 1
Rows = list[list[str]]


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
        # The limit is one of the process. What bounds a cell is the length of its row.
        csv.field_size_limit(_MOST_CELL)
        options: dict[str, Any] = {}
        if self.quotes == "none":
            options["quoting"] = csv.QUOTE_NONE
        if self.quotes == "backslash":
            options |= {"escapechar": "\\", "doublequote": False}
        return csv.reader(lines, delimiter=self.separator, strict=True, **options)


def list_lines(text: str, is_whole: bool) -> list[str]:
    """Return the complete lines of a text, with their ends."""
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", text)
    return lines if is_whole or text.endswith("\n") else lines[:-1]


def find_dialect(
    text: str, is_whole: bool, separator: str | None, quotes: Quotes | None, text_field: str
) -> tuple[Dialect, Rows]:
    """Find the dialect of a table.

    Args:
        text: the beginning of the file.
        is_whole: whether that is all of it.
        separator: the separator; None for the one that the header shows.
        quotes: what quotes mean; None for what the rows show.
        text_field: the name of the column of texts, or what may be it.

    Returns:
        The dialect in which most rows have as many cells as the header, and the first rows that are
        not blank, the header first; a row that cannot be read has no cells.
    """
    lines = list_lines(text, is_whole)[:_MOST_LINES]
    if not separator:
        header = next((line for line in lines if line.strip()), text).rstrip("\r\n")
        names = {one: [cell.strip().strip('"') for cell in header.split(one)] for one in SEPARATORS}
        separator = max(SEPARATORS, key=lambda one: (text_field in names[one], len(names[one])))
    meanings: tuple[Quotes, ...] = (quotes,) if quotes else ("double", "none")
    if not quotes and ('\\"' in text or f"\\{separator}" in text):
        # Rows that fit with backslashes as letters, too, are taken to have them for quotes.
        has_bare = _has_bare_quotes(text, separator)
        meanings = ("double", "backslash", "none") if has_bare else ("backslash", *meanings)
    dialects = [Dialect(separator, meaning) for meaning in meanings]
    tables = [(dialect, [*_read_rows(lines, dialect, is_whole)]) for dialect in dialects]
    return max(tables, key=lambda table: _measure_fit(*table))


def _measure_fit(dialect: Dialect, rows: Rows) -> tuple[float, int]:
    """Return the share of the rows that have as many cells as the header, and then their number."""
    if dialect.quotes == "none":
        # Quotes are no letters where more cells have them at both ends than at one.
        ends = [(cell[:1] + cell[1:][-1:]).count('"') for row in rows for cell in row]
        if ends.count(2) > ends.count(1):
            return 0.0, 0
    fitting = sum(len(row) == len(rows[0]) for row in rows)
    # Any line fits where there is one column.
    return fitting / max(1, len(rows)), fitting if rows and len(rows[0]) > 1 else 0


def _has_bare_quotes(text: str, separator: str) -> bool:
    """Whether a quote within a cell has no backslash before it."""
    ends = rf"[{re.escape(separator)}\r\n]"
    return bool(re.search(rf'(?<![\\\r\n])(?<!{re.escape(separator)})"(?!{ends}|\Z)', text[1:]))


def _read_rows(lines: Sequence[str], dialect: Dialect, is_whole: bool) -> Iterator[list[str]]:
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
            if is_whole or base + reader.line_num < len(lines):
                yield []
            start += 1
