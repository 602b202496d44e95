"""A run that adds to a data set is stopped: the data set stays whole, and the run goes on."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import transforms.commit.contents
import transforms.corpus.prepare
from corpusmill.console.process import FAILURE, INTERRUPTED
from corpusmill.verification.check_data_set import verify
from tests.tools.growing import Growing
from tests.tools.stops import Stop, full_disk
from tests.tools.versions import digests_by_version


@pytest.fixture(scope="module")
def undisturbed(
    first: Growing, halves: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, str], int]:
    """The files of an append that nothing stops, and how many files that creates."""
    growing = first.copy_to(tmp_path_factory.mktemp("undisturbed") / "out")
    with pytest.MonkeyPatch.context() as patch:
        stop = Stop(patch)
        growing.append(halves[1])
        return digests_by_version(growing.output), next(stop.calls)


def stop_at_commit(
    growing: Growing, text: Path, monkeypatch: pytest.MonkeyPatch, *flags: str
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(transforms.commit.contents, "find_imbalances", fail)
        outcome = growing.append(text, flags=flags, status=FAILURE)
    assert "without --resume it starts over" in outcome.errors


def assert_as_before(growing: Growing, first: Growing) -> None:
    """Assert that readers see the data set as it was before a run that was stopped."""
    assert growing.manifest() == first.manifest()
    assert verify(growing.output) == []


@pytest.mark.parametrize(
    ("share", "error", "status"),
    [
        (0.2, full_disk, FAILURE), (0.5, KeyboardInterrupt, INTERRUPTED),
        (0.6, full_disk, FAILURE), (0.94, KeyboardInterrupt, INTERRUPTED),
    ],
)  # fmt: skip
def test_an_append_stopped_at_any_moment_goes_on(
    share: float,
    error: Callable[[], BaseException],
    status: int,
    growing: Growing,
    first: Growing,
    halves: tuple[Path, Path],
    undisturbed: tuple[dict[str, str], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected, files = undisturbed
    with monkeypatch.context() as patch:
        stop = Stop(patch)
        stop.at, stop.error = round(files * share), error
        growing.append(halves[1], status=status)
    # Readers see the data set without or with all that is added.
    rows = growing.manifest().rows
    assert verify(growing.output) == []
    growing.append(halves[1], flags=("--resume",))
    assert digests_by_version(growing.output) == expected
    assert rows in {first.manifest().rows, growing.manifest().rows}


def test_what_is_finished_is_not_done_again(
    growing: Growing,
    halves: tuple[Path, Path],
    undisturbed: tuple[dict[str, str], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop_at_commit(growing, halves[1], monkeypatch)

    def fail(*_: object) -> None:
        raise AssertionError("work is done again")

    with monkeypatch.context() as patch:
        patch.setattr(transforms.corpus.prepare._PrepareTask, "_spill", fail)
        growing.append(halves[1], flags=("--resume",))
    assert digests_by_version(growing.output) == undisturbed[0]
    # The command may be repeated until it succeeds, and does nothing after that.
    outcome = growing.append(halves[1], flags=("--resume", "--existing", "allow"))
    assert "nothing is left to do, as the text has been added" in outcome.output
    assert digests_by_version(growing.output) == undisturbed[0]


def test_a_stopped_append_is_resumed_as_it_was_begun_or_started_over(
    growing: Growing,
    first: Growing,
    halves: tuple[Path, Path],
    undisturbed: tuple[dict[str, str], int],
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
    assert digests_by_version(growing.output) == undisturbed[0]


def test_a_stopped_build_is_not_resumed_as_an_append(
    growing: Growing, first: Growing, halves: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(transforms.commit.contents, "find_imbalances", fail)
        growing.build(halves[1], flags=("--replace",), status=FAILURE)
    parts = ("the stopped run builds the data set", "Leave --append out")
    growing.append(halves[1], flags=("--resume",), refused=parts)
    assert_as_before(growing, first)


def test_work_that_is_lost_is_started_over(
    growing: Growing,
    halves: tuple[Path, Path],
    undisturbed: tuple[dict[str, str], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop_at_commit(growing, halves[1], monkeypatch)
    [folder] = growing.output.glob("v*/_temporary-*")
    shutil.rmtree(folder)
    growing.append(halves[1], flags=("--resume",))
    assert digests_by_version(growing.output) == undisturbed[0]
