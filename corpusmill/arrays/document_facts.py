"""What is known of a document beside its text: columns that travel with it to its shards.

A batch of documents has them after its other columns, all of them or none. Each has a document's

    length        uint64: the bytes of its record in its file, after decompression, from the place
                  that its id tells; 1 in tables, where that is the number of a row. 0 where the
                  reader does not tell.
    digest        fixed_size_binary(16): MurmurHash3 of its text; in tokenized batches only
    field:<name>  string: a field of its record that is kept, as text; null where it is missing
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

DIGEST_BYTES = 16
# The columns of the table of documents, beside kept fields (`corpusmill.provenance.documents`).
DOCUMENT_COLUMNS = ("document", "length", "tokens", "digest")
LENGTH = pa.field("length", pa.uint64())
DIGEST = pa.field("digest", pa.binary(DIGEST_BYTES))
_FIELD = "field:"


def field_column(name: str) -> pa.Field:
    """Return the column of a kept field."""
    return pa.field(_FIELD + name, pa.string())


def text_facts(keep_fields: Sequence[str] = ()) -> list[pa.Field]:
    """Return the columns of facts that batches of text have.

    Args:
        keep_fields: names of the fields that are kept.
    """
    return [LENGTH, *map(field_column, keep_fields)]


def tokenized_facts(keep_fields: Sequence[str] = ()) -> list[pa.Field]:
    """Return the columns of facts that tokenized batches have.

    Args:
        keep_fields: names of the fields that are kept.
    """
    return [LENGTH, DIGEST, *map(field_column, keep_fields)]


def digests_of(hashes: npt.NDArray[np.uint64]) -> pa.FixedSizeBinaryArray:
    """Return hashes as a column.

    Args:
        hashes: uint64[documents, 2], as `corpusmill.arrays.text_hashes` returns them.

    Example:
        [[1, 2]] gives one value, the bytes 1, seven times 0, 2, and seven times 0.
    """
    content = pa.py_buffer(np.ascontiguousarray(hashes, "<u8"))
    return pa.Array.from_buffers(DIGEST.type, len(hashes), [None, content])


def column_or_default(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    """Return a column of facts; where a batch lacks it, lengths of 0 or fields that are null."""
    if field.name in batch.schema.names:
        return batch.column(field.name)
    if field == LENGTH:
        return pa.array(np.zeros(batch.num_rows, np.uint64))
    return pa.nulls(batch.num_rows, field.type)
