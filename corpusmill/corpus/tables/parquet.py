"""Parquet files: a row group is a block, and only the text column and kept columns are read.

What the pages of a file say of themselves is read before Arrow decodes them. Arrow believes the
header of a page, whatever the footer says of all pages together: 50 bytes may claim any number of
equal values, and a few kilobytes any amount of text. A header is a structure of Thrift's compact
protocol. Sources: parquet.thrift of https://github.com/apache/parquet-format and
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from corpusmill.corpus.batches import UnreadableError
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.tables import table
from corpusmill.corpus.tables.table import TableStream, read_long
from corpusmill.limits import LIMITS, RefusalLimits

# A header has some 30 bytes, but may hold the smallest and the largest text of its page.
_USUAL_HEADER_BYTES = 2**10
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


def read_pages(
    source: TableStream,
    chunk: pq.ColumnChunkMetaData,
    most_bytes: int = LIMITS.refusals.parquet_header_bytes,
) -> Iterator[Page]:
    """Yield what the headers of a chunk's pages say, as far as Arrow would read them.

    Args:
        source: the file, which is sought.
        chunk: its description in the footer.
        most_bytes: the bytes in which the end of a header is looked for.

    Raises:
        ValueError: a header is damaged, or has no end.
    """
    place, values = chunk.data_page_offset, 0
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < place:
        place = chunk.dictionary_page_offset
    while values < chunk.num_values:
        header, size = _read_header(source, place, most_bytes)
        kind: int = header.get(1, -1)
        held = header.get(_PLACES.get(kind, 0), {}).get(1, 0)
        numbers = (header.get(2, -1), header.get(3, -1), held)
        if not all(0 <= number < 2**31 for number in numbers):
            raise ValueError(f"the header of the page at byte {place} is damaged")
        if kind in _PLACES:
            yield Page(kind == _DICTIONARY, held, numbers[0])
        values += held if kind != _DICTIONARY else 0
        place += size + numbers[1]


def _read_header(source: TableStream, place: int, most_bytes: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a header, and its size."""
    for step in (_USUAL_HEADER_BYTES, most_bytes):
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


def _is_in(path: str, name: str) -> bool:
    """Whether a column of the file belongs to a field."""
    return f"{path}.".startswith(f"{name}.")


class ParquetTable:
    """A Parquet file, as a `corpusmill.corpus.tables.table.Table`.

    Args:
        stream: the file.
        size: its bytes.
        options: with the names of the columns to read.
        limits: what is too large, and how much is decoded at once.

    Raises:
        UnreadableError: its footer cannot be read.
    """

    def __init__(
        self,
        stream: table.TableStream,
        size: int,
        options: DocumentOptions,
        limits: RefusalLimits,
    ) -> None:
        self._stream, self._size = stream, size
        self._max_line_bytes, self._limits = options.max_line_bytes, limits
        with stream.damage_is("damaged-file"):
            # With a buffer a column chunk is read in steps, however large it is; with pre_buffer
            # it would be read at once.
            self._file = pq.ParquetFile(
                pa.PythonFile(stream, mode="r"),
                pre_buffer=False,
                buffer_size=limits.decoded_bytes,
                page_checksum_verification=True,
            )
            self.fields = table.fields_of_schema(self._file.schema_arrow, options)
            columns = self._file.schema
            leaves = [columns.column(number).path for number in range(len(columns))]
        # The other columns are not touched: Arrow ends the process if the footer's description of
        # a column is damaged, and a table may have thousands of columns.
        self._names = [".".join(path) for path in self.fields.paths]
        # A nested column is several columns of the file. Arrow takes all whose paths begin so.
        self._leaves = [
            number
            for number, path in enumerate(leaves)
            if any(_is_in(path, name) for name in self._names)
        ]
        # Where the rows of a group are said to lie.
        has_text = self.fields.text and not self.fields.held
        begins = (
            number for number in self._leaves if has_text and _is_in(leaves[number], self._names[0])
        )
        self._column = next(begins, 0)

    def blocks(self) -> Iterator[table.Block]:
        """Yield the row groups; each lies where its text does."""
        end = 0
        for index in range(self._file.num_row_groups if len(self._file.schema) else 0):
            group = self._file.metadata.row_group(index)
            chunk = group.column(self._column)
            start, rows = chunk.data_page_offset, max(0, group.num_rows)
            if chunk.has_dictionary_page:
                start = min(start, chunk.dictionary_page_offset)
            # The row groups of an unusual footer need not be in the order of the file.
            end = min(max(end, start), self._size - 1)
            fault = self._find_fault(self._chunks(group), rows)
            yield table.Block(index, end, chunk.total_compressed_size, rows, fault)

    def _find_fault(
        self, chunks: list[pq.ColumnChunkMetaData], rows: int
    ) -> UnreadableError | None:
        """Return why chunks are too large to be read, as the footer has it."""
        size = sum(chunk.total_uncompressed_size for chunk in chunks)
        stored = sum(chunk.total_compressed_size for chunk in chunks)
        if size > self._limits.block_bytes * max(1, rows):
            return table.too_large(size, self._limits.block_bytes)
        limit = table.limit_decoded(stored, self._max_line_bytes, self._limits)
        return table.out_of_proportion(stored, limit) if size > limit else None

    def _chunks(self, group: pq.RowGroupMetaData) -> list[pq.ColumnChunkMetaData]:
        """Return what is read of a row group."""
        return [group.column(number) for number in self._leaves]

    def texts(self, block: table.Block) -> Iterator[table.TextRows]:
        """Yield the rows of a row group, about a megabyte at a time."""
        with self._stream.damage_is("damaged-block"):
            chunks = self._chunks(self._file.metadata.row_group(block.index))
            size = sum(chunk.total_uncompressed_size for chunk in chunks)
            rows = max(1, self._limits.decoded_bytes * block.rows // max(1, size))
            limit = min(map(self._limit_rows, chunks))
            batches = self._file.iter_batches(
                min(rows, limit), [block.index], self._names, use_threads=False
            )
            for batch in batches:
                yield from table.slice_batch(batch, self.fields, self._limits)

    def _limit_rows(self, chunk: pq.ColumnChunkMetaData) -> int:
        """Return how many rows may be decoded at once, whatever the dictionary of a chunk holds.

        Raises:
            UnreadableError: a page is too large to be decoded.
        """
        limits, size = self._limits, 0
        # To read the headers of all pages is to read a chunk of an object store twice. So it is
        # done where the footer leaves room for a page that is too large, and where a chunk is
        # small, whose footer may not be true.
        is_small = chunk.total_compressed_size <= limits.small_chunk_bytes
        is_checked = is_small or chunk.total_uncompressed_size > limits.page_bytes
        pages = read_pages(self._stream, chunk, limits.parquet_header_bytes)
        for page in islice(pages, None if is_checked else 1):
            if page.bytes > limits.page_bytes:
                raise table.too_large(page.bytes, limits.page_bytes)
            size = max(size, page.bytes if page.is_dictionary else 0)
        if not chunk.has_dictionary_page:
            return limits.decoded_rows
        # A value of a dictionary may occur in any number of rows, and the metadata does not say in
        # how many. Each may be as large as the dictionary, which most writers keep near a megabyte.
        rows = min(limits.dictionary_rows, limits.repeated_bytes // max(1, size))
        return max(1, rows, min(limits.decoded_rows, limits.few_repeated_bytes // max(1, size)))
