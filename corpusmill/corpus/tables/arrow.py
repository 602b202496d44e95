"""Arrow files and streams, decoded by Arrow: a record batch is a block.

Feather (version 2) is Arrow's file format, and Hugging Face's `save_to_disk` writes streams. Arrow
does not tell how many rows a batch has before it is read, so that a file is read from its beginning
to its end.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from corpusmill.corpus.batches import UnreadableError
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.tables import table

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
