"""What passes between stages, and how it is encoded there.

Batches of documents and examples are Arrow record batches; everything else is a small named tuple
with a schema, so that no element is ever pickled.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam import coders
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

# Several collections by name, as `with_outputs` gives them. Beam checks the type of a single
# collection alone, and warns of every other hint.
NamedOutputs = Any


class Task(NamedTuple):
    """What one call reads: ranges that follow each other, as a line of the plan lists them.

    Attributes:
        number: place of the task in the plan, from 0.
        plan: the plan's file.
        offset: of the line's first byte.
        length: its bytes.
    """

    number: int
    plan: str
    offset: int
    length: int


class RejectsFile(NamedTuple):
    """The rejects of one task, written as JSON lines.

    Attributes:
        number: of the task.
        path: temporary file.
        rejects: how many lines it holds.
    """

    number: int
    path: str
    rejects: int


class Segment(NamedTuple):
    """The rows of one bucket: one Arrow IPC message in a file.

    Attributes:
        bucket: which rows they are; for documents on their way to shards, their home.
        rows: how many.
        path: file that holds the message; empty for a segment without rows.
        offset: its first byte there.
        length: its bytes.
    """

    bucket: int
    rows: int
    path: str
    offset: int
    length: int


class WrittenFile(NamedTuple):
    """A file of a shard under its temporary name.

    Attributes:
        shard: number of the shard; validation's follow train's.
        part: which of the shard's files, in the order of the format's suffixes; 0 is the shard
            itself, the others are its companions.
        path: temporary file.
        rows: number of examples; 0 for a companion.
        tokens: sum of their lengths; 0 for a companion.
        bytes: size of the file.
        sha256: hexadecimal digest of its bytes.
        bin: number of its range of lengths; 0 where lengths are mixed.
    """

    shard: int
    part: int
    path: str
    rows: int
    tokens: int
    bytes: int
    sha256: str
    bin: int = 0


class Candidates(NamedTuple):
    """Tokenized documents that may enter the pool, in a file.

    Attributes:
        first_document: id of the first, as text because it may not fit a signed 64-bit integer.
        documents: their number.
        path: the file.
        offset: where their sizes begin
            (`corpusmill.objectives.random_documents.measure_documents`); an Arrow IPC stream
            follows.
        length: bytes of both.
    """

    first_document: str
    documents: int
    path: str
    offset: int
    length: int


def in_global_window(elements: Iterable[object]) -> Iterator[WindowedValue]:
    """Elements as a DoFn's `finish_bundle` must give them."""
    window = GlobalWindow()
    for element in elements:
        yield WindowedValue(element, window.max_timestamp(), (window,))


class ArrowBatchCoder(coders.Coder):
    """A record batch as an Arrow IPC stream, which copies a slice and not its parent."""

    def encode(self, value: pa.RecordBatch) -> bytes:
        """The batch with its schema."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write_batch(value)
        return bytes(sink.getvalue())

    def decode(self, encoded: bytes) -> pa.RecordBatch:
        """The batch, without copying."""
        return pa.ipc.open_stream(encoded).read_next_batch()

    def estimate_size(self, value: pa.RecordBatch) -> int:
        """Bytes, from the buffers; encoding a batch to learn its size would double the work."""
        return int(value.get_total_buffer_size())

    def is_deterministic(self) -> bool:
        """Equal batches give equal bytes."""
        return True

    def to_type_hint(self) -> type:
        """The type it encodes."""
        return pa.RecordBatch  # type: ignore[no-any-return]


beam.coders.registry.register_coder(pa.RecordBatch, ArrowBatchCoder)
for _element in (Task, RejectsFile, Segment, WrittenFile, Candidates):
    beam.coders.registry.register_coder(_element, coders.RowCoder)
