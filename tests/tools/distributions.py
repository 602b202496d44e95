"""Tests of distributions with one false-alarm rate.

With random seeds, every test would fail for `FALSE_ALARM_RATE` of them, even if the code is right.
Seeds are fixed, so that a test that has passed once passes until the code changes.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tests.tools.lazily import LazyModule

stats = LazyModule("scipy.stats")

FALSE_ALARM_RATE = 1e-4

# With fewer observations per category, a chi-square test is not exact enough.
_LEAST = 20


def assert_same_distribution(ours: np.ndarray, reference: np.ndarray, what: str) -> None:
    """Test two samples of integers for homogeneity by chi-square; rare values count as one."""
    values = np.union1d(ours, reference)
    table = np.stack([_count(sample, values) for sample in (ours, reference)])
    table = _merge_rare(table, table.sum(axis=0))
    if table.shape[1] < 2:
        return  # both samples have the same single value
    p_value = stats.chi2_contingency(table, correction=False).pvalue
    assert p_value > FALSE_ALARM_RATE, f"{what}: p = {p_value:.1e}, counts {table.tolist()}"


def assert_same_distributions(
    ours: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray], name: str = ""
) -> None:
    """Test each of several properties for homogeneity."""
    for what, values in ours.items():
        assert_same_distribution(values, reference[what], f"{name}: {what}")


def arrays_of(observations: Iterable[Mapping[str, int]]) -> dict[str, np.ndarray]:
    """Return the values of each property, from the properties of each observation."""
    rows = list(observations)
    return {name: np.array([row[name] for row in rows], np.int64) for name in rows[0]}


def assert_counts(observed: np.ndarray, shares: Sequence[float] | np.ndarray, what: str) -> None:
    """Test counts against known shares by chi-square; rare categories count as one."""
    assert len(observed) == len(shares)
    expected = np.asarray(shares, np.float64)
    expected = expected / expected.sum() * observed.sum()
    table = _merge_rare(np.stack([observed, expected]), expected)
    assert table.shape[1] > 1, f"{what}: too few observations for this test"
    p_value = stats.chisquare(table[0], table[1]).pvalue
    assert p_value > FALSE_ALARM_RATE, f"{what}: p = {p_value:.1e}, counts {observed.tolist()}"


def assert_uniform(observed: np.ndarray, what: str) -> None:
    """Test by chi-square that all categories are equally likely."""
    assert_counts(observed, np.ones(len(observed)), what)


def _merge_rare(table: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Merge the columns with the smallest totals until their total is large enough."""
    order = np.argsort(totals)
    sums = np.cumsum(totals[order])
    merged = int(np.searchsorted(sums, _LEAST)) + 1
    return np.column_stack([table[:, order[:merged]].sum(axis=1), table[:, order[merged:]]])


def _count(sample: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.bincount(np.searchsorted(values, sample), minlength=len(values))
