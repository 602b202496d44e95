"""The progress line: what Beam's counters say, quiet where the output is no terminal."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
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

# Shares of the whole time that the phases take (benchmarks/README.md has the profile).
_READ_SHARE, _BUILD_SHARE = 0.3, 0.7


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


@dataclass(frozen=True)
class Work:
    """What there is to do.

    Attributes:
        bytes: of text.
        repeats: how many times each document is built.
    """

    bytes: int
    repeats: int

    def done(self, counters: Counters) -> float:
        """The share that is done, from 0 to 1."""
        read = min(1.0, counters.total("read.bytes") / max(1, self.bytes))
        passes = self.repeats * counters.total("tokenize.documents")
        # Beam asks twice a second; what a bundle counts after it was last asked is not heard of.
        built = min(1.0, counters.total("build.passes") / max(1, passes))
        return _READ_SHARE * read + _BUILD_SHARE * built


@contextmanager
def show_progress(counters: Counters, work: Work, shown: bool) -> Iterator[None]:
    """Show a line of bytes read, examples, rate and time left until the block ends.

    Args:
        counters: updated by the runner meanwhile.
        work: what there is to do.
        shown: False, or an output that is no terminal, shows nothing.
    """
    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield
        return
    columns = (
        BarColumn(20),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("read {task.fields[read]} of {task.fields[of]} MB"),
        TextColumn("{task.fields[examples]} examples"),
        TextColumn("{task.fields[rate]} a second"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    stop = threading.Event()
    with Progress(*columns, console=console, transient=True) as progress:
        of = f"{work.bytes / 1e6:,.0f}"
        task = progress.add_task("", total=1.0, read="0", of=of, examples="0", rate="0")
        thread = threading.Thread(
            target=_follow, args=(progress, task, counters, work, stop), daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _follow(
    progress: Progress, task: TaskID, counters: Counters, work: Work, stop: threading.Event
) -> None:
    while not stop.wait(0.5):
        built = counters.total("build.examples")
        elapsed = progress.tasks[task].elapsed or 1.0
        progress.update(
            task,
            completed=work.done(counters),
            read=f"{counters.total('read.bytes') / 1e6:,.0f}",
            examples=f"{built:,}",
            rate=f"{built / elapsed:,.0f}",
        )
