"""A run that adds to a data set is stopped: the data set stays whole, and the run goes on."""

import shutil
from pathlib import Path

import pytest

import transforms.commit.commit
import transforms.commit.contents
import transforms.corpus.prepare
from corpusmill.console.process import FAILURE
from corpusmill.verification.check_data_set import verify
from tests.tools.data_files import digests_by_version
from tests.tools.growing import Growing
from tests.tools.jobs import run_here


@pytest.fixture(scope="module")
def undisturbed(
    first: Growing, halves: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """The files of an append that nothing stops."""
    growing = first.copy_to(tmp_path_factory.mktemp("undisturbed") / "out")
    growing.append(halves[1])
    return digests_by_version(growing.output)


def fail(*_: object) -> None:
    raise RuntimeError("stopped")


def stop_at_commit(
    growing: Growing, text: Path, monkeypatch: pytest.MonkeyPatch, *flags: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(transforms.commit.contents, "find_imbalances", fail)
        outcome = growing.append(text, flags=flags, status=FAILURE)
    assert "without --resume it starts over" in outcome.errors


def assert_as_before(growing: Growing, first: Growing) -> None:
    """Assert that readers see the data set as it was before a run that was stopped."""
    assert growing.manifest() == first.manifest()
    assert verify(growing.output) == []


def test_what_is_finished_is_not_done_again(
    growing: Growing,
    halves: tuple[Path, Path],
    undisturbed: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop_at_commit(growing, halves[1], monkeypatch)

    with monkeypatch.context() as patch:
        patch.setattr(transforms.corpus.prepare._PrepareTask, "_spill", fail)
        growing.append(halves[1], flags=("--resume",))
    assert digests_by_version(growing.output) == undisturbed
    # The command may be repeated until it succeeds, and does nothing after that.
    outcome = growing.append(halves[1], flags=("--resume", "--existing", "allow"))
    assert "nothing is left to do, as the text has been added" in outcome.output
    assert digests_by_version(growing.output) == undisturbed


def test_a_stopped_append_is_resumed_as_it_was_begun_or_started_over(
    growing: Growing,
    first: Growing,
    halves: tuple[Path, Path],
    undisturbed: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop_at_commit(growing, halves[1], monkeypatch)
    begun = ("this is not the run that was stopped", "start over without --resume")
    allow = ("--resume", "--existing", "allow")
    growing.append(halves[1], flags=allow, refused=(*begun, "left out and is added"))
    growing.append(halves[0], flags=("--resume",), refused=(*begun, "the input text"))
    other = ("--resume", "--fan-in", "999")
    growing.append(halves[1], flags=other, refused=(*begun, "fan_in was 1000 and is 999"))
    growing.build(halves[1], flags=("--resume",), refused=("adds to the data set", "Add --append"))
    assert_as_before(growing, first)
    growing.append(halves[1])
    assert digests_by_version(growing.output) == undisturbed


def test_a_stopped_build_is_not_resumed_as_an_append(
    growing: Growing, first: Growing, halves: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(transforms.commit.contents, "find_imbalances", fail)
        growing.build(halves[1], flags=("--replace",), status=FAILURE)
    parts = ("the stopped run builds the data set", "Leave --append out")
    growing.append(halves[1], flags=("--resume",), refused=parts)
    assert_as_before(growing, first)


def test_a_stopped_append_is_not_overtaken_by_a_removal(
    growing: Growing, halves: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at_commit(growing, halves[1], monkeypatch)
    removal, stopped = (
        ("drop", growing.output, "--where", "document % 5 = 0"),
        growing.output / "v2",
    )
    run_here(
        *removal, refused=("a run was stopped that adds to the data set", "--resume", str(stopped))
    )
    # As the message says.
    shutil.rmtree(stopped)
    run_here(*removal)
    assert verify(growing.output) == []
    assert not [*growing.output.rglob("_run.json")]


def test_text_is_added_after_a_removal_that_was_stopped(
    growing: Growing, first: Growing, halves: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(transforms.commit.commit, "commit", fail)
        run_here("drop", growing.output, "--where", "document % 5 = 0", status=FAILURE)
    assert_as_before(growing, first)
    growing.append(halves[1])
    assert verify(growing.output) == []
