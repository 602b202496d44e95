"""Attempts that are killed, lost or overtaken change no byte of a data set."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import transforms.build
import transforms.corpus.prepare
import transforms.shuffle.segments
from corpusmill.verification.check_data_set import verify
from pipeline.runners.engine import Run, Submitted
from pipeline.runners.local.engine import LocalEngine
from tests.tools.jobs import PAIRS, digests, last_wins, run_here
from tests.tools.knobs import knobs
from tests.tools.retrying_runner import ENGINES, run_on
from tests.tools.versions import digests_by_version
from transforms.build import ShardDoFn

# An attempt that is killed in the middle of a shard closes its writer after the shard's file.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SPREAD = ("--num-shards", "3", "--seed", "1", "--validation-share", "0.2", "--range-bytes", "5000")
LINES = ("--document-rule", "wikitext", "--sentence-rule", "line")


class Kind(NamedTuple):
    """A kind of data set."""

    flags: tuple[str, ...]
    two_levels: bool = False


KINDS = {
    "bert": Kind(("bert", *PAIRS)),
    "bert, two levels of files and little memory": Kind(("bert", *PAIRS), two_levels=True),
    "electra": Kind(("electra", *PAIRS, "--output-format", "tfrecord")),
    "ernie": Kind(("ernie", *PAIRS, "--output-format", "ernie-text")),
    "gpt, packed": Kind(("gpt", *LINES, "--mode", "pack", "--max-seq-length", "64")),
    "gpt, one file a split": Kind(("gpt", *LINES, "--output-format", "nanogpt")),
    "gpt, two files a split": Kind(("gpt", *LINES, "--output-format", "megatron")),
}


@pytest.fixture(scope="module")
def corpus(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tenth of the sample, with rejects."""
    text = tmp_path_factory.mktemp("corpus") / "text"
    lines = sample.read_bytes().splitlines(keepends=True)
    text.write_bytes(b"".join([b"Not \xff text .\n", *lines[:60], b"Nor is \xff this .\n"]))
    return text


Build = Callable[..., dict[str, str]]


@pytest.fixture
def build(corpus: Path, gpt_tokenizer: Path) -> Build:
    """Build a data set of a kind; gives the digests of all files of its folder."""

    def run(kind: str, output: Path, *flags: str) -> dict[str, str]:
        case = KINDS[kind]
        # Segments thought to be tiny make several levels of files.
        small = {"smallest_segment_bytes": 16 * 2**20} if case.two_levels else {}
        flags += ("--sort-bytes", "20000") if case.two_levels else ()
        arguments = ("--input", corpus, "--tokenizer", gpt_tokenizer, "--output", output)
        with knobs(**small):
            run_here(*last_wins(*case.flags, *arguments, *SPREAD, *flags))
        return digests(output)

    return run


@pytest.fixture(scope="module")
def plain() -> dict[str, dict[str, str]]:
    """What each kind is without any fault, once it has been built."""
    return {}


def assert_finished_once(output: Path) -> Callable[[], None]:
    """Return what runs after each attempt: a check that a sealed data set is complete."""
    last: dict[Path, tuple[int, int]] = {}

    def look() -> None:
        found = {
            path: (path.stat().st_mtime_ns, path.stat().st_ino)
            for path in output.rglob("*")
            if "_temporary" not in str(path) and path.is_file()
        }
        if (output / "_SUCCESS") in found and found != last:
            last.clear()
            last.update(found)
            # Files of the run, and of an earlier data set that is being replaced.
            problems = [entry for entry in verify(output) if not entry.what.startswith("extra")]
            assert problems == []

    return look


# Each kind fails in one way, each way is that of a kind, and two kinds fail in all of them.
_CASES = [*zip(list(KINDS)[::-1], [*ENGINES, "all of it"], strict=True)]


@pytest.mark.parametrize(("kind", "engine"), _CASES)
def test_attempts_that_fail_change_no_byte(
    kind: str, engine: str, build: Build, plain: dict[str, dict[str, str]], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if kind not in plain:
        plain[kind] = build(kind, tmp_path / "plain")
    output = tmp_path / "out"
    made = run_on(monkeypatch, engine, after_attempt=assert_finished_once(output))
    assert build(kind, output) == plain[kind]
    [runner] = made
    # How many moments pass differs from run to run, and with that which fates are drawn of all.
    fates = {attempt.fate for entry in ENGINES[engine] for attempt in entry}
    assert len(runner.fates) >= min(len(fates), 3)
    assert runner.fates <= fates


@pytest.mark.parametrize("waits", [True, False])
def test_work_that_is_repeated_after_the_commit_is_done(
    waits: bool, build: Build, plain: dict[str, dict[str, str]], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """As on an engine that loses a machine whose worker has just ended the commit."""
    if "bert" not in plain:
        plain["bert"] = build("bert", tmp_path / "plain")
    submit, output = LocalEngine.submit, tmp_path / "out"

    def submit_twice(engine: LocalEngine, run: Run) -> Submitted:
        submit(engine, run)
        done.update(digests(output))
        for owner, name in (
            (transforms.corpus.prepare._PrepareTask, "_spill"),
            (ShardDoFn, "_make"),
        ):
            monkeypatch.setattr(owner, name, forbid)
        submit(engine, run)
        return Submitted(done=waits)

    def forbid(*_: object) -> None:
        raise AssertionError("finished work is done again")

    done: dict[str, str] = {}
    monkeypatch.setattr(LocalEngine, "submit", submit_twice)
    monkeypatch.setattr(LocalEngine, "reason_to_wait", "")
    assert build("bert", output, *(() if waits else ("--no-wait",))) == plain["bert"]
    assert any("/_temporary" in name for name in done) == waits


def test_a_data_set_is_replaced_by_attempts_that_fail(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build("bert", tmp_path / "plain")
    output = tmp_path / "out"
    build("bert", output, "--seed", "2", "--num-shards", "5")
    made = run_on(monkeypatch, "all of it", seed=1, after_attempt=assert_finished_once(output))
    build("bert", output, "--replace")
    assert digests_by_version(output) == digests_by_version(tmp_path / "plain")
    assert len(made) == 1
