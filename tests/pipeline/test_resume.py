"""A run that was stopped goes on, and ends with the bytes of one that was not."""

import errno
import os
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from apache_beam.io.filesystems import FileSystems

import transforms.build
import transforms.commit
import transforms.prepare
from pipeline.command_line import FAILURE, INTERRUPTED, USER_ERROR
from tests.pipeline.jobs import Outcome, build, digests

RANGES = ("--range-bytes", "7777", "--validation-share", "0.2")


@pytest.fixture(scope="module")
def corpus(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of the sample, with a reject."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = sample.read_bytes().splitlines(keepends=True)
    (folder / "a").write_bytes(b"".join(lines[:120]) + b"Not \xff text .\n")
    (folder / "b").write_bytes(b"".join(lines[120:240]))
    return folder


@pytest.fixture(scope="module")
def plain(
    corpus: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    output = tmp_path_factory.mktemp("plain") / "out"
    outcome = build([corpus], tokenizer_path, output, *RANGES)
    assert outcome.status == 0, outcome.errors
    return digests(output)


class Stopped:
    """An output folder, and the command that fills it."""

    def __init__(self, corpus: Path, tokenizer: Path, output: Path) -> None:
        self.corpus, self.tokenizer, self.output = corpus, tokenizer, output

    def run(self, *flags: str) -> Outcome:
        return build([self.corpus], self.tokenizer, self.output, *RANGES, *flags)

    def stop_at_commit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Stop a run when all tasks and shards are finished."""

        def fail(*_: object) -> None:
            raise RuntimeError("stopped")

        with monkeypatch.context() as patch:
            patch.setattr(transforms.commit, "find_imbalances", fail)
            outcome = self.run()
        assert outcome.status == FAILURE
        assert "--resume" in outcome.errors

    @property
    def temporary(self) -> Path:
        [folder] = self.output.glob("_temporary-*")
        return folder


@pytest.fixture
def stopped(corpus: Path, tokenizer_path: Path, tmp_path: Path) -> Stopped:
    """Its corpus is a copy that may be changed."""
    copied = tmp_path / "corpus"
    shutil.copytree(corpus, copied)
    return Stopped(copied, tokenizer_path, tmp_path / "out")


def forbid(monkeypatch: pytest.MonkeyPatch, of: Any, name: str) -> None:
    def fail(*_: object) -> None:
        raise AssertionError(f"{name} is done again")

    monkeypatch.setattr(of, name, fail)


def test_what_is_finished_is_not_done_again(
    stopped: Stopped, plain: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped.stop_at_commit(monkeypatch)
    forbid(monkeypatch, transforms.prepare._SpillTask, "_spill")
    forbid(monkeypatch, transforms.build._BuildShard, "_make")
    outcome = stopped.run("--resume")
    assert outcome.status == 0, outcome.errors
    assert "4 shards" in outcome.output
    assert digests(stopped.output) == plain


class Stop:
    """Stops a run when it creates its nth file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls, self.at = count(), -1
        self.error: Callable[[], BaseException] = Exception
        real: Callable[..., Any] = FileSystems.create

        def call(*given: Any, **named: Any) -> Any:
            if next(self.calls) == self.at:
                raise self.error()
            return real(*given, **named)

        monkeypatch.setattr(FileSystems, "create", staticmethod(call))


def full_disk() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("share", [0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97])
@pytest.mark.parametrize(
    ("error", "status"), [(full_disk, USER_ERROR), (KeyboardInterrupt, INTERRUPTED)]
)
def test_a_run_stopped_at_any_moment_goes_on(
    error: Callable[[], BaseException],
    status: int,
    share: float,
    stopped: Stopped,
    plain: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        stop = Stop(patch)
        assert stopped.run().status == 0
        calls = next(stop.calls)
        shutil.rmtree(stopped.output)
        stop.calls, stop.at, stop.error = count(), round(calls * share), error
        outcome = stopped.run()
    assert outcome.status == status, outcome.errors
    assert not (stopped.output / "_SUCCESS").exists()
    outcome = stopped.run("--resume")
    assert outcome.status == 0, outcome.errors
    assert digests(stopped.output) == plain
