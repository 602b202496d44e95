"""Beam's local runner as an engine that fails: attempts at bundles are killed, lost or overtaken.

A stage's input is cut into several bundles, as on an engine, and each is worked on by one or more
attempts of which exactly one counts. An attempt runs in the instances of the DoFns that the one
before it used, or in new ones, as in another process.
"""

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
from pipeline.runners.local import in_process
from pipeline.runners.local.worker import end_bundles_at_once

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
