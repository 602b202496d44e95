"""A run that was stopped is resumed, and ends with the bytes of one that was not stopped."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import transforms.build
import transforms.commit.contents
import transforms.corpus.prepare
from corpusmill import location
from corpusmill.console.process import FAILURE, INTERRUPTED
from tests.tools.data_files import damage_file, digests_by_version
from tests.tools.jobs import WORKERS, Outcome, build

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
    build([corpus], tokenizer_path, output, *RANGES)
    return digests_by_version(output)


class Stop:
    """Stops a run when it creates its nth file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls, self.at = count(), -1
        self.error: Callable[[], BaseException] = Exception
        for owner, name in ((Path, "open"), (location, "create_named")):
            monkeypatch.setattr(owner, name, self._watch(getattr(owner, name)))

    def _watch(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Path, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            if mode == "wb" and next(self.calls) == self.at:
                raise self.error()
            return real(path, mode, *arguments, **named)

        return call


def full_disk() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Stopped:
    """An output folder, and the command that fills it."""

    def __init__(self, corpus: Path, tokenizer: Path, output: Path) -> None:
        self.corpus, self.tokenizer, self.output = corpus, tokenizer, output

    def run(self, *flags: str, **end: Any) -> Outcome:
        return build([self.corpus], self.tokenizer, self.output, *RANGES, *flags, **end)

    def stop_at_commit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Stop a run when all tasks and shards are finished."""

        def fail(*_: object) -> None:
            raise RuntimeError("stopped")

        with monkeypatch.context() as patch:
            patch.setattr(transforms.commit.contents, "find_imbalances", fail)
            outcome = self.run(status=FAILURE)
        assert "--resume" in outcome.errors

    @property
    def temporary(self) -> Path:
        [folder] = self.output.glob("v*/_temporary-*")
        return folder


@pytest.fixture
def stopped(corpus: Path, tokenizer_path: Path, tmp_path: Path) -> Stopped:
    """A run that stops; its corpus is a copy that tests change."""
    copied = tmp_path / "corpus"
    shutil.copytree(corpus, copied)
    return Stopped(copied, tokenizer_path, tmp_path / "out")


def forbid(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    def fail(*_: object) -> None:
        raise AssertionError(f"{name} is done again")

    monkeypatch.setattr(owner, name, fail)


def test_what_is_finished_is_not_done_again(
    stopped: Stopped, plain: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped.stop_at_commit(monkeypatch)
    forbid(monkeypatch, transforms.corpus.prepare._PrepareTask, "_spill")
    forbid(monkeypatch, transforms.build.ShardDoFn, "_make")
    outcome = stopped.run("--resume")
    assert "4 shards" in outcome.output
    assert digests_by_version(stopped.output) == plain


@pytest.fixture(scope="module")
def files_of_a_run(
    corpus: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> int:
    """How many files a run that nothing stops creates."""
    with pytest.MonkeyPatch.context() as patch:
        stop = Stop(patch)
        stopped = Stopped(corpus, tokenizer_path, tmp_path_factory.mktemp("counted") / "out")
        stopped.run()
        return next(stop.calls)


@pytest.mark.parametrize(
    ("share", "error", "status"),
    [
        (0.3, full_disk, FAILURE), (0.5, KeyboardInterrupt, INTERRUPTED),
        (0.7, full_disk, FAILURE), (0.85, KeyboardInterrupt, INTERRUPTED),
        (0.95, full_disk, FAILURE),
    ],
)  # fmt: skip
def test_a_run_stopped_at_any_moment_goes_on(
    error: Callable[[], BaseException], status: int, share: float, files_of_a_run: int,
    stopped: Stopped, plain: dict[str, str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    with monkeypatch.context() as patch:
        stop = Stop(patch)
        stop.at, stop.error = round(files_of_a_run * share), error
        stopped.run(status=status)
    assert not (stopped.output / "_SUCCESS").exists()
    stopped.run("--resume")
    assert digests_by_version(stopped.output) == plain


@pytest.mark.parametrize("flags", [("--range-bytes", "3000"), WORKERS])
def test_a_run_goes_on_in_another_way(
    flags: tuple[str, ...], stopped: Stopped, plain: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped.stop_at_commit(monkeypatch)
    for done in [*stopped.temporary.glob("done-task-1*"), *stopped.temporary.glob("done-shard-2*")]:
        done.unlink()
    stopped.run("--resume", *flags)
    assert digests_by_version(stopped.output) == plain


def test_temporary_files_that_are_damaged_or_gone_are_made_again(
    stopped: Stopped, plain: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("done-", "spill-", "pool-", "/rejects-", "/run.json", "v1/train-")
    for damaged in names:
        stopped.stop_at_commit(monkeypatch)
        results = [
            entry
            for entry in stopped.output.rglob("*")
            if damaged in str(entry) and entry.is_file()
        ]
        assert results, damaged
        for file, kind in zip(results, ("flipped", "zeroed", "cut", "gone"), strict=False):
            damage_file(file, kind)
        stopped.run("--resume")
        assert digests_by_version(stopped.output) == plain, damaged
        shutil.rmtree(stopped.output)
    stopped.stop_at_commit(monkeypatch)
    shutil.rmtree(stopped.temporary)
    stopped.run("--resume")
    assert digests_by_version(stopped.output) == plain


def test_another_run_than_the_one_that_was_stopped_is_refused_with_what_changed(
    stopped: Stopped,
    plain: dict[str, str],
    tokenizer_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped.stop_at_commit(monkeypatch)
    for flags, changed in (
        (("--seed", "2"), "seed was 1 and is 2"),
        (("--num-shards", "4"), "train_shards was 3 and is 4"),
        (("--masked-lm-prob", "0.2"), "masked_lm_prob was 0.15 and is 0.2"),
        (("--validation-share", "0.1"), "validation_share was 0.2 and is 0.1"),
    ):
        stopped.run("--resume", *flags, refused=("--resume", changed))
    content = json.loads(tokenizer_path.read_text())
    content["model"]["vocab"]["another"] = len(content["model"]["vocab"])
    stopped.tokenizer = tmp_path / "tokenizer.json"
    stopped.tokenizer.write_text(json.dumps(content))
    stopped.run("--resume", refused=("--resume", "tokenizer.sha256 was "))
    stopped.tokenizer = tokenizer_path
    file = stopped.corpus / "a"
    text, times = file.read_bytes(), file.stat()
    file.write_bytes(text + b"More .\n")
    stopped.run("--resume", refused=("--resume", "the input a had "))
    file.write_bytes(text)
    os.utime(file, (times.st_atime + 10, times.st_mtime + 10))
    stopped.run("--resume", refused=("--resume", "the input a was modified"))
    (stopped.corpus / "c").write_text("New .\n")
    stopped.run("--resume", refused=("--resume", "the input c is new"))
    (stopped.corpus / "c").unlink()
    moved = file.rename(stopped.corpus.parent / "moved")
    stopped.run("--resume", refused=("--resume", "the input a is missing"))
    moved.rename(file)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    # None of these has taken anything away.
    stopped.run("--resume")
    assert digests_by_version(stopped.output) == plain


def test_where_nothing_was_stopped_nothing_is_resumed(
    stopped: Stopped, plain: dict[str, str]
) -> None:
    stopped.run("--resume")
    assert digests_by_version(stopped.output) == plain
    assert "nothing is left to do" in stopped.run("--resume", "--max-rejects", "0").output
    assert digests_by_version(stopped.output) == plain


def test_a_data_set_that_another_command_has_built_is_not_taken_for_the_resumed_one(
    stopped: Stopped, plain: dict[str, str]
) -> None:
    stopped.run()
    for flags, changed in (
        (("--seed", "2"), "seed was 1 and is 2"),
        (("--num-shards", "4"), "train had 3 shards and has 4"),
        (("--masked-lm-prob", "0.2"), "masked_lm_prob was 0.15 and is 0.2"),
    ):
        stopped.run("--resume", *flags, refused=("--resume", "is complete", changed, "--replace"))
    os.utime(stopped.corpus / "a", (2**32, 2**32))
    stopped.run("--resume", refused=("--resume", "the input a was modified"))
    assert digests_by_version(stopped.output) == plain
    os.utime(stopped.corpus / "a", (0, 0))
    shard = next(stopped.output.glob("v1/train-*"))
    shard.unlink()
    stopped.run("--resume", refused=("--resume", shard.name, "is missing"))


def test_the_copy_of_a_stopped_run_leaves_the_work_of_the_original(
    stopped: Stopped, plain: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped.stop_at_commit(monkeypatch)
    copied = Stopped(stopped.corpus, stopped.tokenizer, stopped.output.with_name("copy"))
    shutil.copytree(stopped.output, copied.output)
    # It begins anew.
    copied.run("--resume")
    assert digests_by_version(copied.output) == plain
    forbid(monkeypatch, transforms.corpus.prepare._PrepareTask, "_spill")
    stopped.run("--resume")
    assert digests_by_version(stopped.output) == plain


@pytest.mark.parametrize("flag", ["--resume", "--replace"])
def test_a_folder_that_a_stopped_run_names_is_not_deleted_unless_a_run_has_made_it(
    flag: str, stopped: Stopped, tmp_path: Path
) -> None:
    precious = tmp_path / f"_temporary-{'0a' * 16}"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    for folder in (tmp_path, precious, stopped.output, ""):
        run = {"token": "t", "temp_folder": str(folder), "host": "x", "process": 1, "started": 1}
        (stopped.output / "v1").mkdir(parents=True)
        (stopped.output / "v1" / "_run.json").write_text(json.dumps(run))
        # A folder without a mark is left alone, and the run begins anew.
        stopped.run(flag, "--temp-location", str(tmp_path))
        assert (precious / "thesis.txt").read_text() == "years of work"
        shutil.rmtree(stopped.output)
