"""What keeps random documents from being drawn from all text, and runs that are stopped."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import transforms.decide
import transforms.recall
from corpusmill.console.process import FAILURE
from tests.tools.growing import SHARE, Growing
from tests.tools.random_draws import all_of, appended, first, growing, problems

__all__ = ["appended", "first", "growing"]


def stop_at_commit(
    growing: Growing, text: Path, monkeypatch: pytest.MonkeyPatch, *flags: str | Path
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(transforms.decide, "find_imbalances", fail)
        growing.append(text, flags=flags, status=FAILURE)


def test_a_stopped_run_goes_on_and_reads_nothing_again(
    growing: Growing,
    appended: Growing,
    halves: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop_at_commit(growing, halves[1], monkeypatch, *all_of(halves[0]))
    begun = ("this is not the run that was stopped", "random_documents was all and is None")
    growing.append(halves[1], flags=("--resume",), refused=begun)

    def fail(*_: object) -> None:
        raise AssertionError("work is done again")

    with monkeypatch.context() as patch:
        patch.setattr(transforms.recall._RecallTask, "_recall", fail)
        growing.append(halves[1], flags=("--resume", *all_of(halves[0])))
    assert growing.files() == appended.files()
    again = ("--resume", "--existing", "allow")
    outcome = growing.append(halves[1], flags=(*again, *all_of(halves[0])))
    assert "nothing is left to do, as the text has been added" in outcome.output
    other = ("the text has been added, with --random-documents all", "leave --resume out")
    growing.append(halves[1], flags=again, refused=other)
    assert growing.files() == appended.files()


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("--random-documents", "all"), ("in text", "it is not said where", "Give the input")),
        (("--random-documents", "all", "--earlier-input", "nowhere"),
         ("--earlier-input nowhere", "no such file")),
        (("--earlier-input", "first"), ("--earlier-input first", "Add --random-documents all")),
    ],
)  # fmt: skip
def test_mistakes_are_refused_before_any_work(
    flags: tuple[str, ...],
    parts: tuple[str, ...],
    growing: Growing,
    halves: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(halves[0].parent.parent)
    files = growing.files()
    growing.append(halves[1], flags=flags, refused=parts)
    assert growing.files() == files


def test_it_needs_a_data_set_and_an_objective_that_draws(
    halves: tuple[Path, Path], wordpiece: Path, tmp_path: Path
) -> None:
    growing = Growing(tmp_path / "out", wordpiece, SHARE, "electra")
    alone = ("--random-documents", "all")
    growing.build(halves[0], flags=alone, refused=("--random-documents all", "Add --append"))
    growing.build(halves[0])
    refused = ("--random-documents all", "electra with these options draws no", "Leave it out")
    growing.append(halves[1], flags=all_of(halves[0]), refused=refused)
    assert problems(growing.output) == []


def overwrite(content: bytes) -> bytes:
    """Change a letter in the middle."""
    middle = len(content) // 2
    place = next(n for n in range(middle, len(content)) if content[n : n + 1].isalpha())
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda content: content + b"more\n", ("/text", "text had", "bytes", "has now")),
        (overwrite, ("/text", "text has other text", "Give the files as they were")),
    ],
)
def test_a_file_that_has_changed_is_refused_before_any_work(
    change: Callable[[bytes], bytes],
    parts: tuple[str, ...],
    growing: Growing,
    halves: tuple[Path, Path],
    tmp_path: Path,
) -> None:
    files, moved = growing.files(), tmp_path / "moved" / "text"
    moved.parent.mkdir()
    moved.write_bytes(change(halves[0].read_bytes()))
    growing.append(halves[1], flags=all_of(moved), refused=parts)
    assert growing.files() == files
    moved.unlink()
    (moved.parent / "other").write_text("Some text .\n")
    missing = ("--earlier-input", "in text, which is not there", "Give the input")
    growing.append(halves[1], flags=all_of(moved.parent), refused=missing)
    assert growing.files() == files


def test_a_file_is_found_where_it_was_moved_among_others_of_its_name(
    growing: Growing, appended: Growing, halves: tuple[Path, Path], tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    for name, content in (("a", overwrite(halves[0].read_bytes())),
                          ("b", halves[0].read_bytes()), ("c", b"short\n")):  # fmt: skip
        (moved / name).mkdir(parents=True)
        (moved / name / "text").write_bytes(content)
    growing.append(halves[1], flags=all_of(moved))
    assert growing.files() == appended.files()


def test_the_options_may_stand_in_a_file(
    growing: Growing, appended: Growing, halves: tuple[Path, Path], tmp_path: Path
) -> None:
    options = {"random_documents": "all", "earlier_input": [str(halves[0])]}
    (tmp_path / "append.yaml").write_text(json.dumps(options))  # which is YAML
    growing.append(halves[1], flags=("--config", tmp_path / "append.yaml"))
    assert growing.files() == appended.files()


def test_text_that_changes_while_the_run_works_ends_it(
    growing: Growing, halves: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = tmp_path / "moved" / "text"
    moved.parent.mkdir()
    moved.write_bytes(halves[0].read_bytes())
    recall = transforms.recall._RecallTask._recall

    def change(*arguments: Any) -> Any:
        moved.write_bytes(overwrite(halves[0].read_bytes()))
        return recall(*arguments)

    monkeypatch.setattr(transforms.recall._RecallTask, "_recall", change)
    changed = (f"--earlier-input {moved}", "is not what it was", "--random-documents new")
    growing.append(halves[1], flags=all_of(moved), refused=changed)
    assert problems(growing.output) == []
