"""Text reaches the terminal as it is, and never steers it."""

import io
import logging
import os
import sys
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from corpusmill.console.terminal import Terminal, drop_unread_output, hide_native_errors
from pipeline.console.run_log import LogOptions, log_event, open_log

HOSTILE = "x[red]y[/] :smile: \x1b[31m\u202e \udcff"
SHOWN = r"x[red]y[/] :smile: \u001b[31m\u202e \udcff"


def test_foreign_text_is_printed_as_it_is_and_colours_reach_the_terminal() -> None:
    for is_terminal in (False, True):
        stream = io.StringIO()
        console = Terminal(file=stream, force_terminal=is_terminal, color_system=None, width=200)
        console.print(HOSTILE)
        console.print(Text(f"{HOSTILE}\n{HOSTILE}"))
        table = Table(box=None, show_header=False)
        table.add_row(Text(HOSTILE))
        console.print(table, soft_wrap=False)
        console.print("one\nline")
        lines = [line.strip() for line in stream.getvalue().splitlines()]
        assert lines[:3] == [SHOWN] * 3
        assert lines[3].startswith(SHOWN[:20])  # its column is as wide as the text was
        assert lines[4:] == [r"one\nline"]
    stream = io.StringIO()
    console = Terminal(file=stream, force_terminal=True, color_system="standard", width=80)
    console.print(Text("red\x1b[2J", style="red"))
    assert stream.getvalue() == "\x1b[31mred\\u001b[2J\x1b[0m\n"


def test_output_is_written_before_its_reader_leaves_and_dropped_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        stream.write("usage")
        assert not drop_unread_output()
        assert os.read(reader, 100) == b"usage"
        os.close(reader)
        Terminal().print("more")
        assert not drop_unread_output()  # it leads nowhere now
        Terminal().print("and more")


def test_only_other_languages_are_hidden(capfd: pytest.CaptureFixture[str]) -> None:
    with hide_native_errors():
        os.write(2, b"thread panicked")
    os.write(2, b"seen")
    assert capfd.readouterr().err == "seen"


def test_a_log_takes_any_text_and_a_full_disk_ends_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Processes of pytest cannot send a captured log with such text to one another.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    path = tmp_path / "log"
    with open_log(LogOptions(log_format="json", log_file=str(path))):
        log_event("x", HOSTILE, {})
    assert b"\x1b" not in path.read_bytes()
    with open_log(LogOptions(log_level="info", log_file="/dev/full")):
        log_event("x", "a record", {})
        log_event("x", "another one", {})
    assert capsys.readouterr().err == (
        "warning: --log-file /dev/full: [Errno 28] No space left on device\n"
    )
