"""Progress as Beam's counters say: a line on a terminal, and records of the log elsewhere."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from pipeline.console.run_log import PROGRESS, LogOptions, log_event

# The "bundle" of what the journal says is finished: units of work by kind.
JOURNAL = "journal"

# Shares of the whole time that the phases take (benchmarks/README.md has the profile).
_READ_SHARE, _BUILD_SHARE = 0.3, 0.7

# What is repeated may wait for an engine that does not answer.
_SECONDS_TO_STOP = 5


@dataclass
class Counters:
    """The latest value of each live counter, bundle by bundle.

    Attributes:
        bundles: bundle to {counter: value}.
    """

    bundles: dict[str, dict[str, int]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def update(self, bundle: str, values: dict[str, int]) -> None:
        """Take over a bundle's report; counters never go back."""
        with self.lock:
            known = self.bundles.setdefault(bundle, {})
            for name, value in values.items():
                known[name] = max(value, known.get(name, 0))

    def total(self, name: str) -> int:
        """Sum over all bundles."""
        with self.lock:
            return sum(values.get(name, 0) for values in self.bundles.values())

    def totals(self) -> dict[str, int]:
        """Sum of each over all bundles."""
        totals: Counter[str] = Counter()
        with self.lock:
            for values in self.bundles.values():
                totals.update(values)
        return dict(sorted(totals.items()))


@dataclass(frozen=True)
class Work:
    """What there is to do.

    Attributes:
        bytes: of text.
        repeats: how many times each document is built; 0 where the corpus is only read.
        tasks: that the input is cut into; 0 where it is not known.
        shards: that are built.
    """

    bytes: int
    repeats: int
    tasks: int = 0
    shards: int = 0

    def done(self, counters: Counters) -> float:
        """The share that is done, from 0 to 1."""
        read, built = self._shares(counters)
        return _READ_SHARE * read + _BUILD_SHARE * built if self.repeats else read

    def stage(self, counters: Counters) -> str:
        """What is being done: "read", "build" or "commit"."""
        read, built = self._shares(counters)
        if read < 1 and not built:
            return "read"
        return "commit" if built == 1 or not self.repeats else "build"

    def _shares(self, counters: Counters) -> tuple[float, float]:
        read = counters.total("read.bytes") / max(1, self.bytes)
        documents, passes = counters.total("tokenize.documents"), counters.total("build.passes")
        # Beam asks twice a second; what a bundle counts after it was last asked is not heard of,
        # and of tasks that a resumed run finds finished nothing. What an engine does twice, after a
        # fault, it may also count twice.
        built = passes / (self.repeats * documents) if self.repeats and documents else 0.0
        read = max(read, counters.total("task") / max(1, self.tasks))
        built = max(built, counters.total("shard") / max(1, self.shards))
        return (1.0 if built or passes else min(1.0, read)), min(1.0, built)


@contextmanager
def repeat(seconds: float, action: Callable[[], None]) -> Iterator[None]:
    """Do something every so many seconds, in a thread, until the block ends."""
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

    A terminal has a line of them that also says the time left. Where there is none, or the log goes
    elsewhere, they are logged.

    Args:
        counters: updated by the runner meanwhile.
        work: what there is to do.
        shown: False shows nothing.
        log: where the log goes, and how often progress is logged.
    """
    log, console = log or LogOptions(), Console(stderr=True)
    with ExitStack() as stack:
        has_line = console.is_terminal and not log.takes_stderr
        if shown and (log.log_file or not has_line):
            begin = time.monotonic()
            stack.enter_context(
                repeat(log.log_seconds, lambda: _log_progress(counters, work, begin))
            )
        if shown and has_line:
            stack.enter_context(_show_line(console, counters, work))
        yield


def _log_progress(counters: Counters, work: Work, begin: float) -> None:
    totals, seconds, share = counters.totals(), time.monotonic() - begin, work.done(counters)
    text = (
        f"{share:.0%}, read {totals.get('read.bytes', 0) / 1e6:,.0f} of {work.bytes / 1e6:,.0f} MB"
    )
    if work.repeats:
        built = totals.get("build.examples", 0)
        text += f", {built:,} examples, {built / seconds:,.0f} a second"
    log_event(
        PROGRESS,
        text,
        {
            "stage": work.stage(counters),
            "share": round(share, 4),
            "seconds": round(seconds, 1),
            "counters": totals,
        },
    )


@contextmanager
def _show_line(console: Console, counters: Counters, work: Work) -> Iterator[None]:
    of_examples = ("{task.fields[examples]} examples", "{task.fields[rate]} a second")
    columns = (
        BarColumn(20),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("read {task.fields[read]} of {task.fields[of]} MB"),
        *(TextColumn(of) for of in of_examples if work.repeats),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        of = f"{work.bytes / 1e6:,.0f}"
        task = progress.add_task("", total=1.0, read="0", of=of, examples="0", rate="0")
        with repeat(0.5, lambda: _update_line(progress, task, counters, work)):
            yield


def _update_line(progress: Progress, task: TaskID, counters: Counters, work: Work) -> None:
    built = counters.total("build.examples")
    elapsed = progress.tasks[task].elapsed or 1.0
    progress.update(
        task,
        completed=work.done(counters),
        read=f"{counters.total('read.bytes') / 1e6:,.0f}",
        examples=f"{built:,}",
        rate=f"{built / elapsed:,.0f}",
    )


class ReadingLine:
    """A line of bytes read, then one of what is done with them.

    Args:
        progress: where the lines are shown; None shows nothing.
        total_bytes: all there is to read; an estimate where files are compressed.
    """

    def __init__(self, progress: Progress | None, total_bytes: int) -> None:
        self._progress, self._total, self._read = progress, total_bytes, 0
        self._task = progress.add_task("", total=total_bytes) if progress else TaskID(0)
        self.add(0)

    def add(self, read_bytes: int) -> None:
        """So many more bytes have been read."""
        self._read += read_bytes
        if self._progress:
            text = f"read {self._read / 1e6:,.0f} of {self._total / 1e6:,.0f} MB"
            self._progress.update(self._task, completed=self._read, description=text)

    def go_on(self, what: str) -> None:
        """All is read; show what follows, for an unknown time."""
        if self._progress:
            self._progress.remove_task(self._task)
            self._task = self._progress.add_task(what, total=None)


@contextmanager
def show_reading(total_bytes: int, shown: bool) -> Iterator[ReadingLine]:
    """Show a line of bytes read until the block ends; it is told what to show.

    Args:
        total_bytes: all there is to read; an estimate where files are compressed.
        shown: False, or an output that is no terminal, shows nothing.
    """
    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield ReadingLine(None, total_bytes)
        return
    columns = (BarColumn(20), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield ReadingLine(progress, total_bytes)
