"""Attempts that are killed, lost or overtaken change no byte of a data set."""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pytest
from apache_beam.metrics import monitoring_infos
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.portability.fn_api_runner.fn_runner import BundleManager, FnApiRunner
from apache_beam.utils import shared

import transforms
import transforms.build
import transforms.corpus.prepare
import transforms.shuffle.segments
from corpusmill.verification.check_data_set import verify
from pipeline.runners.engine import Run, Submitted
from pipeline.runners.local import in_process
from pipeline.runners.local.engine import LocalEngine
from pipeline.runners.local.worker import end_bundles_at_once
from tests.tools.data_files import digests_by_version
from tests.tools.jobs import PAIRS, digests, last_wins, run_here
from tests.tools.knobs import knobs
from transforms.build import ShardDoFn

# Beam's local runner as an engine that fails: attempts at bundles are killed, lost or overtaken.
#
# A stage's input is cut into several bundles, as on an engine, and each is worked on by one or more
# attempts of which exactly one counts. An attempt runs in the instances of the DoFns that the one
# before it used, or in new ones, as in another process.


_TRANSFORMS = str(Path(transforms.__file__).parent)
_BUNDLES = 3

# An attempt at a stage that has not been seen is assumed to have this many moments.
_MOMENTS = 300


class Fate(Enum):
    """How an attempt ends."""

    COUNTS = auto()
    """It ends, and its outputs are taken."""
    LOST = auto()
    """It ends, and its outputs are thrown away."""
    KILLED = auto()
    """It ends at a random moment."""
    OVERTAKEN = auto()
    """It pauses at a random moment, and continues when another attempt has ended."""


@dataclass(frozen=True)
class Attempt:
    """One attempt at a bundle.

    Attributes:
        fate: how it ends.
        new: whether it runs in new instances of the DoFns.
    """

    fate: Fate
    new: bool = False


_COUNTS = Attempt(Fate.COUNTS)
ENGINES: dict[str, list[list[Attempt]]] = {
    "twice, the second counts": [[Attempt(Fate.LOST), _COUNTS]],
    "twice, the first counts": [[_COUNTS, Attempt(Fate.LOST)]],
    "twice, in two processes": [[Attempt(Fate.LOST), Attempt(Fate.COUNTS, new=True)]],
    "killed": [[Attempt(Fate.KILLED, new=True), Attempt(Fate.KILLED, new=True), _COUNTS]],
    "overtaken": [[Attempt(Fate.OVERTAKEN, new=True), _COUNTS]],
}
# Any of the others for each bundle, and now and then none.
ENGINES["all of it"] = [[_COUNTS], *(attempts for [attempts] in ENGINES.values())]


class _Killed(BaseException):
    """Like a signal: error handlers do not stop it."""


class _Moments:
    """Counts the calls from and to our transforms, and acts at one of them."""

    def __init__(self, moment: int, act: Callable[[], None]) -> None:
        self.passed, self._moment, self._act = 0, moment, act
        self._has_acted = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        caller = frame if event.startswith("c_") else frame.f_back
        if _is_ours(frame) or (caller and _is_ours(caller)):
            self.passed += 1
            is_due = self.passed >= self._moment > 0 and not self._has_acted
            if is_due and not _holds_lock(frame):
                self._has_acted = True
                self._act()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Count in this thread."""
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)


def _holds_lock(frame: FrameType | None) -> bool:
    """Return whether a call is made under the lock with which Beam loads what threads share."""
    while frame and frame.f_code.co_filename != shared.__file__:
        frame = frame.f_back
    return frame is not None


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_TRANSFORMS)


class RetryingRunner(FnApiRunner):
    """Runs each bundle by the attempts that an engine makes.

    Args:
        engine: the name of one of ENGINES.
        seed: the seed of all random choices.
        after_attempt: called when an attempt has ended, whatever its fate.
    """

    def __init__(self, engine: str, seed: int, after_attempt: Callable[[], None]) -> None:
        super().__init__()
        self.random = Random(seed)  # noqa: S311
        self.engine, self.after_attempt = ENGINES[engine], after_attempt
        self.processes = 1
        # Moments of the longest attempt at a bundle, by stage.
        self.lengths: dict[str, int] = {}
        self.fates: set[Fate] = set()

    def _get_bundle_manager(self, bundle_context_manager: Any) -> BundleManager:
        return _RetryingBundleManager(bundle_context_manager, self)


class _RetryingBundleManager(BundleManager):
    """Cuts the input of a stage into bundles, and makes attempts at each."""

    def __init__(self, context: Any, runner: RetryingRunner) -> None:
        super().__init__(context)
        self._runner = runner
        self._stage: str = context.stage.name

    def process_bundle(
        self,
        inputs: Mapping[str, Any],
        expected_outputs: Any,
        fired_timers: Any,
        expected_output_timers: Any,
        dry_run: bool = False,  # noqa: ARG002
    ) -> Any:
        bundles: list[dict[str, list[bytes]]] = [{} for _ in range(_BUNDLES)]
        for name, elements in inputs.items():
            for bundle, part in zip(bundles, elements.partition(_BUNDLES), strict=True):
                bundle[name] = part
        results = []
        for bundle in bundles:
            arguments = (bundle, expected_outputs, fired_timers, expected_output_timers)
            results.append(self._work_on(arguments))
        metrics = chain.from_iterable(result.process_bundle.monitoring_infos for result in results)
        merged = beam_fn_api_pb2.ProcessBundleResponse(
            monitoring_infos=monitoring_infos.consolidate(metrics)
        )
        return beam_fn_api_pb2.InstructionResponse(process_bundle=merged), []

    def _work_on(self, arguments: tuple[Any, ...]) -> beam_fn_api_pb2.InstructionResponse:
        random, longest = self._runner.random, self._runner.lengths.get(self._stage, _MOMENTS)
        counted, overtaken = None, []
        for attempt in random.choice(self._runner.engine):
            place = random.randint(1, longest)
            manager = self._manager(attempt.new)
            if attempt.fate is Fate.OVERTAKEN:
                overtaken.append(_Overtaken(manager, arguments, place))
            else:
                result = self._run(manager, arguments, attempt.fate, place)
                counted = result if attempt.fate is Fate.COUNTS else counted
            self._runner.fates.add(attempt.fate)
            self._runner.after_attempt()
        for other in overtaken:
            other.resume()
            self._runner.after_attempt()
        assert counted is not None
        return counted

    def _run(
        self, manager: BundleManager, arguments: tuple[Any, ...], fate: Fate, moment: int
    ) -> Any:
        moments = _Moments(moment if fate is Fate.KILLED else 0, _kill)
        try:
            with moments.watched():
                result, _ = manager.process_bundle(*arguments, dry_run=fate is not Fate.COUNTS)
        except BaseException as error:
            if "_Killed" in repr(error):  # Beam raises another error with its text
                return None
            raise
        lengths = self._runner.lengths
        lengths[self._stage] = max(moments.passed, lengths.get(self._stage, 1))
        return result

    def _manager(self, new: bool) -> BundleManager:
        """Make a manager of one bundle, whose worker has its own instances of all DoFns."""
        context = copy(self.bundle_context_manager)
        self._runner.processes += new
        workers = context.execution_context.worker_handler_manager.get_worker_handlers(
            context.stage.environment, self._runner.processes
        )
        context._worker_handlers = workers[-1:]
        return BundleManager(context)


def _kill() -> None:
    raise _Killed


class _Overtaken:
    """An attempt that pauses in a thread of its own."""

    def __init__(self, manager: BundleManager, arguments: tuple[Any, ...], moment: int) -> None:
        self._manager, self._arguments, self._moments = (
            manager,
            arguments,
            _Moments(moment, self._pause),
        )
        self._paused, self._continued = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        self._paused.wait()

    def resume(self) -> None:
        """Let it work to its end."""
        self._continued.set()
        self._thread.join()

    def _pause(self) -> None:
        self._paused.set()
        self._continued.wait()

    def _work(self) -> None:
        # An engine no longer asks how such an attempt ends.
        with suppress(Exception), self._moments.watched():
            self._manager.process_bundle(*self._arguments, dry_run=True)
        self._paused.set()


def run_on(
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    seed: int = 0,
    after_attempt: Callable[[], None] = lambda: None,
) -> list[RetryingRunner]:
    """Make the local runner an engine that fails; return the list of runners that will be made."""
    made: list[RetryingRunner] = []

    def make() -> RetryingRunner:
        end_bundles_at_once()
        made.append(RetryingRunner(engine, seed, after_attempt))
        return made[-1]

    monkeypatch.setattr(in_process, "InProcessRunner", make)
    return made


# An attempt that is killed in the middle of a shard closes its writer after the shard's file.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SPREAD = ("--num-shards", "3", "--seed", "1", "--validation-share", "0.2", "--range-bytes", "5000")
LINES = ("--document-rule", "wikitext", "--sentence-rule", "line")


TWO_LEVELS = "bert, two levels of files and little memory"
KINDS = {
    "bert": ("bert", *PAIRS),
    TWO_LEVELS: ("bert", *PAIRS, "--sort-bytes", "20000"),
    "electra": ("electra", *PAIRS, "--output-format", "tfrecord"),
    "ernie": ("ernie", *PAIRS, "--output-format", "ernie-text"),
    "gpt, packed": ("gpt", *LINES, "--mode", "pack", "--max-seq-length", "64"),
    "gpt, one file a split": ("gpt", *LINES, "--output-format", "nanogpt"),
    "gpt, two files a split": ("gpt", *LINES, "--output-format", "megatron"),
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
        # Segments thought to be tiny make several levels of files.
        small = {"smallest_segment_bytes": 16 * 2**20} if kind == TWO_LEVELS else {}
        arguments = ("--input", corpus, "--tokenizer", gpt_tokenizer, "--output", output)
        with knobs(**small):
            run_here(*last_wins(*KINDS[kind], *arguments, *SPREAD, *flags))
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
