"""The figures of tables as numbers, and their comparison with the last ones."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks.comparison import (
    Figure,
    compare,
    find_slower,
    read_figures,
    read_tables,
    tell,
    write_table,
)

_RATES = """
| MB/s      | corpusmill | bare loop | gigatoken 0.10.0 | times bare loop |
| --------- | ---------: | --------: | ---------------: | --------------: |
| text      |      1,200 |       800 |    not installed |            1.50 |
| JSON      |        300 |       900 |                - |            0.33 |
"""
_BUILDS = """
| BERT         | MB of text | seconds | processor seconds | peak MiB |
| ------------ | ---------: | ------: | ----------------: | -------: |
| corpusmill   |       10.0 |     9.0 |               8.0 |      300 |
| corpusmill   |      100.0 |    90.0 |              70.0 |    1,300 |
| not installed one | not installed | | | |

| batches | padding | memory |
| ------- | ------: | -----: |
| mixed   |  36.07% |  82 kB |
"""
_VERSIONS = {"Python": "3.11.7"}


def table(figures: list[Figure], day: str = "2026-11-01", **versions: str) -> dict[str, Any]:
    return {
        "day": day,
        "versions": {**_VERSIONS, **versions},
        "figures": [asdict(figure) for figure in figures],
    }


def test_each_number_of_a_table_has_its_unit() -> None:
    assert read_figures(_RATES) == [
        Figure("text", "corpusmill", 1200, "MB/s"),
        Figure("text", "bare loop", 800, "MB/s"),
        Figure("text", "times bare loop", 1.5, "times"),
        Figure("JSON", "corpusmill", 300, "MB/s"),
        Figure("JSON", "bare loop", 900, "MB/s"),
        Figure("JSON", "times bare loop", 0.33, "times"),
    ]
    figures = read_figures(_BUILDS)
    assert Figure("corpusmill, 100.0", "processor seconds", 70, "processor seconds") in figures
    assert Figure("corpusmill, 10.0", "peak MiB", 300, "MiB") in figures
    assert figures[-2:] == [
        Figure("mixed", "padding", 36.07, "%"),
        Figure("mixed", "memory", 82, "kB"),
    ]


@pytest.mark.parametrize(("seconds", "slower"), [(109.0, False), (111.0, True), (80.0, False)])
def test_without_others_more_than_a_tenth_is_slower(seconds: float, slower: bool) -> None:
    last, now = _BUILDS.replace("70.0", "100.0"), _BUILDS.replace("70.0", f"{seconds}")
    changes = {each.figure.row: each for each in compare(read_figures(last), read_figures(now))}
    # The seconds of the clock, megabytes and memory are not compared.
    assert set(changes) == {"corpusmill, 10.0", "corpusmill, 100.0"}
    assert changes["corpusmill, 100.0"].is_slower == slower
    assert changes["corpusmill, 100.0"].factor == pytest.approx(seconds / 100)
    assert not changes["corpusmill, 10.0"].is_slower


def rates(ours: float, *others: float) -> list[Figure]:
    return [
        Figure("text", "corpusmill", ours, "MB/s"),
        *(Figure(f"{number}", "bare loop", rate, "MB/s") for number, rate in enumerate(others)),
    ]


@pytest.mark.parametrize(
    ("ours", "others", "factor", "slower"),
    [
        (50, (50, 50, 50), 1.0, False),  # the machine takes twice as long for all
        (80, (100, 100, 100), 1.25, True),
        (100, (200, 200, 200), 2.0, True),  # the machine is faster, and we are not
        (80, (100, 100, 75), 1.25, False),  # code that is the same swings by more
        (60, (100, 100, 75), 1 / 0.6, True),
    ],
)
def test_the_ways_of_others_say_how_fast_the_machine_is_and_how_it_swings(
    ours: float, others: tuple[float, ...], factor: float, slower: bool
) -> None:
    [change] = compare(rates(100, 100, 100, 100), rates(ours, *others))
    assert change.factor == pytest.approx(factor)
    assert change.is_slower == slower


def test_new_and_missing_figures_are_not_compared() -> None:
    last = [Figure("a", "processor seconds", 1, "processor seconds")]
    now = [Figure("b", "processor seconds", 9, "processor seconds")]
    assert compare(last, now) == []
    assert [line for line, _ in tell(table(last), table(now), set())] == [
        "nothing to compare on this machine"
    ]
    assert list(tell(None, table(now), set())) == [("nothing to compare on this machine", False)]


def test_what_is_slower_is_told_with_both_values_and_the_versions_that_changed() -> None:
    last, now = read_figures(_BUILDS), read_figures(_BUILDS.replace("70.0", "140.0"))
    slower = "corpusmill, 100.0, processor seconds: 70 -> 140 processor seconds, 2.00 times as long"
    tables = (table(last, numba="1.0"), table(now, numba="1.1"))
    both = find_slower(compare(last, now))
    assert both == {("corpusmill, 100.0", "processor seconds")}
    head = ("2 times compared with those of 2026-11-01; numba 1.0 -> 1.1", False)
    assert list(tell(*tables, both)) == [head, (f"{slower}: slower", True)]
    # What was slower in this measurement alone is not called so.
    assert list(tell(*tables, set())) == [head, (f"{slower}: perhaps slower, or noise", False)]


def test_the_file_keeps_each_machine_and_the_tables_that_were_not_measured(tmp_path: Path) -> None:
    path, here, there = tmp_path / "figures.json", {"cores": 2}, {"cores": 4}
    assert read_tables(path, here) == {}
    first, second = table(read_figures(_RATES)), table(read_figures(_BUILDS))
    write_table(path, here, "text", first)
    write_table(path, there, "text", second)
    write_table(path, here, "sizes", second)
    assert read_tables(path, there) == {"text": second}
    assert read_tables(path, here) == {"text": first, "sizes": second}
    write_table(path, here, "text", second)
    assert read_tables(path, here)["text"] == second
