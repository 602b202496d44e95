"""The places of rows that are sorted by keys, of which some are in memory at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.layout.placement import sort_order
from corpusmill.provenance.key_ranks import KeyRanks
from corpusmill.provenance.spans import Ids, Integers

# Some with the same first bits, and some that are the same.
all_keys = st.sampled_from([0, 1, 2**40, 2**40 + 1, 2**63, 2**63 + 1, 2**64 - 1])
groups_of_keys = st.lists(st.lists(all_keys, max_size=6), min_size=1, max_size=5).filter(any)


class Reader:
    """Hands in the keys of groups, and counts how often.

    Attributes:
        read: the groups whose keys were read.
    """

    def __init__(self, groups: list[list[int]]) -> None:
        self.groups = [np.array(keys, np.uint64) for keys in groups]
        self.starts = np.cumsum([0, *map(len, groups)])
        self.read: list[int] = []
        # In another order than that in which rows are stored.
        self.documents = np.arange(self.starts[-1])[::-1].astype(np.uint64)

    def keys(self, group: int) -> Ids:
        self.read.append(group)
        return self.groups[group]

    def identity(self, numbers: Integers) -> list[np.ndarray]:
        return [self.documents[numbers], *np.zeros((2, len(numbers)), np.int64)]

    def order(self) -> Integers:
        nothing = np.zeros(len(self.documents), np.int64)
        return sort_order(np.concatenate(self.groups), self.documents, nothing, nothing)


@pytest.mark.parametrize("most_keys", [1, 3, 100])
@given(groups=groups_of_keys, data=st.data())
def test_rows_stand_in_the_order_of_their_keys_and_then_of_their_documents(
    most_keys: int, groups: list[list[int]], data: st.DataObject
) -> None:
    reader = Reader(groups)
    order = reader.order()
    ranks = KeyRanks(reader.starts, reader.keys, reader.identity, most_keys)
    some = np.array(data.draw(st.lists(st.sampled_from(range(len(order))))), np.int64)
    assert ranks.numbers_at(some).tolist() == order[some].tolist()
    assert ranks.places_of(some).tolist() == np.argsort(order)[some].tolist()


@given(st.lists(all_keys, min_size=1, max_size=9))
def test_equal_keys_within_a_group_stand_as_they_are_stored(keys: list[int]) -> None:
    reader = Reader([keys])
    order = np.argsort(reader.groups[0], kind="stable")
    ranks = KeyRanks(reader.starts, reader.keys)
    assert ranks.numbers_at(np.arange(len(keys))).tolist() == order.tolist()


def test_keys_are_read_as_often_for_many_rows_as_for_one() -> None:
    draws = np.random.default_rng(1)
    groups = [draws.integers(0, 2**64, 500, np.uint64).tolist() for _ in range(4)]
    for number in (1, 300):
        reader = Reader(groups)
        ranks = KeyRanks(reader.starts, reader.keys, reader.identity)
        ranks.numbers_at(draws.choice(2000, number, replace=False))
        assert reader.read == [0, 1, 2, 3] * 2
        # How many keys begin in the same way is known from then on.
        ranks.places_of(np.arange(0, 500, 500 // number))
        assert reader.read == [0, 1, 2, 3] * 2 + [0] + [0, 1, 2, 3]
