from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.errors import UserError
from corpusmill.reading.order.stages import Stage, apportion, plan_stages, read_weights, share

SIZES = (100, 1000)
NAMES = ("books", "wiki")

numbers = st.lists(st.sampled_from([0.0, 0.001, 0.1, 0.7, 1.0, 3.0, 100.0]), min_size=3, max_size=3)
weights = numbers.filter(any)


def shares_of(weights: Sequence[float]) -> list[Fraction]:
    return [Fraction(weight) / sum(map(Fraction, weights)) for weight in weights]


@given(weights, st.integers(1, 10**12))
def test_quotas_are_the_shares_rounded_with_an_exact_sum(
    weights: list[float], samples: int
) -> None:
    quotas = apportion(shares_of(weights), samples)
    assert sum(quotas) == samples
    remainders = []
    for quota, part in zip(quotas, shares_of(weights), strict=True):
        assert abs(quota - part * samples) < 1
        remainders.append((part * samples % 1, quota > part * samples))
    # Those that are rounded up have the largest remainders.
    up = [remainder for remainder, is_up in remainders if is_up]
    down = [remainder for remainder, is_up in remainders if not is_up]
    assert min(up, default=1) >= max(down, default=0)


@settings(deadline=None)
@given(weights, weights, st.integers(1, 10**4))
def test_a_ramp_follows_the_line_and_its_quotas_are_exact(
    begin: list[float], end: list[float], samples: int
) -> None:
    stages = [Stage(begin, 10**6), Stage(end, samples, ramp=True)]
    pairs = list(zip(shares_of(begin), shares_of(end), strict=True))
    whole = apportion([(one + other) / 2 for one, other in pairs], samples)
    if any(not quota and any(pair) for quota, pair in zip(whole, pairs, strict=True)):
        with pytest.raises(UserError, match="has no sample in"):
            plan_stages(stages, (50, 60, 70), None)
        return
    planned, _, total = plan_stages(stages, (50, 60, 70), None)
    assert total == 10**6 + samples
    assert planned[-1] == apportion(shares_of(end), samples)  # is repeated
    steps = planned[1:-1]
    assert len(steps) == min(64, samples)
    assert tuple(map(sum, zip(*steps, strict=True))) == whole
    read = [0, 0, 0]
    for step in steps:
        read = [one + quota for one, quota in zip(read, step, strict=True)]
        done = Fraction(sum(read), samples)
        for count, (first, last) in zip(read, pairs, strict=True):
            assert abs(count - samples * (first * done + (last - first) * done**2 / 2)) < 2
    sizes = [sum(step) for step in steps]
    assert max(sizes) - min(sizes) <= 1


PLANNED: list[tuple[list[Stage], list[tuple[int, int]]]] = [
    ([Stage([1, 3], 8)], [(2, 6)]),
    ([Stage([1, 3], 10), Stage([1, 0], 5)], [(3, 7), (5, 0)]),
    ([Stage({"wiki": 3, "books": 1}, 8)], [(2, 6)]),
    ([Stage([1, 2], epochs=1)], [(100, 200)]),
    ([Stage([1, 2], epochs=2.5)], [(250, 500)]),
    ([Stage([0, 2], epochs=2)], [(0, 2000)]),
    (
        [Stage([1, 0], 6), Stage([0, 1], 4, ramp=True)],
        [(6, 0), (1, 0), (1, 0), (0, 1), (0, 1), (0, 4)],
    ),
    (
        [Stage([1, 0], 6), Stage([0, 1], 2, ramp=True), Stage([0, 1], 3)],
        [(6, 0), (1, 0), (0, 1), (0, 3)],
    ),
]
OF_EPOCHS: list[tuple[Any, Any, tuple[int, int]]] = [
    ((1, 2), "first_exhausted", (100, 200)),
    ((1, 2), "all_exhausted", (500, 1000)),
    ((0.1, 0.9), "first_exhausted", (100, 900)),
    ((1, 20), "first_exhausted", (50, 1000)),
    ((0.3, 0.3), "first_exhausted", (100, 100)),
    ((0, 2), "first_exhausted", (0, 1000)),
    ((1, 2), 10, (3, 7)),
    ((2, 1), 3000, (2000, 1000)),
]
WRONG: list[tuple[Any, Any, str]] = [
    ([1], None, "each of the 2 sources needs one number, 0 or more"),
    ([1, -1], None, "one number, 0 or more"),
    ([1, float("nan")], None, "one number, 0 or more"),
    ([1, float("inf")], None, "one number, 0 or more"),
    ([0, 0], None, "no source would be read"),
    ({"books": 0, "wiki": 0}, NAMES, "no source would be read"),
    ({"books": 1, "wkii": 1}, NAMES, "no source 'wkii'; there are books, wiki"),
    ({"books": 1}, NAMES, "the source 'wiki' has no weight. Give each source one; 0"),
    ({}, NAMES, "the source 'books' has no weight"),
    ([1, 1], NAMES, "the sources have names.*Give a dictionary with books, wiki"),
    ({"books": 1, "wiki": 1}, None, "the sources have no names.*by the same names"),
]


def test_quotas_of_stages_and_epochs() -> None:
    for stages, planned in PLANNED:
        names = NAMES if isinstance(stages[0].weights, dict) else None
        assert plan_stages(stages, SIZES, names)[0] == tuple(planned)
    for weights, epoch_size, expected in OF_EPOCHS:
        assert share(SIZES, shares_of(weights), epoch_size) == expected


def test_wrong_weights_are_refused() -> None:
    for weights, names, message in WRONG:
        with pytest.raises(UserError, match=message):
            read_weights(weights, names, 2)


def test_stages_that_leave_a_source_out_or_have_not_one_length_are_refused() -> None:
    for stages, message in (
        ([Stage([1, 1000], 10)], "source 0 has no sample in 10"),
        ([Stage([1, 1], 10), Stage([1, 1000], 10)], "1000.*source 0 has no sample in 10"),
        ([Stage([1, 1], 10, ramp=True)], "no weights before it"),
        ([Stage([1, 0], 10), Stage([0.999, 0.001], 5, ramp=True)], "source 1 has no sample in 5"),
    ):
        with pytest.raises(UserError, match=message):
            plan_stages(stages, SIZES, None)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "needs one length"),
        ({"samples": 5, "epochs": 1}, "needs one length"),
        ({"samples": 0}, "samples=0: .*positive"),
        ({"epochs": 0}, "epochs must be above 0"),
        ({"epochs": float("nan")}, "epochs must be above 0"),
    ]
    for lengths, message in wrong:
        with pytest.raises(UserError, match=message):
            Stage([1, 1], **lengths)


def test_weights_of_very_many_sources_are_added_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    additions = 0
    add = Fraction.__add__

    def count(one: Fraction, other: Fraction) -> Fraction:
        nonlocal additions
        additions += 1
        return add(one, other)

    monkeypatch.setattr(Fraction, "__add__", count)
    number = 2000
    shares = read_weights([1 + source % 7 for source in range(number)], None, number)
    quotas = apportion(shares, 10 * number + 3)
    assert sum(quotas) == 10 * number + 3
    assert additions < 5 * number
