from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from scipy.stats import chisquare

from corpusmill.randomness import derive_key
from corpusmill.reading.permutation import permute


@njit
def _all(size: int, key: np.uint64) -> np.ndarray:
    return np.array([permute(index, size, key) for index in range(size)])


@njit
def _some(begin: int, count: int, size: int, key: np.uint64) -> np.ndarray:
    return np.array([permute(begin + place, size, key) for place in range(count)])


def _key(number: int) -> np.uint64:
    return np.uint64(derive_key(np.uint64(number), 0, 0, 1))


def test_every_number_is_given_once_for_every_size() -> None:
    for size in range(1, 700):
        assert np.array_equal(np.sort(_all(size, _key(size))), np.arange(size))


@given(st.integers(1, 200_000), st.integers(0, 2**64 - 1))
def test_every_number_is_given_once_for_any_size_and_key(size: int, seed: int) -> None:
    assert np.array_equal(np.sort(_all(size, _key(seed))), np.arange(size))


@given(st.integers(1, 2**60), st.integers(0, 2**64 - 1), st.integers(0, 2**60))
def test_numbers_of_large_ranges_stay_within_and_apart(size: int, seed: int, begin: int) -> None:
    begin %= size
    found = _some(begin, min(100, size - begin), size, _key(seed))
    assert len(set(found.tolist())) == len(found)
    assert 0 <= found.min() <= found.max() < size


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_all_permutations_are_equally_likely(size: int) -> None:
    of = {arranged: number for number, arranged in enumerate(permutations(range(size)))}
    counts = np.zeros(len(of))
    for number in range(100 * len(of)):
        counts[of[tuple(_all(size, _key(number)).tolist())]] += 1
    assert chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("size", [97, 1024, 5000])
def test_a_number_goes_anywhere_and_its_neighbour_anywhere_else(size: int) -> None:
    moved = np.array([_some(size // 2, 2, size, _key(number)) for number in range(4000)])
    places = np.histogram(moved[:, 0], bins=20, range=(0, size))[0]
    steps = np.histogram((moved[:, 1] - moved[:, 0]) % size, bins=20, range=(0, size))[0]
    expected = np.diff(np.ceil(np.linspace(0, size, 21))) * 4000 / size
    for counts in (places, steps):
        assert chisquare(counts, expected).pvalue > 1e-6
