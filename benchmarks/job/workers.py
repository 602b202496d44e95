"""What each further worker of the local engine costs, and how busy all are until a stage ends.

    python -m benchmarks.job.workers books.txt [--workers 16] [--duplicates 10]

A BERT data set is built with one worker, with two and with `--workers`. The cost of a further
worker is the difference between the last two, divided by their number. The timeline of the last
build has a line for each worker: a column is a hundredth of the time, with the letter of the stage
in which the worker spends most of it. More workers than cores share these cores.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from benchmarks.builds import FOLDER, build, make_tokenizer
from benchmarks.console import CONSOLE, make_parser, print_table
from benchmarks.measure import Measurement

_COLUMNS = 100
_STAGES = {"ParDo-_Prepare": "p", "ShardDoFn": "b", "PoolDoFn": "w", "Commit_": "c"}


class Bundle(NamedTuple):
    """A bundle that a worker has processed.

    Attributes:
        worker: its name.
        stage: a letter.
        begin: seconds since the epoch.
        end: likewise.
    """

    worker: str
    stage: str
    begin: float
    end: float


def read_bundles(log: Path) -> Iterator[Bundle]:
    """Read the bundles from the log of a run, `--log-format json --log-level debug`."""
    for line in log.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record.get("event") != "bundle_finished":
            continue
        end = datetime.fromisoformat(record["time"]).timestamp()
        letters = (letter for name, letter in _STAGES.items() if name in record["stage"])
        stage = next(letters, "o")
        yield Bundle(record["worker"], stage, end - record["seconds"], end)


def draw_timeline(bundles: Sequence[Bundle], columns: int = _COLUMNS) -> Iterator[str]:
    """Draw a line for each worker, such as "worker_2  .pppp.bbbbb"."""
    first, last = min(b.begin for b in bundles), max(b.end for b in bundles)
    width = (last - first) / columns
    busy = defaultdict[str, list[dict[str, float]]](lambda: [{} for _ in range(columns)])
    for bundle in bundles:
        for column in range(columns):
            begin = first + column * width
            shared = min(bundle.end, begin + width) - max(bundle.begin, begin)
            if shared > 0:
                spent = busy[bundle.worker][column]
                spent[bundle.stage] = spent.get(bundle.stage, 0) + shared
    for worker in sorted(busy, key=lambda name: [int(n) for n in re.findall(r"\d+", name)]):
        letters = (
            max(spent, key=spent.__getitem__) if sum(spent.values()) > width / 2 else "."
            for spent in busy[worker]
        )  # fmt: skip
        yield f"{worker:10}{''.join(letters)}"


def measure_idleness(bundles: Iterable[Bundle], stage: str, workers: int) -> float:
    """Return the share of a stage's time, from its first to its last bundle, that workers wait."""
    own = [bundle for bundle in bundles if bundle.stage == stage]
    span = max(b.end for b in own) - min(b.begin for b in own)
    return 1 - sum(b.end - b.begin for b in own) / (span * workers)


def print_costs(builds: dict[int, Measurement]) -> None:
    """Print a row for each build, and what a further worker costs."""
    rows = [
        (f"{n} workers", f"{m.seconds:.1f} s", f"{m.processor_seconds:.1f} s", f"{m.peak_mib:,.0f}")
        for n, m in builds.items()
    ]
    print_table(("build", "time", "of processors", "MiB"), rows)
    (few, less), (many, more) = list(builds.items())[-2:]
    if many > few:
        seconds = (more.processor_seconds - less.processor_seconds) / (many - few)
        memory = (more.peak_mib - less.peak_mib) / (many - few)
        CONSOLE.print(f"a further worker: {seconds:.2f} s of a processor, {memory:.0f} MiB")
    CONSOLE.print(f"one worker to two: {builds[1].seconds / builds[2].seconds:.2f} times as fast")


def main() -> None:
    """Build with one worker, with two and with many."""
    parser = make_parser(__doc__, workers=16, duplicates=10, num_shards=64, folder=FOLDER)
    parser.add_argument("text", type=Path)
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer, log = make_tokenizer(folder, given.text, "bert"), folder / "workers.log"
    log_flags = ("--log-format", "json", "--log-level", "debug", "--log-file", log)
    sizes = ("--duplicates", given.duplicates, "--num-shards", given.num_shards)
    flags = (*sizes, "--min-bytes-per-worker", 0, "--no-progress", *log_flags)
    builds = {}
    for workers in sorted({1, 2, given.workers}):
        log.unlink(missing_ok=True)
        output, call = folder / "workers", ("pipeline", "bert")
        builds[workers] = build(call, given.text, tokenizer, output, "--workers", workers, *flags)
    print_costs(builds)
    bundles = list(read_bundles(log))
    for line in draw_timeline(bundles):
        CONSOLE.print(line)
    for name, stage in (("preparing", "p"), ("building", "b")):
        idle = measure_idleness(bundles, stage, max(builds))
        CONSOLE.print(f"{name} ({stage}): workers wait {idle:.0%} of the time")


if __name__ == "__main__":
    main()
