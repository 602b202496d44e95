"""Help pages: wrapped once, to the terminal's width, with every option and its whole text."""

from itertools import pairwise

import pytest

from corpusmill.commands.table import list_commands, load_command
from pipeline.command_line import JOB
from tests.tools.jobs import run_here

# Where the texts of options begin.
_COLUMN = 24
_COMMANDS = [name for name, _, _ in list_commands()]


@pytest.fixture(params=[80, 120])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The columns of the terminal."""
    monkeypatch.setenv("COLUMNS", str(request.param))
    return int(request.param)


def help_of(command: str) -> list[str]:
    return run_here(command, "--help").output.splitlines()


@pytest.mark.parametrize("command", _COMMANDS)
def test_lines_are_as_long_as_the_terminal_lets_them(command: str, width: int) -> None:
    lines = help_of(command)
    # A word that is longer than its column is not broken.
    too_long = [line for line in lines if len(line) > width and len(line.split()) > 1]
    assert [line for line in too_long if not line.startswith("usage: ")] == []
    for line, following in pairwise(lines):
        indent, next_indent = (len(one) - len(one.lstrip()) for one in (line, following))
        if indent == next_indent == _COLUMN and line.strip():
            room = width - 2 - len(line)
            assert len(following.split()[0]) + 1 > room, (line, following)


@pytest.mark.usefixtures("width")
@pytest.mark.parametrize("command", _COMMANDS)
def test_every_option_has_its_text(command: str) -> None:
    page = " ".join(" ".join(help_of(command)).split())
    assert "options options" not in page
    for option in load_command(command, JOB).list_options():
        assert option.text
        assert option.text in page, option.flag
