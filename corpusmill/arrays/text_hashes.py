"""The hashes of texts by which equal documents are found, and what else is known of a document.

A hash is MurmurHash3's of 128 bits. Two of 10**11 different texts have the same one with a
probability below 10**-16. Source: https://github.com/aappleby/smhasher (`MurmurHash3_x64_128` with
seed 0).

Facts of documents travel with them to their shards, in columns that a batch has after its others,
all of them or none. Each has a document's

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
from corpusmill.arrays.intrinsics import load_word
from corpusmill.arrays.kernel_cache import njit

_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_M1, _M2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_A1, _A2 = np.uint64(0x52DCE729), np.uint64(0x38495AB5)
_FIVE, _S33, _BITS = np.uint64(5), np.uint64(33), np.uint64(64)
_EIGHT, _BLOCK = np.uint64(8), np.uint64(16)


@njit
def hash_lines(text: np.ndarray, offsets: np.ndarray, line_offsets: np.ndarray) -> np.ndarray:
    r"""Hash texts that are given as their lines; "\n" stands between two lines.

    Args:
        text: uint8[bytes].
        offsets: integers[texts + 1] into the lines.
        line_offsets: integers[lines + 1] into the bytes.

    Returns:
        uint64[texts, 2], the first and the second half of each hash.

    Example:
        text "ab", offsets [0, 2] and line_offsets [0, 1, 2] give the hash of "a\nb".
    """
    hashes = np.empty((len(offsets) - 1, 2), np.uint64)
    joined = np.empty(1024, np.uint8)
    for row in range(len(hashes)):
        first, last = offsets[row], offsets[row + 1]
        lines = last - first
        if lines == 1:
            hashes[row, 0], hashes[row, 1] = _hash(text, line_offsets[first], line_offsets[last])
            continue
        size = line_offsets[last] - line_offsets[first] + max(lines - 1, 0)
        if size > len(joined):
            joined = np.empty(2 * size, np.uint8)
        place = 0
        for line in range(first, last):
            if line > first:
                joined[place] = 10
                place += 1
            source = text[line_offsets[line] : line_offsets[line + 1]]
            target = joined[place : place + source.size]
            # Compiled to vector instructions, which target[:] = source is not.
            for byte in range(source.size):
                target[byte] = source[byte]
            place += source.size
        hashes[row, 0], hashes[row, 1] = _hash(joined, 0, size)
    return hashes


@njit
def _hash(text: np.ndarray, begin: int, end: int) -> tuple[np.uint64, np.uint64]:
    one = two = np.uint64(0)
    # Indices that may be negative would be checked for it at each byte.
    place, last = np.uint64(begin), np.uint64(end)
    while last - place >= _BLOCK:
        one = (_rotate(one ^ _mix_first(load_word(text, place)), 27) + two) * _FIVE + _A1
        two = (_rotate(two ^ _mix_second(load_word(text, place + _EIGHT)), 31) + one) * _FIVE + _A2
        place += _BLOCK
    left = end - np.int64(place)
    one ^= _mix_first(_load_some(text, np.int64(place), min(left, 8)))
    two ^= _mix_second(_load_some(text, np.int64(place) + 8, max(0, left - 8)))
    length = np.uint64(end - begin)
    one, two = one ^ length, two ^ length
    one += two
    two += one
    one, two = _finish(one), _finish(two)
    one += two
    return one, two + one


@njit(inline="always")
def _load_some(text: np.ndarray, place: int, number: int) -> np.uint64:
    """Read up to 8 bytes, the lowest first."""
    value = np.uint64(0)
    for byte in range(number):
        value |= np.uint64(text[place + byte]) << np.uint64(8 * byte)
    return value


@njit(inline="always")
def _rotate(value: np.uint64, bits: int) -> np.uint64:
    rotated: np.uint64 = (value << np.uint64(bits)) | (value >> (_BITS - np.uint64(bits)))
    return rotated


@njit(inline="always")
def _mix_first(block: np.uint64) -> np.uint64:
    mixed: np.uint64 = _rotate(block * _C1, 31) * _C2
    return mixed


@njit(inline="always")
def _mix_second(block: np.uint64) -> np.uint64:
    mixed: np.uint64 = _rotate(block * _C2, 33) * _C1
    return mixed


@njit
def _finish(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> _S33)) * _M1
    value = (value ^ (value >> _S33)) * _M2
    return value ^ (value >> _S33)


# Columns of the table of documents beside kept fields (`corpusmill.provenance.documents_table`).
DOCUMENT_COLUMNS = ("document", "length", "tokens", "digest")
LENGTH = pa.field("length", pa.uint64())
DIGEST = pa.field("digest", pa.uint64())
_FIELD = "field:"


def field_column(name: str) -> pa.Field:
    """Return the column of a kept field."""
    return pa.field(_FIELD + name, pa.string())


def kept_columns(schema: pa.Schema) -> list[tuple[int, str]]:
    """Return the numbers of the columns of kept fields, and the names of these fields."""
    names = enumerate(schema.names)
    return [(i, name.removeprefix(_FIELD)) for i, name in names if name.startswith(_FIELD)]


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
