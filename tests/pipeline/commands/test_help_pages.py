"""Help pages: wrapped once, to the terminal's width, with every option and its whole text."""

import re
from itertools import pairwise

import pytest

from corpusmill.commands.options import options_of
from corpusmill.commands.table import list_commands, load_command
from pipeline.command_line import JOB
from tests.tools.jobs import run_here

_COMMANDS = [name for name, _, _ in list_commands()]


@pytest.fixture(params=[80, 120])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The columns of the terminal."""
    monkeypatch.setenv("COLUMNS", str(request.param))
    return int(request.param)


def help_of(command: str) -> list[str]:
    words = (command, "bert") if command == "plan" else (command,)
    return run_here(*words, "--help").output.splitlines()


@pytest.mark.parametrize("command", _COMMANDS)
def test_lines_are_as_long_as_the_terminal_lets_them(command: str, width: int) -> None:
    lines = help_of(command)
    # The parser does not wrap the line that shows the usage.
    assert [line for line in lines if len(line) > width and not line.startswith("usage: ")] == []
    texts = [re.sub(r"\A│( +)(.*?) *│\Z", r"\1\2", line) for line in lines if line[:1] == "│"]
    for text, following in pairwise(texts):
        indent, next_indent = (len(one) - len(one.lstrip()) for one in (text, following))
        is_one_text = indent == next_indent > 1 and "•" not in text + following
        if is_one_text and not following.lstrip().startswith("-"):
            room = width - 3 - len(text.rstrip())
            assert len(following.split()[0]) + 1 > room, (text, following)


@pytest.mark.usefixtures("width")
@pytest.mark.parametrize("command", _COMMANDS)
def test_every_option_has_its_text(command: str) -> None:
    page = " ".join(re.sub("[│╭╮╰╯─]", " ", " ".join(help_of(command))).split())
    assert "options options" not in page
    for option in options_of(load_command(command, JOB)):
        assert option.text
        if not option.subcommand or command not in {"inspect-corpus"}:
            assert option.text in page, option.flag
