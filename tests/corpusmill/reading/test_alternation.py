from heapq import heapify, heappop, heappush
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.reading.mixture import MixtureOrder

Quotas = tuple[int, ...]


@st.composite
def stages(draw: st.DrawFn) -> list[Quotas]:
    sources = draw(st.integers(1, 6))
    quotas = st.lists(st.integers(0, 150), min_size=sources, max_size=sources).filter(sum)
    return [tuple(stage) for stage in draw(st.lists(quotas, min_size=1, max_size=4))]


def assign_by_hand(number: int, stages: list[Quotas]) -> tuple[int, int]:
    """Return the source of a number and its own number, without shuffling, in plain Python.

    A number in a stage belongs to the source in whose half of the stage it is, and so on: halves
    are the two nodes that the tree of the stage joins.
    """
    base = [0] * len(stages[0])
    for stage in stages[:-1]:
        if number < sum(stage):
            break
        number -= sum(stage)
        base = [one + quota for one, quota in zip(base, stage, strict=True)]
    else:
        stage = stages[-1]
        turns, number = divmod(number, sum(stage))
        base = [one + turns * quota for one, quota in zip(base, stage, strict=True)]
    node, sizes, halves = make_tree(stage)
    while node in halves:
        first, second = halves[node]
        before, after = (
            (2 * place * sizes[first] + sizes[node]) // (2 * sizes[node])
            for place in (number, number + 1)
        )
        node, number = (first, before) if after > before else (second, number - before)
    return node, base[node] + number


def make_tree(quotas: Quotas) -> tuple[int, dict[int, int], dict[int, tuple[int, int]]]:
    """Return the root, the size of each node, and the halves of each that has some."""
    sizes = dict(enumerate(quotas))
    halves: dict[int, tuple[int, int]] = {}
    waiting = [(quota, source) for source, quota in sizes.items() if quota]
    heapify(waiting)
    while len(waiting) > 1:
        (small, one), (large, other) = heappop(waiting), heappop(waiting)
        node = len(quotas) + len(halves)
        sizes[node], halves[node] = small + large, (min(one, other), max(one, other))
        heappush(waiting, (small + large, node))
    return waiting[0][1], sizes, halves


def mixture(stages: list[Quotas], stretch: int = 1, seed: int = 0) -> MixtureOrder:
    return MixtureOrder((), tuple(stages), seed, stretch=stretch)


@settings(deadline=None)
@given(stages(), st.integers(0, 2**64 - 1), st.integers(1, 100))
def test_each_stage_has_its_quotas_and_sources_continue(
    stages: list[Quotas], seed: int, stretch: int
) -> None:
    order = mixture(stages, stretch, seed)
    begin, bases = 0, np.zeros(len(stages[0]), int)
    for quotas in [*stages, stages[-1], stages[-1]]:  # the last one is repeated
        sources, own = order.assign(np.arange(begin, begin + sum(quotas)))
        for source, quota in enumerate(quotas):
            expected = np.arange(bases[source], bases[source] + quota)
            assert np.array_equal(np.sort(own[sources == source]), expected)
        begin, bases = begin + sum(quotas), bases + quotas


@settings(deadline=None)
@given(stages(), st.data())
def test_a_number_is_the_same_in_any_company(stages: list[Quotas], data: st.DataObject) -> None:
    order, size = mixture(stages, 50, 7), 2 * sum(map(sum, stages))
    sources, own = order.assign(np.arange(size))
    numbers = np.array(data.draw(st.lists(st.integers(0, size - 1), max_size=50)), np.int64)
    some, their_own = order.assign(numbers)
    assert np.array_equal(some, sources[numbers])
    assert np.array_equal(their_own, own[numbers])


@settings(deadline=None)
@given(stages(), st.integers(0, 10**6))
def test_without_shuffling_it_is_as_by_hand(stages: list[Quotas], begin: int) -> None:
    numbers = np.concatenate([np.arange(100), np.arange(begin, begin + 100)])
    result = mixture(stages).assign(numbers)
    expected = [assign_by_hand(number, stages) for number in numbers.tolist()]
    assert list(zip(*(part.tolist() for part in result), strict=True)) == expected


def test_stages_far_beyond_32_bits_are_exact() -> None:
    drawn = np.random.default_rng(1)
    for sources in (2, 3, 7):
        for _ in range(50):
            stages = [tuple(drawn.integers(1, 2**47, sources).tolist()) for _ in range(2)]
            numbers = drawn.integers(0, 100 * sum(stages[1]), 100)
            result = mixture(stages).assign(numbers)
            expected = [assign_by_hand(number, stages) for number in numbers.tolist()]
            assert list(zip(*(part.tolist() for part in result), strict=True)) == expected


unequal = st.integers(1, 20).map(lambda power: round(1.5**power))


@settings(deadline=None)
@given(st.lists(unequal, min_size=2, max_size=12), st.integers(0, 9))
def test_up_to_the_end_of_any_stretch_each_source_has_its_share(
    quotas: list[int], seed: int
) -> None:
    for stretch in (1, 64):
        sources, _ = mixture([tuple(quotas)], stretch, seed).assign(np.arange(sum(quotas)))
        read = np.cumsum(sources[:, None] == np.arange(len(quotas)), axis=0)[stretch - 1 :: stretch]
        fair = (np.arange(len(read)) + 1)[:, None] * stretch * np.array(quotas) / sum(quotas)
        assert np.abs(read - fair).max(initial=0) < (0.51 if len(quotas) == 2 else 1.7)


def test_stretches_are_shuffled_and_each_stage_differently() -> None:
    sources, _ = mixture([(500, 500), (500, 500)], 64, 3).assign(np.arange(3000))
    assert 0.45 < (np.diff(sources) != 0).mean() < 0.55  # 1 if they take turns
    stages = sources.reshape(3, 1000)
    assert all(0.4 < (one == other).mean() < 0.6 for one, other in pairwise(stages))
