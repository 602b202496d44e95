import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.console.plots import bin_shares, cut_bins
from corpusmill.dataset.manifest_entries import as_mapping
from corpusmill.inspection.corpus_measures import assign_bins, bin_edge
from corpusmill.inspection.figures import Distribution

VALUES = st.lists(st.integers(0, 700) | st.integers(0, 2**40), min_size=1)


def count(values: list[int]) -> Distribution:
    places, numbers = np.unique(values, return_counts=True)
    return Distribution("length", dict(zip(places.tolist(), numbers.tolist(), strict=True)))


@given(VALUES, VALUES)
def test_bins_are_equally_wide_and_hold_every_value_once(
    values: list[int], others: list[int]
) -> None:
    distributions = [count(values), count(others)]
    bins = cut_bins(distributions)
    assert len(bins) <= 66
    *equal, last = bins
    assert len({len(part) for part in equal}) <= 1
    assert len(bins[0]) & (len(bins[0]) - 1) == 0
    assert [part.start for part in bins] == [0, *(part.stop for part in equal)]
    assert max(*values, *others) in last
    for distribution, own in zip(distributions, (values, others), strict=True):
        expected = [sum(value in part for value in own) / len(own) for part in bins]
        assert np.allclose(bin_shares(distribution, bins), expected)


@given(VALUES)
def test_bins_of_a_measured_corpus_are_parts_of_them(values: list[int]) -> None:
    """So that no bin has more than its values for the places of other bins."""
    measured = assign_bins(np.array(values))
    first = [bin_edge(part) for part in measured.tolist()]
    bins = cut_bins([count(first)])
    shares = bin_shares(count(first), bins)
    if len(bins) == 1 or len(bins[-1]) == len(bins[0]):
        assert np.allclose(shares, bin_shares(count(values), bins))
    else:
        assert np.allclose(shares[:-1], bin_shares(count(values), bins[:-1]))


@pytest.mark.parametrize(
    ("largest", "number", "width"),
    [(20, 21, 1), (64, 65, 1), (128, 65, 2), (512, 65, 8), (1000, 63, 16), (1024, 65, 16)],
)
def test_even_values_give_even_bars(largest: int, number: int, width: int) -> None:
    """A comb of high and low bars comes from bins that hold unequal numbers of whole numbers."""
    distribution = Distribution("length", as_mapping(np.ones(largest + 1, np.int64)))
    bins = cut_bins([distribution])
    assert (len(bins), len(bins[0])) == (number, width)
    shares = bin_shares(distribution, bins)
    assert np.allclose(shares[:-1], shares[0])


def test_a_few_large_values_have_a_bin_of_their_own() -> None:
    bins = cut_bins([Distribution("length", {1: 50, 127: 49, 1000: 1})])
    assert (bins[0], bins[-2], bins[-1]) == (range(2), range(126, 128), range(128, 1001))


def test_the_shares_of_the_docstring() -> None:
    shares = bin_shares(Distribution("length", {1: 1, 2: 3}), (range(2), range(2, 4)))
    assert shares.tolist() == [0.25, 0.75]
