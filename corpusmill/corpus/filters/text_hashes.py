"""The hashes of texts by which equal documents are found: MurmurHash3's of 128 bits.

Two of 10**11 different texts have the same hash with a probability below 10**-16. Source:
https://github.com/aappleby/smhasher (`MurmurHash3_x64_128` with seed 0).
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit

_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_M1, _M2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_A1, _A2 = np.uint64(0x52DCE729), np.uint64(0x38495AB5)
_FIVE, _S33, _BITS = np.uint64(5), np.uint64(33), np.uint64(64)


@njit
def hash_texts(text: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Hash texts.

    Args:
        text: uint8[bytes].
        offsets: integers[texts + 1] into the bytes.

    Returns:
        uint64[texts, 2], the first and the second half of each hash.
    """
    hashes = np.empty((len(offsets) - 1, 2), np.uint64)
    for row in range(len(hashes)):
        first, end = offsets[row], offsets[row + 1]
        one = two = np.uint64(0)
        place = first
        while end - place >= 16:
            one = (_rotate(one ^ _mix_first(_load(text, place, 8)), 27) + two) * _FIVE + _A1
            two = (_rotate(two ^ _mix_second(_load(text, place + 8, 8)), 31) + one) * _FIVE + _A2
            place += 16
        left = end - place
        one ^= _mix_first(_load(text, place, min(left, 8)))
        two ^= _mix_second(_load(text, place + 8, max(0, left - 8)))
        length = np.uint64(end - first)
        one, two = one ^ length, two ^ length
        one += two
        two += one
        one, two = _finish(one), _finish(two)
        one += two
        hashes[row, 0], hashes[row, 1] = one, two + one
    return hashes


@njit(inline="always")
def _load(text: np.ndarray, place: int, number: int) -> np.uint64:
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
