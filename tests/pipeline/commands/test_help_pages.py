"""Help pages: wrapped once, to the terminal's width, with every option and its whole text."""

from itertools import pairwise, product

import pytest

from corpusmill.commands.table import list_commands, load_command
from pipeline.command_line import JOB
from tests.tools.jobs import run_here
from tests.tools.table_rows import check_rows

# Where the texts of options begin.
_COLUMN = 24
_COMMANDS = [name for name, _, _ in list_commands()]


def check_lines(lines: list[str], width: int) -> None:
    """Check that lines are as long as the terminal lets them."""
    # A word that is longer than its column is not broken.
    too_long = [line for line in lines if len(line) > width and len(line.split()) > 1]
    assert [line for line in too_long if not line.startswith("usage: ")] == []
    for line, following in pairwise(lines):
        indent, next_indent = (len(one) - len(one.lstrip()) for one in (line, following))
        if indent == next_indent == _COLUMN and line.strip():
            room = width - 2 - len(line)
            assert len(following.split()[0]) + 1 > room, (line, following)


def test_every_option_has_its_text_in_lines_of_the_terminals_width(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def check(row: tuple[str, int]) -> None:
        command, width = row
        monkeypatch.setenv("COLUMNS", str(width))
        lines = run_here(command, "--help").output.splitlines()
        check_lines(lines, width)
        page = " ".join(" ".join(lines).split())
        assert "options options" not in page
        for option in load_command(command, JOB).list_options():
            assert option.text
            assert option.text in page, option.flag

    check_rows(product(_COMMANDS, (80, 120)), check)
