"""Parquet and Arrow files, decoded by Arrow.

A row group of Parquet, of which only the text column and kept columns are read, is a block, and so
is a record batch. Feather (version 2) is Arrow's file format, and Hugging Face's `save_to_disk`
writes streams. Arrow does not tell how many rows a batch has before it is read, so that such a file
is read from its beginning to its end.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from corpusmill.corpus.batches import UnreadableError
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.tables import table
from corpusmill.knobs import knob

BLOCK_BYTES = knob("block_bytes", 2**30)
"""The bytes of a row above which a row group of Parquet is refused, on average."""
DICTIONARY_ROWS = knob("dictionary_rows", 128, test=2)
"""The rows of a row group with a dictionary that are decoded at once, as each may hold a value as
large as the whole dictionary; more while the group is small."""
_MAGIC, _FEATHER_1 = b"ARROW1\0\0", b"FEA1"


class ArrowTable:
    """An Arrow file or stream, as a `corpusmill.corpus.tables.table.Table`.

    Args:
        stream: the file.
        options: with the names of the columns to read.

    Raises:
        UnreadableError: it does not begin as Arrow does.
    """

    def __init__(self, stream: table.TableStream, options: DocumentOptions) -> None:
        self._stream = stream
        with stream.damage_is("damaged-file"):
            schema = self._open(pa.ipc.IpcReadOptions(use_threads=False)).schema
            self.fields = table.fields_of_schema(schema, options)
            columns = sorted({schema.get_field_index(path[0]) for path in self.fields.paths})
            read_options = pa.ipc.IpcReadOptions(included_fields=columns, use_threads=False)
            self._reader = self._open(read_options)

    def _open(self, options: pa.ipc.IpcReadOptions) -> Any:
        """Open the file, as a stream if it is one, or a file that has lost its footer."""
        source = pa.PythonFile(self._stream, mode="r")
        self._stream.seek(0)
        start = self._stream.read(len(_MAGIC))
        if start.startswith(_FEATHER_1):
            detail = "it is Feather version 1, which pyarrow.feather.read_table reads"
            raise UnreadableError("damaged-file", detail)
        self._is_file = start == _MAGIC
        if self._is_file:
            try:
                return pa.ipc.open_file(source, options=options)
            except pa.ArrowInvalid:
                pass
        self._stream.seek(len(_MAGIC) if self._is_file else 0)
        return pa.ipc.open_stream(source, options=options)

    def blocks(self) -> Iterator[table.Block]:
        """Yield the record batches, which are read one after the other."""
        reader, size = self._reader, self._stream.size
        is_stream = isinstance(reader, pa.ipc.RecordBatchStreamReader)
        end = self._stream.tell() if is_stream else 0
        indices = range(0 if is_stream else reader.num_record_batches)
        batches = reader if is_stream else map(reader.get_batch, indices)
        self._stream.lowest = size
        try:
            with self._stream.damage_is("damaged-block"):
                for batch in batches:
                    # A file is sought in, a stream is not.
                    begin = end if is_stream else max(end, self._stream.lowest)
                    end = max(begin, self._stream.tell())
                    texts = partial(self._texts, batch)
                    yield table.Block(begin, end - begin, batch.num_rows, texts)
                    self._stream.lowest = size
                end = max(end, self._stream.tell())
                if is_stream and self._is_file:
                    raise UnreadableError("damaged-file", "it ends without a footer")
                if is_stream and end < size:
                    raise ValueError("there is more data after the end of the stream")
        except UnreadableError as error:
            begin = end if is_stream else max(end, self._stream.lowest)
            yield table.lost_block(begin, size, error)

    def _texts(self, batch: pa.RecordBatch) -> Iterator[table.TextRows]:
        with self._stream.damage_is("damaged-block"):
            yield from table.slice_batch(batch, self.fields)


def _is_in(path: str, name: str) -> bool:
    """Whether a column of the file belongs to a field."""
    return f"{path}.".startswith(f"{name}.")


class ParquetTable:
    """A Parquet file, as a `corpusmill.corpus.tables.table.Table`.

    Args:
        stream: the file.
        options: with the names of the columns to read.

    Raises:
        UnreadableError: its footer cannot be read.
    """

    def __init__(self, stream: table.TableStream, options: DocumentOptions) -> None:
        self._stream = stream
        with stream.damage_is("damaged-file"):
            # With a buffer a column chunk is read in steps, however large it is; with pre_buffer
            # it would be read at once.
            self._file = pq.ParquetFile(
                pa.PythonFile(stream, mode="r"),
                pre_buffer=False,
                buffer_size=table.DECODED_BYTES,
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
            end = min(max(end, start), self._stream.size - 1)
            texts = partial(self._texts, index, rows)
            yield table.Block(end, chunk.total_compressed_size, rows, texts)

    def _texts(self, index: int, rows: int) -> Iterator[table.TextRows]:
        """Yield the rows of a row group, about a megabyte at a time."""
        with self._stream.damage_is("damaged-block"):
            group = self._file.metadata.row_group(index)
            chunks = [group.column(number) for number in self._leaves]
            size = max(1, sum(chunk.total_uncompressed_size for chunk in chunks))
            if size > BLOCK_BYTES * max(1, rows):
                raise table.too_large(size, BLOCK_BYTES)
            step = min(table.DECODED_ROWS, table.DECODED_BYTES * rows // size)
            if any(chunk.has_dictionary_page for chunk in chunks):
                # A long value of a dictionary may occur in any number of rows, and the metadata do
                # not say in how many.
                times = max(1, table.DECODED_BYTES // size)
                step = min(step, DICTIONARY_ROWS * times)
            batches = self._file.iter_batches(max(1, step), [index], self._names, use_threads=False)
            for batch in batches:
                yield from table.slice_batch(batch, self.fields)
