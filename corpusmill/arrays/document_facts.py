"""What is known of a document beside its text: columns that travel with it to its shards.

A batch of documents has them after its other columns, all of them or none. Each has a document's

    length        uint64: the bytes of its record in its file, after decompression, from the place
                  that its id tells; 1 in tables, where that is the number of a row. 0 where the
                  reader does not tell.
    digest        uint64: the first half of MurmurHash3's 128 bits of its text; in tokenized batches
                  only. Two texts have the same one with a probability of 5 * 10**-20: of 10**7
                  documents, one is taken for another of 10**9 with a probability of 0.0005
    field:<name>  string: a field of its record that is kept, as text; null where it is missing
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.text_hashes import hash_lines

# The columns of the table of documents, beside kept fields (`corpusmill.provenance.documents`).
DOCUMENT_COLUMNS = ("document", "length", "tokens", "digest")
LENGTH = pa.field("length", pa.uint64())
DIGEST = pa.field("digest", pa.uint64())
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


def digests_of(documents: pa.RecordBatch) -> npt.NDArray[np.uint64]:
    """Return the digests of documents, uint64[documents].

    Args:
        documents: a batch of text (`corpusmill.corpus.batches.TEXT_SCHEMA`).
    """
    sentences, offsets = ragged.from_arrow(documents.column("sentences"))
    text, text_offsets = ragged.from_arrow(sentences)
    hashes: npt.NDArray[np.uint64] = hash_lines(text, offsets, text_offsets)
    return np.ascontiguousarray(hashes[:, 0])


def column_or_default(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    """Return a column of facts; where a batch lacks it, lengths of 0 or fields that are null."""
    if field.name in batch.schema.names:
        return batch.column(field.name)
    if field == LENGTH:
        return pa.array(np.zeros(batch.num_rows, np.uint64))
    return pa.nulls(batch.num_rows, field.type)
