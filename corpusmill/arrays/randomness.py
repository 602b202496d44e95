"""Random numbers as a pure function of stable ids.

A draw is `draw(key, counter)`: SplitMix64 (Steele, Lea, Flood 2014) read at any position. The key
is derived from (seed, document, repeat, purpose), so that building the same document draws the same
numbers on any machine, in any order, after any number of retries.
"""

from functools import cache
from hashlib import blake2b

import numpy as np

from corpusmill.arrays.kernel_cache import njit

# The purposes of our own keys. Two purposes never share a stream; a number, once used, keeps its
# meaning. New purposes have names: `purpose_of`.
PAIRS, MASKING, PLACE, SHARD, SPLIT, POOL, SAMPLE = 1, 2, 3, 4, 5, 6, 7
PACKS = 8
SHARD_ORDER, ROTATION, WINDOW, LOADED_MASK, MIXTURE, POOLED = 9, 10, 11, 12, 13, 14
BLOCK_ORDER = 15

MAX_SEED = 2**64 - 1

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_ONE = np.uint64(1)
_TWO_TO_MINUS_53 = 2.0**-53
# The keys of up to this many documents are derived without numba, so that it need not be imported.
_FEW = 1024


@cache
def purpose_of(name: str) -> int:
    """Return the purpose of a stream that is named.

    Args:
        name: the stream's, with the package's before it, so that no other package has the same
            ("my-package.spans").

    Returns:
        2**62 to 2**63 - 1, which no purpose above is.
    """
    digest = blake2b(name.encode(), digest_size=8).digest()
    return 2**62 + int.from_bytes(digest, "little") % 2**62


@njit
def mix(value: np.uint64) -> np.uint64:
    """Apply SplitMix64's finalizer, a bijection of 64 bits that hides all structure."""
    z = (value ^ (value >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)


@njit
def derive_key(seed: int, document: int, repeat: int, purpose: int) -> np.uint64:
    """Derive the key of one stream of draws.

    Args:
        seed: the data set's seed, 0 to 2**64 - 1. Zero is a seed like any other.
        document: the document's id (`corpusmill.corpus.batches.document_id`).
        repeat: the number of the pass over the document, from 0.
        purpose: one of the constants above, or that of a name (`purpose_of`).
    """
    key = mix(np.uint64(seed) + _GOLDEN)
    key = mix(key ^ (np.uint64(document) + _GOLDEN))
    key = mix(key ^ (np.uint64(repeat) + _GOLDEN))
    return np.uint64(mix(key ^ (np.uint64(purpose) * _GOLDEN)))


@njit
def draw(key: np.uint64, counter: int) -> np.uint64:
    """Return 64 random bits: draw number `counter` of the stream `key`."""
    return np.uint64(mix(key + (np.uint64(counter) + _ONE) * _GOLDEN))


@njit
def to_uniform(bits: np.uint64) -> float:
    """Convert random bits to a float64 in [0, 1) with 53 random bits."""
    return np.float64(bits >> _S11) * _TWO_TO_MINUS_53


@njit
def to_below(bits: np.uint64, bound: int) -> int:
    """Convert random bits to an integer in [0, bound), uniform up to bound / 2**53; bound > 0."""
    return int(np.float64(bits >> _S11) * _TWO_TO_MINUS_53 * bound)


@njit
def count_bits(bits: np.uint64) -> int:
    """Count the set bits: a binomial draw with 64 trials of probability one half."""
    total = 0
    while bits:
        bits &= bits - _ONE
        total += 1
    return total


def derive_keys(
    seed: int | np.uint64, documents: np.ndarray, repeat: int, purpose: int
) -> np.ndarray:
    """Derive the keys of many documents, as `derive_key`.

    Args:
        seed: as in `derive_key`.
        documents: uint64[documents].
        repeat: as in `derive_key`.
        purpose: as in `derive_key`.

    Returns:
        uint64[documents].
    """
    if len(documents) <= _FEW:
        return derive_all(seed, documents, np.array([repeat], np.uint64), purpose)
    keys: np.ndarray = _derive_keys(np.uint64(seed), documents, repeat, purpose)
    return keys


@njit
def _derive_keys(seed: int, documents: np.ndarray, repeat: int, purpose: int) -> np.ndarray:
    keys = np.empty(len(documents), np.uint64)
    for i in range(len(documents)):
        keys[i] = derive_key(seed, documents[i], repeat, purpose)
    return keys


def derive_all(
    seed: int | np.uint64, documents: np.ndarray, repeats: np.ndarray, purpose: int
) -> np.ndarray:
    """Derive the keys of many documents and repeats, as `derive_key`, but without numba.

    It takes a few times as long as a kernel; importing numba takes longer than a million keys.

    Args:
        seed: as in `derive_key`.
        documents: uint64[n].
        repeats: uint64[n], or uint64[1] for all.
        purpose: as in `derive_key`.

    Returns:
        uint64[n].
    """
    key = _mix_all(np.array([seed], np.uint64) + _GOLDEN)
    for part in (documents, repeats, np.array([purpose], np.uint64) * _GOLDEN - _GOLDEN):
        key = _mix_all(key ^ (part + _GOLDEN))
    return key


def draw_rows(
    seed: int | np.uint64,
    documents: np.ndarray,
    repeats: int | np.ndarray,
    indices: np.ndarray,
    purpose: int,
) -> np.ndarray:
    """Draw a number for each row from what identifies it, as `draw`, but without numba.

    Args:
        seed: as in `derive_key`.
        documents: uint64[rows], the id of each row's document.
        repeats: the number of the pass, or integers[rows].
        indices: integers[rows], each row's place in its document's pass.
        purpose: as in `derive_key`.

    Returns:
        uint64[rows], 64 random bits each.
    """
    keys = derive_all(seed, documents, np.full(len(documents), repeats, np.uint64), purpose)
    return _mix_all(keys + (indices.astype(np.uint64) + _ONE) * _GOLDEN)


def _mix_all(values: np.ndarray) -> np.ndarray:
    """Apply `mix` to each of some numbers, in their place."""
    for shift, factor in ((_S30, _M1), (_S27, _M2), (_S31, _ONE)):
        values ^= values >> shift
        values *= factor
    return values
