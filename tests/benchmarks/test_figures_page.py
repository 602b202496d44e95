"""The command that fills the page of figures."""

import re

import pytest

from benchmarks.__main__ import PAGE, TABLES, fill
from benchmarks.console import print_table

_PAGE = "before\n\n<!-- table: a -->\nold\n<!-- end -->\n\n<!-- table: b -->\nkept\n<!-- end -->\n"


def test_the_page_has_a_place_for_each_table_and_no_other() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert re.findall("(?m)^<!-- table: (.*) -->$", page) == list(TABLES)


@pytest.mark.parametrize("old", ["old\n", ""])
def test_one_table_is_filled_and_the_others_stay(old: str) -> None:
    filled = fill(_PAGE.replace("old\n", old), "a", "| new |", "today")
    assert filled == _PAGE.replace("old\n", "\n| new |\n\n*today*\n")


def test_a_table_is_printed_in_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("", "seconds", "MB/s"), [["a build", "12.5", "8.0"], ["not installed"]], "how")
    assert capsys.readouterr().out.splitlines() == [
        "",
        "| how           | seconds | MB/s |",
        "| ------------- | ------: | ---: |",
        "| a build       |    12.5 |  8.0 |",
        "| not installed |         |      |",
    ]
