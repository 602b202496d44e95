"""Items that threads search: in order, a few at a time, and no more after an error."""

import threading
from collections.abc import Iterator

import pytest

from corpusmill.provenance.store import search_in_order


def test_results_come_in_order_and_items_are_taken_as_results_are() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    results = search_in_order(lambda number: -number, items())
    assert [next(results) for _ in range(5)] == [0, -1, -2, -3, -4]
    assert len(taken) < 100
    assert list(results) == [-number for number in range(5, 1000)]


def test_an_error_is_raised_when_it_is_its_turn_and_ends_the_search() -> None:
    def search(number: int) -> int:
        return 1 // (3 - number)

    results = search_in_order(search, range(1000))
    assert [next(results) for _ in range(3)] == [0, 0, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert not [thread for thread in threading.enumerate() if "ThreadPool" in thread.name]


def test_a_search_that_is_given_up_leaves_no_threads() -> None:
    results = search_in_order(str, range(1000))
    assert next(results) == "0"
    results.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if "ThreadPool" in thread.name]
