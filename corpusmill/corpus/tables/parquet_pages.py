"""What the pages of a Parquet file say of themselves, read before Arrow decodes them.

Arrow believes the header of a page, whatever the footer says of all pages together: 50 bytes may
claim any number of equal values, and a few kilobytes any amount of text. A header is a structure of
Thrift's compact protocol. Sources: parquet.thrift of https://github.com/apache/parquet-format and
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from collections.abc import Iterator
from io import BytesIO
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from corpusmill.corpus.tables.numbers import read_long
from corpusmill.corpus.tables.table import TableStream

# A header has some 30 bytes, but may hold the smallest and the largest text of its page.
_HEADER_STEPS = (2**10, 2**24)
_DEPTH = 3
_INT32, _STRUCT = 5, 12
# Where the header of each type of page stands; its first field is the number of values.
_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3
_PLACES = {_DATA: 5, _DICTIONARY: 7, _DATA_2: 8}


class Page(NamedTuple):
    """One page of a column chunk.

    Attributes:
        is_dictionary: whether it holds the values that others refer to.
        values: the number of its values, nulls included.
        bytes: its size after decompression.
    """

    is_dictionary: bool
    values: int
    bytes: int


def read_pages(source: TableStream, chunk: pq.ColumnChunkMetaData) -> Iterator[Page]:
    """Yield what the headers of a chunk's pages say, as far as Arrow would read them.

    Args:
        source: the file, which is sought.
        chunk: its description in the footer.

    Raises:
        ValueError: a header is damaged.
    """
    place, values = chunk.data_page_offset, 0
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < place:
        place = chunk.dictionary_page_offset
    while values < chunk.num_values:
        header, size = _read_header(source, place)
        kind: int = header.get(1, -1)
        held = header.get(_PLACES.get(kind, 0), {}).get(1, 0)
        numbers = (header.get(2, -1), header.get(3, -1), held)
        if not all(0 <= number < 2**31 for number in numbers):
            raise ValueError(f"the header of the page at byte {place} is damaged")
        if kind in _PLACES:
            yield Page(kind == _DICTIONARY, held, numbers[0])
        values += held if kind != _DICTIONARY else 0
        place += size + numbers[1]


def _read_header(source: TableStream, place: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a header, and its size."""
    for step in _HEADER_STEPS:
        start = BytesIO(source.read_at(place, step))
        try:
            return _read_struct(start, _DEPTH), start.tell()
        except EOFError:
            if len(start.getvalue()) < step:
                break
    raise ValueError(f"the page at byte {place} has no end")


def _read_struct(stream: BytesIO, depth: int) -> dict[int, Any]:
    """Return the numbers and structures among the fields, by their numbers."""
    fields: dict[int, Any] = {}
    number = 0
    while head := _read_byte(stream):
        step, kind = divmod(head, 16)
        number = number + step if step else read_long(stream)
        if not 0 < number < 2**15:
            raise ValueError("a page has a header with a field that no header has")
        if kind == _INT32:
            fields[number] = read_long(stream)
        elif kind == _STRUCT and depth:
            fields[number] = _read_struct(stream, depth - 1)
        else:
            _skip(stream, kind)
    return fields


def _skip(stream: BytesIO, kind: int) -> None:
    match kind:
        case 1 | 2:  # true and false, which have no bytes
            pass
        case 3:
            _read_byte(stream)
        case 4 | 6:  # other integers
            read_long(stream)
        case 8:  # text
            size = read_long(stream, zigzag=False)
            if size > len(stream.read(size)):
                raise EOFError("a text has no end")
        case _:
            raise ValueError("a page has a header with a field of an unknown type")


def _read_byte(stream: BytesIO) -> int:
    byte = stream.read(1)
    if not byte:
        raise EOFError("the file ends in the header of a page")
    return byte[0]
