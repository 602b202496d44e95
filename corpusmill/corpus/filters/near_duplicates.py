"""Near-duplicates among documents: those whose runs of words are nearly those of an earlier one.

Words are those of `corpusmill.corpus.filters.overlaps`. What a document is compared by is the set
of the hashes of its runs of `ngram` words; one with fewer words is a run of all of them, and one
without words is not compared. Two documents are near-duplicates if the sets' Jaccard similarity,
which is counted and not estimated, reaches a bound.

Documents are candidates if MinHash (Broder 1997) gives them the same values in a band: of two with
the similarity s, a band of r rows has the same with a probability of s**r, and one of b bands with
1 - (1 - s**r)**b. They go through these tables:

    KEY_SCHEMA   the value of each band of each document
    PAIR_SCHEMA  two documents to compare; or, if there are runs, a document's set
    EDGE_SCHEMA  two documents that are near-duplicates
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from corpusmill.arrays import ragged
from corpusmill.arrays.distinct import are_among
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import draw, mix, purpose_of
from corpusmill.corpus.filters.functions import join_sentences
from corpusmill.corpus.filters.overlaps import hash_runs, hash_words, list_characters
from corpusmill.knobs import knob

NEAR = "near-duplicate"
FIRST_DOCUMENTS = knob("first_documents", 8)
"""The first documents of a bucket, with which each later one of it is compared: a template, or a
licence, may be in a million documents."""

_GROUP_ROWS = 2**16

_DOCUMENT, _TASK = pa.field("document", pa.uint64()), pa.field("task", pa.uint32())
_HOME, _KEEPER = pa.field("home", pa.uint32()), pa.field("keeper", pa.uint64())
KEY_SCHEMA = pa.schema([("key", pa.uint64()), _DOCUMENT, _TASK])
PAIR_SCHEMA = pa.schema([_DOCUMENT, _TASK, _HOME, _KEEPER, ("runs", pa.list_(pa.uint64()))])
EDGE_SCHEMA = pa.schema([_DOCUMENT, _TASK, _KEEPER, ("similarity", pa.float64())])
TABLE_SCHEMA = pa.schema([_DOCUMENT, _KEEPER, EDGE_SCHEMA.field("similarity")])
KEY_BYTES = 20
# A pair of documents in memory.
PAIR = np.dtype([("document", np.uint64), ("keeper", np.uint64), ("task", np.uint32)])

Ids = npt.NDArray[np.uint64]

_ONE, _NONE = np.uint64(1), np.empty(0, np.uint64)
# Of the draws that make the hashes.
_KEY = np.uint64(purpose_of("corpusmill.near-duplicates"))


@njit
def hash_bands(
    text: np.ndarray, offsets: np.ndarray, characters: np.ndarray, ngram: int, bands: int, rows: int
) -> np.ndarray:
    """Hash the bands of texts.

    Args:
        text: uint8[bytes], valid UTF-8.
        offsets: integers[texts + 1] into the bytes.
        characters: uint32[2**20 + 2**16], what each character is to words.
        ngram: words of a run.
        bands: number of bands.
        rows: hashes of a band.

    Returns:
        uint64[texts, bands]; 0 where a text has no words.
    """
    keys = np.zeros((len(offsets) - 1, bands), np.uint64)
    factors, summands = np.empty((2, bands * rows), np.uint32)
    for row in range(len(factors)):
        factors[row], summands[row] = draw(_KEY, 2 * row) | _ONE, draw(_KEY, 2 * row + 1)
    least = np.empty(len(factors), np.uint32)
    for document in range(len(keys)):
        words = hash_words(text[offsets[document] : offsets[document + 1]], characters)
        if not len(words):
            continue
        least[:] = np.uint32(2**32 - 1)
        for run in hash_runs(words, min(ngram, len(words))):
            value = np.uint32(run)
            # Compiled to vector instructions.
            for row in range(len(least)):
                least[row] = min(least[row], np.uint32(factors[row] * value + summands[row]))
        for band in range(bands):
            key = np.uint64(band)
            for row in range(band * rows, (band + 1) * rows):
                key = mix(key) ^ np.uint64(least[row])
            keys[document, band] = max(mix(key), _ONE)
    return keys


@njit
def hash_sets(
    text: np.ndarray, offsets: np.ndarray, characters: np.ndarray, ngram: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sets of the runs of texts that have words.

    Args:
        text: uint8[bytes], valid UTF-8.
        offsets: integers[texts + 1] into the bytes.
        characters: uint32[2**20 + 2**16], what each character is to words.
        ngram: words of a run.

    Returns:
        uint64[total], each set ascending, and int64[texts + 1], where each one begins.
    """
    borders = np.zeros(len(offsets), np.int64)
    # A word takes a byte and a separator, or is a character of several bytes.
    sets = np.empty((offsets[-1] - offsets[0]) // 2 + len(offsets), np.uint64)
    for document in range(len(offsets) - 1):
        words = hash_words(text[offsets[document] : offsets[document + 1]], characters)
        begin = end = borders[document]
        for run in np.sort(hash_runs(words, min(ngram, len(words)))):
            if end == begin or run != sets[end - 1]:
                sets[end] = run
                end += 1
        borders[document + 1] = end
    return sets[: borders[-1]], borders


@njit
def compare_sets(
    runs: np.ndarray, borders: np.ndarray, later: np.ndarray, earlier: np.ndarray, least: float
) -> np.ndarray:
    """Compute the Jaccard similarities of pairs of sets; 0 where it is below a bound.

    Args:
        runs: uint64[total], the sets, each ascending.
        borders: int64[sets + 1], where each one begins and ends.
        later: int64[pairs], the number of one set.
        earlier: int64[pairs], the number of the other one.
        least: the bound, above 0.

    Returns:
        float64[pairs].
    """
    similarities = np.zeros(len(later), np.float64)
    for pair in range(len(later)):
        one, end = borders[later[pair]], borders[later[pair] + 1]
        other, other_end = borders[earlier[pair]], borders[earlier[pair] + 1]
        total, common, alone = end - one + other_end - other, 0, 0
        # With more that are in one set alone, the others cannot be enough.
        most = 2 + total * (1 - least) / (1 + least)
        while one < end and other < other_end and alone < most:
            value, second = runs[one], runs[other]
            one += value <= second
            other += second <= value
            common += value == second
            alone += value != second
        similarity = common / (total - common)
        if alone < most and similarity >= least:
            similarities[pair] = similarity
    return similarities


@njit
def choose_keepers(
    documents: np.ndarray, keepers: np.ndarray, removed: np.ndarray, number: int
) -> np.ndarray:
    """Decide which documents are removed, and by which: the first one like it that itself stays.

    Args:
        documents: uint64[edges], ascending: one is removed if a document that stays is like it.
        keepers: uint64[edges], the documents that are like them, in ascending order for each.
        removed: uint64[n], the removed documents, ascending. What is removed is added.
        number: how many there are before.

    Returns:
        int64[documents that are removed], the row of each with its keeper.
    """
    chosen = np.empty(len(documents), np.int64)
    begin = number
    for row in range(len(documents)):
        if number and removed[number - 1] == documents[row]:
            continue
        place = np.searchsorted(removed[:number], keepers[row])
        if place == number or removed[place] != keepers[row]:
            chosen[number - begin] = row
            removed[number] = documents[row]
            number += 1
    return chosen[: number - begin]


def list_keys(
    documents: pa.RecordBatch, task: int, ngram: int, bands: int, rows: int
) -> pa.RecordBatch:
    """Return the value of each band of each document that has words.

    Args:
        documents: rows of `corpusmill.corpus.batches.TEXT_SCHEMA`.
        task: number of the task that reads them.
        ngram: words of a run.
        bands: number of bands.
        rows: hashes of a band.

    Returns:
        Rows of KEY_SCHEMA, in the order of the documents.
    """
    text, offsets = ragged.from_arrow(join_sentences(documents))
    keys = hash_bands(text, offsets, list_characters(), ngram, bands, rows)
    has_words = keys[:, 0] > 0
    ids = np.repeat(documents.column("document").to_numpy()[has_words], bands)
    columns = [keys[has_words].ravel(), ids, np.full(len(ids), task, np.uint32)]
    return ragged.to_batch([*columns], KEY_SCHEMA)


def pair_documents(
    seen: pa.RecordBatch, rows: pa.RecordBatch
) -> tuple[pa.RecordBatch, int, Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]]:
    """Pair documents with the first ones of the same bucket.

    Args:
        seen: rows of KEY_SCHEMA, the first ones of each bucket before `rows`.
        rows: more of them, in the order of their documents.

    Returns:
        The first rows of each bucket, the number of rows that are none of them, and, some at a
        time, the earlier and the later row of each pair, as rows of KEY_SCHEMA.
    """
    joined = pa.concat_batches([seen, rows])
    order = np.argsort(joined.column("key").to_numpy(), kind="stable")
    joined, is_new = joined.take(pa.array(order)), order >= seen.num_rows
    keys = joined.column("key").to_numpy()
    # No key is its own complement.
    begins = np.flatnonzero(np.diff(keys, prepend=~keys[:1]))
    begin_of_row = np.repeat(begins, np.diff(begins, append=len(keys)))
    ranks = np.arange(len(keys)) - begin_of_row

    def pair() -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        for rank in range(FIRST_DOCUMENTS):
            later = np.flatnonzero(is_new & (ranks > rank))
            earlier = begin_of_row[later] + rank
            yield joined.take(pa.array(earlier)), joined.take(pa.array(later))

    are_first = ranks < FIRST_DOCUMENTS
    return joined.filter(pa.array(are_first)), int((is_new & ~are_first).sum()), pair()


def to_pairs(
    documents: pa.RecordBatch, later: pa.RecordBatch, earlier: pa.RecordBatch
) -> pa.RecordBatch:
    """Return pairs, or which tasks want the sets of which documents of pairs.

    Args:
        documents: the later ones for pairs; or those whose sets are wanted, of the same pairs.
        later: rows of KEY_SCHEMA.
        earlier: rows of KEY_SCHEMA.

    Returns:
        Rows of PAIR_SCHEMA, for the tasks of the later documents.
    """
    ids, task = documents.column("document"), documents.column("task")
    home, no_runs = later.column("task"), np.zeros(later.num_rows + 1, np.int32)
    columns = [ids, task, home, earlier.column("document"), ragged.to_arrow(_NONE, no_runs)]
    return ragged.to_batch(columns, PAIR_SCHEMA)


def keep_distinct(wanted: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return rows by document and home, each once."""
    rows = pa.concat_batches(wanted)
    ids, homes = rows.column("document").to_numpy(), rows.column("home").to_numpy()
    order = np.lexsort((homes, ids))
    ids, homes = ids[order], homes[order]
    is_first = np.append(True, (ids[1:] != ids[:-1]) | (homes[1:] != homes[:-1]))[: len(ids)]
    return rows.take(pa.array(order[is_first]))


def list_sets(
    documents: pa.RecordBatch, wanted: pa.RecordBatch, ngram: int, size: int
) -> Iterator[pa.RecordBatch]:
    """Yield the sets of documents, each once for each task that wants it, as rows of PAIR_SCHEMA.

    Args:
        documents: rows of `corpusmill.corpus.batches.TEXT_SCHEMA`.
        wanted: which tasks want which documents, as `keep_distinct` returns them.
        ngram: words of a run.
        size: of a batch in bytes, which one of a single set may exceed.
    """
    ids = wanted.column("document").to_numpy()
    documents = documents.filter(pa.array(are_among(documents.column("document").to_numpy(), ids)))
    own = documents.column("document").to_numpy()
    text, offsets = ragged.from_arrow(join_sentences(documents))
    runs, borders = hash_sets(text, offsets, list_characters(), ngram)
    sets, step = (
        ragged.to_arrow(runs, borders),
        size // (1 + 8 * int(np.diff(borders).max(initial=0))),
    )
    rows = np.flatnonzero(are_among(ids, own))
    for begin in range(0, len(rows), max(1, step)):
        some = rows[begin : begin + max(1, step)]
        of_rows = sets.take(pa.array(np.searchsorted(own, ids[some])))
        yield ragged.to_batch([*wanted.take(pa.array(some)).columns[:-1], of_rows], PAIR_SCHEMA)


def split_pairs(
    rows: pa.RecordBatch,
) -> tuple[npt.NDArray[Any], Ids, npt.NDArray[np.int64], Ids]:
    """Split rows of PAIR_SCHEMA into pairs and sets.

    Returns:
        PAIR[pairs]; and of the sets uint64[sets], their documents, int64[sets], their lengths, and
        uint64[total], what they hold.
    """
    runs, offsets = ragged.from_arrow(rows.column("runs"))
    sizes = np.diff(offsets).astype(np.int64)
    pairs = np.empty(int((sizes == 0).sum()), PAIR)
    for name in PAIR.fields or ():
        pairs[name] = rows.column(name).to_numpy()[sizes == 0]
    ids = rows.column("document").to_numpy()[sizes > 0]
    return pairs, ids, sizes[sizes > 0], runs[offsets[0] : offsets[-1]]


def split_by_document(pairs: npt.NDArray[Any], size: int) -> Iterator[npt.NDArray[Any]]:
    """Yield pairs, PAIR[pairs], in parts of about a size, in the order of their later documents."""
    # The borders of parts are those of a sample.
    sample = np.sort(pairs["document"][:: max(1, size // 1024)])
    parts = -(-len(pairs) // size)
    borders = np.unique(sample[len(sample) * np.arange(1, parts) // max(1, parts)]).tolist()
    for begin, end in pairwise([0, *borders, 2**64 - 1]):
        documents = pairs["document"]
        yield pairs[(documents >= np.uint64(begin)) & (documents < np.uint64(end))]


def write_table(removed: Iterable[pa.RecordBatch], sink: Any) -> Iterator[pa.RecordBatch]:
    """Write the table of near-duplicates, whose bytes do not depend on batches, and yield these.

    Args:
        removed: rows of EDGE_SCHEMA, each with a document that is removed, in their order.
        sink: receives the file's bytes.
    """
    waiting = TABLE_SCHEMA.empty_table()
    with pq.ParquetWriter(
        sink, TABLE_SCHEMA, compression="zstd", use_dictionary=False, store_schema=False
    ) as writer:
        for batch in removed:
            own = pa.Table.from_batches([batch.select(TABLE_SCHEMA.names)])
            waiting = pa.concat_tables([waiting, own])
            while waiting.num_rows >= _GROUP_ROWS:
                writer.write_table(waiting.slice(0, _GROUP_ROWS).combine_chunks())
                waiting = waiting.slice(_GROUP_ROWS)
            yield batch
        writer.write_table(waiting.combine_chunks())


def match_pairs(
    pairs: npt.NDArray[Any], sets: tuple[Ids, npt.NDArray[np.int64], Ids], similarity: float
) -> tuple[pa.RecordBatch, int]:
    """Compare pairs of documents.

    Args:
        pairs: PAIR[pairs], in any order, some of them several times.
        sets: uint64[sets], the ids of documents, in any order; int64[sets + 1], where the set of
            each begins; and uint64[total], the sets, each ascending.
        similarity: what makes them near-duplicates.

    Returns:
        Rows of EDGE_SCHEMA, ordered by document and by keeper, and the number of different pairs.

    Raises:
        RuntimeError: a set is missing.
    """
    documents, borders, runs = sets
    pairs = pairs[np.lexsort((pairs["keeper"], pairs["document"]))]
    pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])] if len(pairs) else pairs
    order, found = np.argsort(documents), list[npt.NDArray[np.int64]]()
    for side in ("document", "keeper"):
        found.append(order[np.searchsorted(documents, pairs[side], sorter=order) % len(order)])
        if (documents[found[-1]] != pairs[side]).any():
            raise RuntimeError("a document that is compared was not found again")
    similarities = compare_sets(runs, borders, *found, similarity)
    are_like = similarities > 0
    like = pairs[are_like]
    columns = [like["document"], like["task"], like["keeper"], similarities[are_like]]
    return ragged.to_batch([*map(np.ascontiguousarray, columns)], EDGE_SCHEMA), len(pairs)
