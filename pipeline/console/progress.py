"""Progress, from Beam's counters: a line on a terminal, and records of the log elsewhere."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from rich.console import Console

from corpusmill.console.terminal import Terminal
from corpusmill.errors import count_things
from pipeline.console.run_log import PROGRESS, LogOptions, log_event


def in_notebook() -> bool:
    """Whether this process runs the cells of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def show_line(text: str) -> Iterator[Callable[[str], None]]:
    """Show a line under the running cell until the block ends, which may change its text.

    A line that is printed again and again would stay in the notebook once for each time.

    Args:
        text: the line at first.
    """
    display: Any = import_module("IPython.display")
    handle = display.display({"text/plain": text}, raw=True, display_id=True)

    def update(text: str) -> None:
        handle.update({"text/plain": text}, raw=True)

    try:
        yield update
    finally:
        update("")


# The "bundle" with the units of work that the journal lists as finished, by kind.
JOURNAL = "journal"
# The counter that is above 0 once the last step of a work has begun.
LAST_STEP = "last_step"

# The phases' shares of the whole time, as py-spy has seen them in a build of 540 MB.
_READ_SHARE, _BUILD_SHARE = 0.3, 0.7

# A repeated action may be waiting for an engine that does not answer.
_SECONDS_TO_STOP = 5


@dataclass
class Counters:
    """The latest value of each live counter, bundle by bundle.

    Attributes:
        bundles: {bundle: {counter: value}}.
        lock: held while the bundles are read or changed.
        begun: when each bundle that a worker works at has begun, in seconds.
        seconds: how long workers have worked at all others.
        workers: says where how many workers are at work; where this is not set, nothing is said.
    """

    bundles: dict[str, dict[str, int]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    begun: dict[object, float] = field(default_factory=dict)
    seconds: float = 0.0
    workers: Callable[[], tuple[str, int]] | None = None

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the time of a worker while the block runs."""
        bundle, begin = object(), time.monotonic()
        self.begun[bundle] = begin
        try:
            yield
        finally:
            with self.lock:
                self.seconds += time.monotonic() - self.begun.pop(bundle)

    def describe_workers(self, seconds: float) -> str:
        """Return who has been at work for some seconds, and the share of the time that was idle."""
        if self.workers is None:
            return ""
        where, workers = self.workers()
        with self.lock:
            busy = self.seconds + sum(time.monotonic() - begin for begin in self.begun.values())
        idle = max(0.0, 1 - busy / max(1e-6, seconds * workers))
        return f"{where}, {count_things(workers, 'worker')}, {idle:.0%} idle"

    def update(self, bundle: str, values: dict[str, int]) -> None:
        """Copy a bundle's report; counters never decrease."""
        with self.lock:
            known = self.bundles.setdefault(bundle, {})
            for name, value in values.items():
                known[name] = max(value, known.get(name, 0))

    def totals(self) -> Counter[str]:
        """Sum each counter over all bundles."""
        totals: Counter[str] = Counter()
        with self.lock:
            for values in self.bundles.values():
                totals.update(values)
        return totals


@dataclass(frozen=True)
class Work:
    """How much there is to do.

    Attributes:
        bytes: the size of the input.
        repeats: how many times each document is built; 0 if the corpus is only read.
        tasks: the number of tasks that the input is cut into; 0 if unknown.
        shards: the number of shards that are built.
        last_step: what is done once all is read, where that takes long ("training bpe").
    """

    bytes: int
    repeats: int
    tasks: int = 0
    shards: int = 0
    last_step: str = ""

    def done(self, counters: Counters) -> float:
        """Return the share that is done, from 0 to 1."""
        read, built = self._shares(counters)
        return _READ_SHARE * read + _BUILD_SHARE * built if self.repeats else read

    def stage(self, counters: Counters) -> str:
        """Return the current stage: "read", "build" or "commit"."""
        read, built = self._shares(counters)
        if read < 1 and not built:
            return "read"
        return "commit" if built == 1 or not self.repeats else "build"

    def describe(self, counters: Counters, seconds: float) -> str:
        """Return in words what is done after some seconds."""
        totals = counters.totals()
        if totals[LAST_STEP]:
            return self.last_step
        digits = 0 if self.bytes >= 10e6 else 1
        text = f"read {totals['read.bytes'] / 1e6:,.{digits}f} of {self.bytes / 1e6:,.{digits}f} MB"
        if self.repeats:
            built = totals["build.examples"]
            text += f", {count_things(built, 'example')}, {built / seconds:,.0f} a second"
        return ", ".join(filter(None, [text, counters.describe_workers(seconds)]))

    def _shares(self, counters: Counters) -> tuple[float, float]:
        totals = counters.totals()
        read = totals["read.bytes"] / max(1, self.bytes)
        documents, passes = totals["tokenize.documents"], totals["build.passes"]
        # Beam asks twice a second, and misses what a bundle counts after that, and tasks that a
        # resumed run finds finished. What an engine repeats after a fault it may count twice.
        built = passes / (self.repeats * documents) if self.repeats and documents else 0.0
        read = max(read, totals["task"] / max(1, self.tasks))
        built = max(built, totals["shard"] / max(1, self.shards))
        return (1.0 if built or passes else min(1.0, read)), min(1.0, built)


@contextmanager
def repeat(seconds: float, action: Callable[[], None]) -> Iterator[None]:
    """Repeat an action at this interval, in a thread, until the block ends."""
    stop = threading.Event()

    def follow() -> None:
        while not stop.wait(seconds):
            action()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_SECONDS_TO_STOP)


@contextmanager
def show_progress(
    counters: Counters, work: Work, shown: bool, log: LogOptions | None = None
) -> Iterator[None]:
    """Show bytes read, examples and rate until the block ends.

    A terminal or a notebook shows them in a line. They are logged if there is neither, or if the
    log goes elsewhere.

    Args:
        counters: updated by the engine meanwhile.
        work: how much there is to do.
        shown: whether anything is shown.
        log: where the log goes, and how often progress is logged.
    """
    log, console = log or LogOptions(), Terminal(stderr=True, force_jupyter=False)
    with ExitStack() as stack:
        is_shown_in_cell = in_notebook()
        has_line = is_shown_in_cell or (console.is_terminal and not log.takes_stderr)
        if shown and (log.log_file or not has_line):
            begin = time.monotonic()
            stack.enter_context(
                repeat(log.log_seconds, lambda: _log_progress(counters, work, begin))
            )
        if shown and has_line:
            show = _show_in_cell(counters, work) if is_shown_in_cell else None
            stack.enter_context(show or _show_line(console, counters, work))
        yield


def _log_progress(counters: Counters, work: Work, begin: float) -> None:
    seconds, share = time.monotonic() - begin, work.done(counters)
    log_event(
        PROGRESS,
        f"{share:.0%}, {work.describe(counters, seconds)}",
        {
            "stage": work.stage(counters),
            "share": round(share, 4),
            "seconds": round(seconds, 1),
            "counters": dict(sorted(counters.totals().items())),
        },
    )


@contextmanager
def _show_in_cell(counters: Counters, work: Work) -> Iterator[None]:
    begin = time.monotonic()

    def describe() -> str:
        seconds = time.monotonic() - begin
        return f"{work.done(counters):.0%}, {work.describe(counters, max(1.0, seconds))}"

    with show_line(describe()) as update, repeat(0.5, lambda: update(describe())):
        yield


@contextmanager
def _show_line(console: Console, counters: Counters, work: Work) -> Iterator[None]:
    from rich.progress import (  # noqa: PLC0415  slow, and not needed where there is no terminal
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(20),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(work.describe(counters, 1.0), total=1.0)

        def update() -> None:
            text = work.describe(counters, progress.tasks[task].elapsed or 1.0)
            progress.update(task, completed=work.done(counters), description=text)

        with repeat(0.5, update):
            yield
        update()
