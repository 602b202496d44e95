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
    EDGE_SCHEMA  two documents that are near-duplicates; of some, how their texts begin
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from corpusmill.arrays import ragged
from corpusmill.arrays.distinct import are_among
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import derive_keys, draw, mix, purpose_of
from corpusmill.corpus.filters.functions import NearPair, join_sentences
from corpusmill.corpus.filters.overlaps import hash_runs, hash_words, list_characters
from corpusmill.knobs import knob

NEAR = "near-duplicate"
FIRST_DOCUMENTS = knob("first_documents", 8)
"""The first documents of a bucket, with which each later one of it is compared: a template, or a
licence, may be in a million documents."""

_GROUP_ROWS = 2**16

_DOCUMENT, _TASK = pa.field("document", pa.uint64()), pa.field("task", pa.uint32())
_HOME, _KEEPER = pa.field("home", pa.uint32()), pa.field("keeper", pa.uint64())
_TEXT = pa.field("text", pa.binary())
_SIMILARITY = pa.field("similarity", pa.float64())
KEY_SCHEMA = pa.schema([("key", pa.uint64()), _DOCUMENT, _TASK])
PAIR_SCHEMA = pa.schema([_DOCUMENT, _TASK, _HOME, _KEEPER, _TEXT, ("runs", pa.list_(pa.uint64()))])
EDGE_SCHEMA = pa.schema([_DOCUMENT, _TASK, _KEEPER, _SIMILARITY, _TEXT, ("other", pa.binary())])
TABLE_SCHEMA = pa.schema([_DOCUMENT, _KEEPER, _SIMILARITY])
KEY_BYTES = 20
# How a text begins, in UTF-8 that may be cut within a character.
BEGINNING = np.dtype("S96")
# Some pairs of each source are shown, by their texts: those with the least keys of all documents
# in about so many bytes of text.
_SHOWN, _SHOWN_BYTES = 3, 2**23
_SHOWN_NAME, _SHOWN_KEY = "corpusmill.pairs", purpose_of("corpusmill.near-duplicates.shown")
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


@njit
def find_first(firsts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Find the first one of equal pairs of numbers.

    Args:
        firsts: uint64[pairs].
        seconds: uint64[pairs].

    Returns:
        bool[pairs].
    """
    are_first, size = np.zeros(len(firsts), np.bool_), 2
    while size < 2 * len(firsts):
        size *= 2
    # The row of each pair, and one more; 0 where a slot is free.
    slots = np.zeros(size, np.int64)
    for row in range(len(firsts)):
        place = mix(mix(firsts[row]) ^ seconds[row]) & np.uint64(size - 1)
        while slots[place]:
            other = slots[place] - 1
            if firsts[other] == firsts[row] and seconds[other] == seconds[row]:
                break
            place = (place + _ONE) & np.uint64(size - 1)
        else:
            slots[place], are_first[row] = row + 1, True
    return are_first


@njit
def may_recur(keys: np.ndarray) -> np.ndarray:
    """Return which of some mixed keys may stand among them again, bool[keys]; few others do."""
    size = 4
    while size < 4 * len(keys):
        size *= 2
    counts, slots = np.zeros(size, np.uint8), keys & np.uint64(size - 1)
    for slot in slots:
        counts[slot] = min(2, counts[slot] + 1)
    are_many: np.ndarray = counts[slots] > 1
    return are_many


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
    keys, documents = (joined.column(name).to_numpy() for name in ("key", "document"))
    order = np.flatnonzero(may_recur(keys))
    order = order[np.argsort(keys[order], kind="stable")]
    keys = keys[order]
    # No key is its own complement.
    begins = np.flatnonzero(np.diff(keys, prepend=~keys[:1]))
    begin_of_row = np.repeat(begins, np.diff(begins, append=len(keys)))
    ranks = np.arange(len(keys)) - begin_of_row

    def pair() -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        for rank in range(FIRST_DOCUMENTS):
            places = np.flatnonzero((order >= seen.num_rows) & (ranks > rank))
            later, earlier = order[places], order[begin_of_row[places] + rank]
            # Documents that are like each other are in many buckets together.
            are_first = find_first(documents[later], documents[earlier])
            earlier, later = (pa.array(side[are_first]) for side in (earlier, later))
            yield joined.take(earlier), joined.take(later)

    # The rows before were first ones, and are still.
    crowded = order[ranks >= FIRST_DOCUMENTS]
    are_kept = np.ones(joined.num_rows, np.bool_)
    are_kept[crowded] = False
    firsts = joined.filter(pa.array(are_kept)) if len(crowded) else joined
    return firsts, len(crowded), pair()


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
    texts = pa.array([b""] * later.num_rows, pa.binary())
    columns = [ids, task, home, earlier.column("document"), texts, ragged.to_arrow(_NONE, no_runs)]
    return ragged.to_batch(columns, PAIR_SCHEMA)


def keep_distinct(wanted: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return rows by document and home, each once."""
    rows = pa.concat_batches(wanted)
    ids, homes = (rows.column(name).to_numpy() for name in ("document", "home"))
    are_first = np.flatnonzero(find_first(ids, homes.astype(np.uint64)))
    return rows.take(pa.array(are_first[np.lexsort((homes[are_first], ids[are_first]))]))


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
    import pyarrow.compute as pc  # noqa: PLC0415  a twentieth of a second, and few builds need it

    ids = wanted.column("document").to_numpy()
    documents = documents.filter(pa.array(are_among(documents.column("document").to_numpy(), ids)))
    own = documents.column("document").to_numpy()
    texts = join_sentences(documents)
    text, offsets = ragged.from_arrow(texts)
    runs, borders = hash_sets(text, offsets, list_characters(), ngram)
    sets, step = ragged.to_arrow(runs, borders), size // (1 + 8 * np.diff(borders).max(initial=0))
    texts = pc.binary_slice(texts.cast(pa.binary()), 0, BEGINNING.itemsize)
    rows, step = np.flatnonzero(are_among(ids, own)), max(1, int(step))
    for begin in range(0, len(rows), step):
        some = rows[begin : begin + step]
        places = pa.array(np.searchsorted(own, ids[some]))
        of_rows = [texts.take(places), sets.take(places)]
        yield ragged.to_batch([*wanted.take(pa.array(some)).columns[:-2], *of_rows], PAIR_SCHEMA)


class Sets(NamedTuple):
    """The sets of documents, each once.

    Attributes:
        documents: uint64[sets], their ids, in any order.
        borders: int64[sets + 1], where the set of each begins.
        runs: uint64[total], the sets, each ascending.
        texts: BEGINNING[sets], how their texts begin.
    """

    documents: Ids
    borders: npt.NDArray[np.int64]
    runs: Ids
    texts: npt.NDArray[Any]


def split_pairs(rows: pa.RecordBatch) -> tuple[npt.NDArray[Any], Sets]:
    """Split rows of PAIR_SCHEMA into pairs, PAIR[pairs], and sets."""
    runs, offsets = ragged.from_arrow(rows.column("runs"))
    sizes = np.diff(offsets).astype(np.int64)
    pairs = np.empty(int((sizes == 0).sum()), PAIR)
    for name in PAIR.fields or ():
        pairs[name] = rows.column(name).to_numpy()[sizes == 0]
    rows = rows.filter(pa.array(sizes > 0))
    borders = np.cumsum([0, *sizes[sizes > 0]])
    texts = np.array(rows.column("text").to_pylist(), BEGINNING)
    ids = rows.column("document").to_numpy()
    return pairs, Sets(ids, borders, runs[offsets[0] : offsets[-1]], texts)


def split_by_document(pairs: npt.NDArray[Any], size: int) -> Iterator[npt.NDArray[Any]]:
    """Yield pairs, PAIR[pairs], in parts of about a size, in the order of their later documents."""
    # The borders of parts are those of a sample.
    sample = np.sort(pairs["document"][:: max(1, size // 1024)])
    parts = -(-len(pairs) // size)
    borders = np.unique(sample[len(sample) * np.arange(1, parts) // max(1, parts)]).tolist()
    for begin, end in pairwise([0, *borders, 2**64 - 1]):
        documents = pairs["document"]
        yield pairs[(documents >= np.uint64(begin)) & (documents < np.uint64(end))]


def write_table(
    removed: Iterable[pa.RecordBatch], sink: Any, name_sources: Callable[[Ids], Sequence[str]]
) -> Iterator[pa.RecordBatch]:
    """Write the table of near-duplicates, whose bytes do not depend on batches, and yield these.

    Args:
        removed: rows of EDGE_SCHEMA, each with a document that is removed, in their order.
        sink: receives the file's bytes, the pairs that are shown among its metadata.
        name_sources: returns the names of the sources of documents; empty where there is but one.
    """
    waiting, shown = TABLE_SCHEMA.empty_table(), list[tuple[str, int, NearPair]]()
    with pq.ParquetWriter(
        sink, TABLE_SCHEMA, compression="zstd", use_dictionary=False, store_schema=False
    ) as writer:
        for batch in removed:
            shown = _choose_shown(shown, batch, name_sources)
            own = batch.select(TABLE_SCHEMA.names)
            waiting = pa.concat_tables([waiting, pa.Table.from_batches([own])])
            while waiting.num_rows >= _GROUP_ROWS:
                writer.write_table(waiting.slice(0, _GROUP_ROWS).combine_chunks())
                waiting = waiting.slice(_GROUP_ROWS)
            yield batch
        writer.write_table(waiting.combine_chunks())
        pairs = msgspec.json.encode([pair for _, _, pair in shown])
        writer.add_key_value_metadata({_SHOWN_NAME: pairs})


def _choose_shown(
    shown: Sequence[tuple[str, int, NearPair]], batch: pa.RecordBatch,
    name_sources: Callable[[Ids], Sequence[str]],
) -> list[tuple[str, int, NearPair]]:  # fmt: skip
    """Return the pairs to show of those before and of further ones, by source and key."""
    has_text = [bool(text) for text in batch.column("text").to_pylist()]
    rows = batch.filter(pa.array(has_text, pa.bool_()))
    ids = rows.column("document").to_numpy()
    keys, sources = derive_keys(0, ids, 0, _SHOWN_KEY).tolist(), name_sources(ids)
    found = []
    for source, row in zip(sources, rows.to_pylist(), strict=True):
        texts = (row[name].decode(errors="ignore").split() for name in ("text", "other"))
        numbers = (row[name] for name in TABLE_SCHEMA.names)
        found.append(NearPair(source, *numbers, *map(" ".join, texts)))
    pairs = sorted([*shown, *zip(sources, keys, found, strict=True)], key=itemgetter(0, 1))
    by_source = groupby(pairs, itemgetter(0))
    return [pair for _, own in by_source for pair in islice(own, _SHOWN)]


def read_shown(table: Any) -> tuple[NearPair, ...]:
    """Return the pairs that are shown, from the file of the table of near-duplicates."""
    return msgspec.json.decode(
        pq.read_metadata(table).metadata[_SHOWN_NAME.encode()], type=tuple[NearPair, ...]
    )


def match_pairs(
    pairs: npt.NDArray[Any], sets: Sets, similarity: float, corpus_bytes: int
) -> tuple[pa.RecordBatch, int]:
    """Compare pairs of documents.

    Args:
        pairs: PAIR[pairs], in any order, some of them several times.
        sets: those of their documents.
        similarity: what makes them near-duplicates.
        corpus_bytes: the size of the corpus, by which documents are chosen whose texts are kept.

    Returns:
        Rows of EDGE_SCHEMA, ordered by document and by keeper, and the number of different pairs.

    Raises:
        RuntimeError: a set is missing.
    """
    pairs = pairs[np.lexsort((pairs["keeper"], pairs["document"]))]
    pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])] if len(pairs) else pairs
    order, ids = np.argsort(sets.documents), [pairs[name] for name in ("document", "keeper")]
    sides = [np.searchsorted(sets.documents, side, sorter=order) for side in ids]
    sides = [order[places % len(order)] for places in sides]
    if any((sets.documents[places] != side).any() for places, side in zip(sides, ids, strict=True)):
        raise RuntimeError("a document that is compared was not found again")
    similarities = compare_sets(sets.runs, sets.borders, *sides, similarity)
    are_like = similarities > 0
    like = pairs[are_like]
    keys = derive_keys(0, np.ascontiguousarray(like["document"]), 0, _SHOWN_KEY)
    are_shown = keys <= min(2**64 - 1, 2**64 * _SHOWN_BYTES // max(1, corpus_bytes))
    texts = (np.where(are_shown, sets.texts[side[are_like]], b"") for side in sides)
    columns = [like["document"], like["task"], like["keeper"], similarities[are_like]]
    columns = [*map(np.ascontiguousarray, columns), *map(pa.array, texts)]
    return ragged.to_batch(columns, EDGE_SCHEMA), len(pairs)
