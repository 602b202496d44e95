"""Records that are rows of a Parquet file: a row group is a block, only the text column is read."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from corpusmill.corpus.tables.table import (
    BATCH_BYTES,
    MAX_BATCH_ROWS,
    MAX_BLOCK_BYTES,
    Block,
    TableStream,
    TextRows,
    cut_texts,
    is_text_type,
    too_large,
)

# A value of a dictionary may stand in any number of rows, and the metadata does not say in how
# many. Writers keep a dictionary near a megabyte, so that rows of them stay near this many.
_MAX_DICTIONARY_ROWS = 128


class ParquetTable:
    """A Parquet file; see `corpusmill.corpus.tables.table.Table`.

    Args:
        stream: the file.
        size: its bytes.
        text_field: name of the column to read.

    Raises:
        BadTableError: it has no footer that can be read.
    """

    def __init__(self, stream: TableStream, size: int, text_field: str) -> None:
        self._stream, self._size, self._text_field = stream, size, text_field
        with stream.damage_is("damaged-file"):
            # Buffered, a column chunk is read in steps however large it is; pre-buffered, whole.
            self._file = pq.ParquetFile(
                pa.PythonFile(stream, mode="r"),
                pre_buffer=False,
                buffer_size=BATCH_BYTES,
                page_checksum_verification=True,
            )
            schema = self._file.schema_arrow
            self.fields = {of.name: str(of.type) for of in schema}
            leaves = [self._file.schema.column(at).path for at in range(len(self._file.schema))]
        self.text_fields = tuple(of.name for of in schema if is_text_type(of.type))
        # Of the other columns nothing is looked at, as Arrow ends the process where it meets damage
        # in what the footer says of a column, and a table may have thousands.
        self._column = leaves.index(text_field) if text_field in self.text_fields else 0

    def blocks(self) -> Iterator[Block]:
        """The row groups; each is where its text is."""
        end = 0
        for index in range(self._file.num_row_groups if len(self._file.schema) else 0):
            group = self._file.metadata.row_group(index)
            chunk = group.column(self._column)
            start, rows = chunk.data_page_offset, max(0, group.num_rows)
            if chunk.has_dictionary_page:
                start = min(start, chunk.dictionary_page_offset)
            # Footers that were made by hand need not be in the order of the file.
            end = min(max(end, start), self._size - 1)
            text_bytes = chunk.total_uncompressed_size
            fault = too_large(text_bytes) if text_bytes > MAX_BLOCK_BYTES * max(1, rows) else None
            yield Block(index, end, chunk.total_compressed_size, rows, fault)

    def texts(self, block: Block) -> Iterator[TextRows]:
        """The rows of a row group, about a megabyte at a time."""
        with self._stream.damage_is("damaged-block"):
            chunk = self._file.metadata.row_group(block.index).column(self._column)
            rows = max(1, BATCH_BYTES * block.rows // max(1, chunk.total_uncompressed_size))
            limit = _MAX_DICTIONARY_ROWS if chunk.has_dictionary_page else MAX_BATCH_ROWS
            batches = self._file.iter_batches(
                min(rows, limit), [block.index], [self._text_field], use_threads=False
            )
            for batch in batches:
                yield from cut_texts(batch.column(0))
