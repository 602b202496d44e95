"""Every integer at which the code takes another way is in a row of the page about thresholds."""

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.tools.knobs import list_knobs, name_constants
from tests.tools.thresholds import (
    CHECKOUT,
    PAGE,
    Number,
    Row,
    find_numbers,
    names_of,
    numbers_of,
    rows_of,
    write_limits,
)

_TEST = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def rows(page: str) -> list[Row]:
    return rows_of(page)


@pytest.fixture(scope="module")
def numbers() -> dict[str, Number]:
    """The integers of the code by what a row calls them."""
    return {number.key: number for number in find_numbers()}


def test_every_number_of_the_code_has_a_row(
    page: str, rows: list[Row], numbers: dict[str, Number]
) -> None:
    keys = {row.key for row in rows} | {*names_of(page)}
    assert not [
        f"{number.key} ({number.source})"
        for number in numbers.values()
        if number.key not in keys and not (number.is_literal and f"{number.module}: *" in keys)
    ]


def test_every_row_is_of_a_number_of_the_code(page: str, numbers: dict[str, Number]) -> None:
    """The rows of corpusmill/limits.py are compared by themselves."""
    by_hand = rows_of(page[page.index("## Small thresholds") :])
    keys = [*(row.key for row in by_hand), *names_of(page)]
    known = {*numbers, *(f"{each.module}: *" for each in numbers.values() if each.is_literal)}
    assert [key for key in keys if key not in known] == []
    assert [key for key, times in Counter(keys).items() if times > 1] == []
    values = {key: "a literal" if each.is_literal else each.source for key, each in numbers.items()}
    assert [row for row in by_hand if row.value.strip("`") != values[row.key]] == []


def test_the_table_of_limits_is_that_of_the_code(page: str) -> None:
    """`python -m tests.tools.thresholds` writes it."""
    assert write_limits(page) == page


def test_every_row_names_a_test_that_is_there_or_says_why_there_is_none(rows: list[Row]) -> None:
    assert [fault for row in rows for fault in _find_faults(row)] == []


def _find_faults(row: Row) -> Iterator[str]:
    if row.test.startswith("none: "):
        return
    named = row.test.split(", ")
    for name in named:
        match = _TEST.fullmatch(name)
        if match is None:
            yield f"{row.key}: {name}"
        elif match[1] not in _TEXTS:
            yield f"{row.key}: there is no {match[1]}"
        elif not re.search(rf"\bdef {match[2]}\(", _TEXTS[match[1]]):
            yield f"{row.key}: there is no {match[2]} in {match[1]}"


_TEXTS = {
    path.name: path.read_text(encoding="utf-8") for path in (CHECKOUT / "tests").rglob("test_*.py")
}


def test_every_constant_of_a_module_is_crossed_by_a_test() -> None:
    """By one that names it, or by the runs with all test values (`knobs(small=True)`)."""
    every, times = "\n".join(_TEXTS.values()), Counter(name_constants())
    assert [
        name
        for name, knob in list_knobs().items()
        if not knob.change
        or times[name.upper()] != 1
        or (knob.test is None and not re.search(rf"\b{name}\b", every))
    ] == []


_SAMPLE = """
SMALL, LARGE = 1, 32 * 2**20
NAME, SHARE = "name", 0.5
ROOM = 2 ** (BITS - MORE_BITS) - 1
LEVELS = {"gzip": (6, 9)}
MASK = np.uint64(255)
number = 3

class Options:
    rows: int = 8192
    first: int = 0

    def read(self, size: int = 2**20, *, times: int = 2, most: int = LARGE) -> bytes:
        if len(self) + 4 < size or size in (3, 9) or text == "9":
            return min(size, 2**16)
        return values[:77]
"""


def test_integers_are_found() -> None:
    found = {number.key: number.source for number in numbers_of(_SAMPLE, "room")}
    assert found == {
        "room.SMALL": "1",
        "room.LARGE": "32 * 2**20",
        "room.ROOM": "2**(BITS - MORE_BITS) - 1",
        "room.LEVELS": "{'gzip': (6, 9)}",
        "room.MASK": "np.uint64(255)",
        "room.Options.rows": "8192",
        "room.read(size)": "2**20",
        "room: 4": "4",
        "room: (3, 9)": "(3, 9)",
        "room: 2**16": "2**16",
    }


def test_tests_that_are_not_there_are_found() -> None:
    here, name = "test_thresholds.py", "test_integers_are_found"
    for test, faults in (
        (f"`{here}::{name}`, `{here}::{name}`", []),
        ("none: it takes a terabyte", []),
        (f"`{here}::{name}_not`", [f"room.A: there is no {name}_not in {here}"]),
        (f"`test_nothing.py::{name}`", ["room.A: there is no test_nothing.py"]),
        ("?", ["room.A: ?"]),
    ):
        assert list(_find_faults(Row("room.A", "`1`", "Something.", test))) == faults
