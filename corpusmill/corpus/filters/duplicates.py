"""Exact duplicates among documents: all but the first one with a text, by id, are dropped.

Documents whose text a data set holds already are found by the digests that it keeps. New ones are
most often few beside those that it holds. So the digests of the new ones are put into a
`DigestFilter`, which is small, and only digests of the data set that pass it are compared with
them. Both sides are rows of `DIGEST_SCHEMA`:

    digest     uint64, as the fact of that name (`corpusmill.arrays.text_hashes`)
    documents  uint32, how many documents of a task have it
    task       uint32, the number of the task that reads these documents; HELD for a digest that the
               data set holds
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.distinct import are_among, sort_distinct
from corpusmill.arrays.text_hashes import digests_of, hash_lines
from corpusmill.corpus.filters.functions import Step

REASON = "duplicate"

# The hash of a document's text, its id, and the number of the task that reads it.
HASH_SCHEMA = pa.schema(
    [("first", pa.uint64()), ("second", pa.uint64()), ("document", pa.uint64()),
     ("task", pa.uint32())]
)  # fmt: skip
REPEAT_SCHEMA = pa.schema([HASH_SCHEMA.field(name) for name in ("document", "task")])
ROW_BYTES = 28


def hash_documents(documents: pa.RecordBatch, task: int) -> pa.RecordBatch:
    """Hash the text of each document, its sentences joined with line breaks.

    Args:
        documents: rows of `corpusmill.corpus.batches.TEXT_SCHEMA`.
        task: number of the task that reads them.

    Returns:
        Rows of HASH_SCHEMA.
    """
    sentences, offsets = ragged.from_arrow(documents.column("sentences"))
    text, line_offsets = ragged.from_arrow(sentences)
    hashes = hash_lines(text, offsets, line_offsets)
    columns = [
        pa.array(hashes[:, 0]),
        pa.array(hashes[:, 1]),
        documents.column("document"),
        pa.array(np.full(len(hashes), task, np.uint32)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=HASH_SCHEMA)


def split_repeats(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Split documents into the first one by id with each hash, and the others.

    Args:
        rows: of HASH_SCHEMA, in any order.

    Returns:
        The rows of the first documents, ordered by hash, and the others as rows of REPEAT_SCHEMA.
    """
    first, second, ids = (rows.column(place).to_numpy() for place in range(3))
    order = np.lexsort((ids, second, first))
    first, second = first[order], second[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    kept = rows.take(pa.array(order[is_first]))
    return kept, rows.take(pa.array(order[~is_first])).select(REPEAT_SCHEMA.names)


def drop_listed(repeats: Sequence[pa.RecordBatch], reason: str = REASON) -> Step:
    """Make the step that drops documents by their ids.

    Args:
        repeats: the ids, as rows of REPEAT_SCHEMA.
        reason: why they are dropped.
    """
    arrays = [np.empty(0, np.uint64), *(rows.column("document").to_numpy() for rows in repeats)]
    listed: npt.NDArray[np.uint64] = np.sort(np.concatenate(arrays))

    def drop(documents: pa.RecordBatch, _: str) -> list[str]:
        ids = documents.column("document").to_numpy()
        # The ids of a batch ascend, so that few of the listed ones need to be compared.
        near = listed[np.searchsorted(listed, ids.min(initial=2**64 - 1)) :]
        near = near[: np.searchsorted(near, ids.max(initial=0), "right")]
        return [reason if is_listed else "" for is_listed in np.isin(ids, near).tolist()]

    return drop


# Why a document is dropped.
KNOWN = "in-data-set"
# What a run without any new document says; its command recognizes it by this text.
NOTHING_LEFT = "The data set holds all documents of the input already; nothing is left to add"

DIGEST_SCHEMA = pa.schema(
    [("digest", pa.uint64()), ("documents", pa.uint32()), ("task", pa.uint32())]
)
HELD = 2**32 - 1

Digests = npt.NDArray[np.uint64]


def count_digests(digests: Digests, task: int) -> pa.RecordBatch:
    """Return each digest once, in order, with the number of documents that have it.

    Args:
        digests: uint64[documents].
        task: the number of the task that reads the documents.

    Returns:
        Rows of DIGEST_SCHEMA.
    """
    ordered = np.sort(digests)
    # The first one differs from its own complement.
    firsts = np.flatnonzero(np.diff(ordered, prepend=~ordered[:1]))
    return _to_rows(ordered[firsts], np.diff(firsts, append=len(ordered)), task)


def hold_digests(digests: Digests) -> pa.RecordBatch:
    """Return digests, uint64[n], that a data set holds as rows of DIGEST_SCHEMA."""
    return _to_rows(digests, np.zeros(len(digests), np.uint32), HELD)


def _to_rows(digests: Digests, documents: npt.NDArray[np.integer], task: int) -> pa.RecordBatch:
    tasks = np.full(len(digests), task, np.uint32)
    columns = [digests, documents.astype(np.uint32), tasks]
    return pa.RecordBatch.from_arrays([*map(pa.array, columns)], schema=DIGEST_SCHEMA)


class DigestFilter:
    """Tells of most digests that they are none of some others, without these.

    Args:
        bits: what `encode` returned; or for a filter that nothing passes the number of its bits, a
            power of two of at least 8.
    """

    def __init__(self, bits: bytes | int) -> None:
        self._bits: npt.NDArray[np.uint8] = (
            np.zeros(bits // 8, np.uint8)
            if isinstance(bits, int)
            else np.frombuffer(bits, np.uint8)
        )
        self._mask = np.uint64(8 * len(self._bits) - 1)

    def add(self, digests: Digests) -> None:
        """Let digests pass.

        Args:
            digests: uint64[n].
        """
        places = np.sort(digests & self._mask)
        bits = np.uint8(1) << (places & np.uint64(7)).astype(np.uint8)
        of_bits = places >> np.uint64(3)
        firsts = np.flatnonzero(np.diff(of_bits, prepend=~of_bits[:1]))
        if len(firsts):
            self._bits[of_bits[firsts]] |= np.bitwise_or.reduceat(bits, firsts)

    def select(self, digests: Digests) -> Digests:
        """Return the digests that pass, in their order: all that were added, and few others.

        Args:
            digests: uint64[n].
        """
        places = digests & self._mask
        own = self._bits[places >> np.uint64(3)] >> (places & np.uint64(7)).astype(np.uint8)
        passing: Digests = digests[(own & np.uint8(1)).astype(np.bool_)]
        return passing

    def encode(self) -> bytes:
        """Return the bytes of which the same filter is made again."""
        return self._bits.tobytes()


def select_known(new: pa.RecordBatch, held: Iterable[Digests]) -> pa.RecordBatch:
    """Return the rows of tasks whose digests a data set holds.

    Args:
        new: rows of DIGEST_SCHEMA.
        held: uint64[n], digests that the data set holds, some at a time.
    """
    digests = new.column("digest").to_numpy()
    distinct = sort_distinct(digests)
    is_held = np.zeros(len(distinct), np.bool_)
    for some in held:
        matches = some[are_among(some, distinct)]
        is_held[np.searchsorted(distinct, matches)] = True
    return new.filter(pa.array(is_held[np.searchsorted(distinct, digests)]))


def split_held(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Digests]:
    """Return the rows of tasks, and the digests that a data set holds, uint64[n].

    Args:
        rows: of DIGEST_SCHEMA.
    """
    is_held = rows.column("task").to_numpy() == HELD
    return rows.filter(pa.array(~is_held)), rows.column("digest").to_numpy()[is_held]


def drop_known(known_rows: Sequence[pa.RecordBatch]) -> Step:
    """Make the step that drops documents by their digests.

    Args:
        known_rows: the digests, as rows of DIGEST_SCHEMA.
    """
    arrays = [np.empty(0, np.uint64), *(rows.column("digest").to_numpy() for rows in known_rows)]
    listed = sort_distinct(np.concatenate(arrays))

    def drop(documents: pa.RecordBatch, _: str) -> list[str]:
        are_known = are_among(digests_of(documents), listed)
        return [KNOWN if is_known else "" for is_known in are_known.tolist()]

    return drop
