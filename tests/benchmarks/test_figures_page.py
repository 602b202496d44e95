"""The command that fills the page of figures."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.__main__ import PAGE, TABLES, fill
from benchmarks.console import CONSOLE, print_table

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


_TABLE = "| MB/s | corpusmill | bare loop |\n| --- | --: | --: |\n| a | {} | 10 |"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The command writes this page, of two tables, and the file beside it."""
    path = tmp_path / "figures.md"
    path.write_text(_PAGE)
    monkeypatch.setattr(command, "PAGE", path)
    monkeypatch.setattr(command, "FIGURES", path.with_suffix(".json"))
    monkeypatch.setattr(command, "TABLES", {"a": "one", "b": "two"})
    return path


def call(monkeypatch: pytest.MonkeyPatch, rate: float, *arguments: str) -> int:
    """Run the command where the program of each table prints this rate; return its status."""
    monkeypatch.setattr(command, "run", lambda _: _TABLE.format(rate))
    with pytest.raises(SystemExit) as stopped:
        command.main(arguments)
    return int(stopped.value.code or 0)


def test_a_run_writes_the_page_and_the_numbers_with_the_machine(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call(monkeypatch, 20, "a") == 0
    text = page.read_text()
    assert "| a | 20 | 10 |" in text
    assert "kept" in text
    [machine] = json.loads(page.with_suffix(".json").read_bytes())
    assert set(machine["machine"]) == {"processor", "cores", "memory_gib"}
    assert set(machine["tables"]) == {"a"}
    measured = machine["tables"]["a"]
    assert measured["command"] == "one"
    assert {"day", "load", "versions"} <= set(measured)
    assert [figure["value"] for figure in measured["figures"]] == [20, 10]


def test_a_slower_figure_is_red_and_fails_only_if_asked_to(
    page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    summary = tmp_path / "summary.md"
    assert call(monkeypatch, 20) == 0
    with CONSOLE.capture() as shown:
        assert call(monkeypatch, 10, "a") == 0
        assert call(monkeypatch, 5, "a", "--fail-if-slower", "--summary", str(summary)) == 1
        assert call(monkeypatch, 5, "a", "--fail-if-slower") == 0
    line = "a: a, corpusmill: 20 -> 10 MB/s, 2.00 times as long: slower"
    assert line in shown.get().splitlines()  # without colours, as this is no terminal
    assert f"- **{line.replace('20 -> 10', '10 -> 5')}**\n" in summary.read_text()
    assert page.exists()


def test_a_table_that_seems_slower_is_measured_again(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(monkeypatch, 20, "a")
    rates = iter([5, 19])
    monkeypatch.setattr(command, "run", lambda _: _TABLE.format(next(rates)))
    with pytest.raises(SystemExit) as stopped:
        command.main(["a", "--fail-if-slower"])
    assert not stopped.value.code
    assert "| a | 19 | 10 |" in page.read_text()
    assert list(rates) == []


def test_colours_are_left_out_where_nobody_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for no_color, is_red in (("1", False), ("", True)):
        monkeypatch.setenv("NO_COLOR", no_color)
        terminal = type(CONSOLE)(force_terminal=True, color_system="standard")
        with terminal.capture() as shown:
            monkeypatch.setattr(command, "CONSOLE", terminal)
            command.show({"a": [("slower", True)]}, None)
        assert ("\x1b[31m" in shown.get()) == is_red


def test_other_machines_are_not_compared(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call(monkeypatch, 20, "a")
    monkeypatch.setattr(
        command, "describe_machine", lambda: {"processor": "p", "cores": 1, "memory_gib": 1}
    )
    assert call(monkeypatch, 5, "a", "--fail-if-slower") == 0
    assert len(json.loads(page.with_suffix(".json").read_bytes())) == 2


def test_a_program_that_fails_leaves_the_other_tables_measured(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(program: str) -> str:
        if program == "one":
            raise subprocess.CalledProcessError(1, program)
        return _TABLE.format(20)

    monkeypatch.setattr(command, "run", run)
    with CONSOLE.capture() as shown, pytest.raises(SystemExit) as stopped:
        command.main([])
    assert stopped.value.code == 1
    assert "a: not measured" in shown.get()
    assert "| a | 20 | 10 |" in page.read_text()
