from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from corpusmill.arrays.randomness import derive_key, derive_keys
from corpusmill.reading.order.order import permute, unpermute
from tests.tools.lazily import LazyModule

stats = LazyModule("scipy.stats")


@njit
def _all(size: int, key: np.uint64) -> np.ndarray:
    return np.array([permute(index, size, key) for index in range(size)])


@njit
def _some(begin: int, count: int, size: int, key: np.uint64) -> np.ndarray:
    return np.array([permute(begin + place, size, key) for place in range(count)])


def _key(number: int) -> np.uint64:
    return np.uint64(derive_key(np.uint64(number), 0, 0, 1))


def test_every_number_occurs_once_for_every_small_size() -> None:
    for size in range(1, 700):
        assert np.array_equal(np.sort(_all(size, _key(size))), np.arange(size))


@given(st.integers(1, 200_000), st.integers(0, 2**64 - 1))
def test_every_number_occurs_once_for_any_size_and_key(size: int, seed: int) -> None:
    assert np.array_equal(np.sort(_all(size, _key(seed))), np.arange(size))


@given(st.integers(1, 2**60), st.integers(0, 2**64 - 1), st.integers(0, 2**60))
def test_numbers_of_large_ranges_stay_within_and_apart(size: int, seed: int, begin: int) -> None:
    begin %= size
    result = _some(begin, min(100, size - begin), size, _key(seed))
    assert len(set(result.tolist())) == len(result)
    assert 0 <= result.min() <= result.max() < size


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_all_permutations_are_equally_likely(size: int) -> None:
    indices = {arranged: number for number, arranged in enumerate(permutations(range(size)))}
    counts = np.zeros(len(indices))
    for number in range(100 * len(indices)):
        counts[indices[tuple(_all(size, _key(number)).tolist())]] += 1
    assert stats.chisquare(counts).pvalue > 1e-6


@njit
def _pairs(size: int, gap: int, keys: np.ndarray) -> np.ndarray:
    """Return the places of one number, and the distances of the other one after it."""
    result = np.empty((len(keys), 2), np.int64)
    for place, key in enumerate(keys):
        result[place, 0] = permute(size // 3, size, key)
        result[place, 1] = (permute((size // 3 + gap) % size, size, key) - result[place, 0]) % size
    return result


@pytest.mark.parametrize("size", [65, 97, 300])
@pytest.mark.parametrize("gap", [1, 2, 18])
def test_two_numbers_go_to_any_two_places(size: int, gap: int) -> None:
    keys = derive_keys(np.uint64(7), np.arange(400_000, dtype=np.uint64), 0, 1)
    pairs = _pairs(size, gap, keys)
    counts = np.bincount(pairs[:, 0] * size + pairs[:, 1], minlength=size * size)
    assert stats.chisquare(counts.reshape(size, size)[:, 1:].ravel()).pvalue > 1e-6


@pytest.mark.parametrize("size", [1025, 5000, 2**17, 10**12])
@pytest.mark.parametrize("gap", [1, 33, 100])
def test_two_of_many_numbers_go_anywhere(size: int, gap: int) -> None:
    keys = derive_keys(np.uint64(7), np.arange(100_000, dtype=np.uint64), 0, 1)
    shares = _pairs(size, gap, keys) / [size, size - 1]
    counts = np.histogramdd(shares, bins=16, range=[(0, 1), (0, 1 + 1e-9)])[0]
    places = np.diff(np.ceil(np.linspace(0, size, 17))) / size
    distances = np.diff(np.ceil(np.linspace(0, size - 1, 17))) / (size - 1)
    expected = 100_000 * np.outer(places, distances)
    assert stats.chisquare(counts.ravel(), expected.ravel()).pvalue > 1e-6


@njit
def _back(places: np.ndarray, size: int, key: np.uint64) -> np.ndarray:
    return np.array([unpermute(place, size, key) for place in places])


@given(st.integers(1, 2**60), st.integers(0, 2**64 - 1), st.integers(0, 2**60))
def test_each_number_is_found_again_at_its_place(size: int, seed: int, begin: int) -> None:
    begin %= size
    places = _some(begin, min(100, size - begin), size, _key(seed))
    assert np.array_equal(_back(places, size, _key(seed)), begin + np.arange(len(places)))
