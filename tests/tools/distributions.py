"""Tests of distributions with one false-alarm rate.

Every test fails for `FALSE_ALARM_RATE` of all seeds, were they drawn anew, even where the code is
right. Seeds are fixed, so that a test that has passed once goes on passing until the code changes.
"""

from collections.abc import Sequence

import numpy as np
from scipy import stats

FALSE_ALARM_RATE = 1e-4

# A chi-square of fewer observations a category is not exact enough.
_LEAST = 20


def assert_same_distribution(ours: np.ndarray, reference: np.ndarray, what: str) -> None:
    """Chi-square test of homogeneity of two samples of integers; rare values count as one."""
    values = np.union1d(ours, reference)
    table = np.stack([_count(sample, values) for sample in (ours, reference)])
    table = _merge_rare(table, table.sum(axis=0))
    if table.shape[1] < 2:
        return  # one value alone, in both samples
    p_value = stats.chi2_contingency(table, correction=False).pvalue
    assert p_value > FALSE_ALARM_RATE, f"{what}: p = {p_value:.1e}, counts {table.tolist()}"


def assert_counts(observed: np.ndarray, shares: Sequence[float] | np.ndarray, what: str) -> None:
    """Chi-square test of counts against known shares; rare categories count as one."""
    assert len(observed) == len(shares)
    expected = np.asarray(shares, np.float64)
    expected = expected / expected.sum() * observed.sum()
    table = _merge_rare(np.stack([observed, expected]), expected)
    assert table.shape[1] > 1, f"{what}: too few observations for this test"
    p_value = stats.chisquare(table[0], table[1]).pvalue
    assert p_value > FALSE_ALARM_RATE, f"{what}: p = {p_value:.1e}, counts {observed.tolist()}"


def assert_uniform(observed: np.ndarray, what: str) -> None:
    """Chi-square test that all categories are equally likely."""
    assert_counts(observed, np.ones(len(observed)), what)


def _merge_rare(table: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """The columns of too small a total as one, with the next smallest where still too small."""
    order = np.argsort(totals)
    sums = np.cumsum(totals[order])
    merged = int(np.searchsorted(sums, _LEAST)) + 1
    return np.column_stack([table[:, order[:merged]].sum(axis=1), table[:, order[merged:]]])


def _count(sample: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.bincount(np.searchsorted(values, sample), minlength=len(values))
