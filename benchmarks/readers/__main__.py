"""Readers of training examples side by side in one run: `python -m benchmarks.readers`.

    python -m benchmarks.readers [--only bert gpt] [--readers "ours, loader" LitData] [--rounds 3]
        [--examples 100000] [--quick] [--data FOLDER]

Everybody reads the same examples of up to 512 tokens, in an order of its own, and gives padded
int64 tensors of 32; for GPT, windows of 512 tokens and their targets. Each reader is measured in a
process of its own, with 0, 1 and 2 workers; all of them in turn, `--rounds` times, and medians are
shown. In the first round, what an epoch without workers adds up to (examples, tokens, ids, labels)
is compared, so that nobody is fast by leaving something out.

The peers are those that are installed (benchmarks/README.md says how): Hugging Face datasets,
MosaicML streaming, LitData and a loop like nanoGPT's. LDDL's package needs releases of dask and
transformers of years ago, so it is not here. Data sets are built from synthetic corpora where
`--data` lacks them, which takes some minutes. "CPU" is examples a second of processor time, of all
processes: what other work on the machine disturbs less.
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.readers.data_sets import make_data_set
from benchmarks.readers.measure_reader import READERS
from benchmarks.readers.ours import OURS

WORKERS = (0, 1, 2)
# What is read, and the bars: examples/s in process, and with two workers.
BARS = {"bert": (150_000, 100_000), "bert-dynamic": (None, None), "gpt": (500_000, None)}
# nanoGPT reads nothing but streams; the others read all.
_STREAMS_ONLY = ("nanoGPT's memmap",)
# What is masked when it is loaded is read by ours alone: no peer masks.
_OURS_ONLY = ("bert-dynamic",)


@dataclass
class Row:
    """A reader's measurements on a data set, of each round.

    Attributes:
        reader: its name.
        data: name of the data set.
        rounds: what `benchmarks.readers.measure_reader` printed.
    """

    reader: str
    data: str
    rounds: list[dict[str, Any]] = field(default_factory=list)

    def per_second(self, workers: int, by: str = "seconds") -> float | None:
        """Examples/s, the median of the rounds; None where there are none."""
        runs = [of["workers"][str(workers)] for of in self.rounds if str(workers) in of["workers"]]
        return median(of["examples"] / of[by] for of in runs) if runs else None

    @property
    def problem(self) -> str | None:
        """Why there is nothing to show."""
        return next((of["problem"] for of in self.rounds if "problem" in of), None)


def readers_of(data: str) -> list[str]:
    """Those that can read a data set."""
    names = list(OURS) if data in _OURS_ONLY else list(READERS)
    return [name for name in names if data == "gpt" or name not in _STREAMS_ONLY]


def run_case(row: Row, folder: Path, work: Path, examples: int, check: bool) -> None:
    """Measure one reader in a process of its own."""
    workers = [0] if row.reader == "ours, plain loop" else list(WORKERS)
    command = [sys.executable, "-m", "benchmarks.readers.measure_reader", row.reader, folder, work]
    flags = ["--examples", examples, *(["--check"] if check else []), "--workers", *workers]
    done = subprocess.run(
        list(map(str, [*command, *flags])), capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        row.rounds.append({"workers": {}, "problem": last})
    else:
        found = json.loads(done.stdout.strip().splitlines()[-1])
        if "missing" in found:
            found |= {"workers": {}, "problem": f"not installed ({found['missing']})"}
        row.rounds.append(found)


def render(data: str, rows: list[Row]) -> Table:
    """The table of one data set; the ratio is to the best peer's with as many workers."""
    peers = [row for row in rows if row.reader not in OURS]
    best = {
        workers: max((row.per_second(workers) or 0 for row in peers), default=0)
        for workers in WORKERS
    }
    table = Table(title=data)
    table.add_column("examples/s")
    for workers in WORKERS:
        for name in (f"{workers} workers", "to best peer", "CPU"):
            table.add_column(name, justify="right")
    for row in rows:
        cells = [cell for workers in WORKERS for cell in _cells(row, workers, best[workers])]
        table.add_row(row.reader, *([row.problem] if row.problem else cells))
    return table


def _cells(row: Row, workers: int, best: float) -> list[str]:
    speed, spent = row.per_second(workers), row.per_second(workers, "processor_seconds")
    if speed is None or spent is None:
        return ["", "", ""]
    return [f"{speed:,.0f}", f"{speed / best:.2f}" if best else "", f"{spent:,.0f}"]


def bars(rows: dict[str, list[Row]]) -> Table:
    """The bars and what was reached by the best of our readers."""
    table = Table("bar", "reached", "", title="bars")
    for data, limits in BARS.items():
        for workers, limit in zip((0, 2), limits, strict=True):
            if limit is None or data not in rows:
                continue
            reached = max(row.per_second(workers) or 0 for row in rows[data] if row.reader in OURS)
            what = f"{data}, {workers} workers: {limit:,} examples/s"
            table.add_row(what, f"{reached:,.0f}", _verdict(reached >= limit))
    if {"bert", "bert-dynamic"} <= rows.keys():
        static, dynamic = (
            max(row.per_second(0, "processor_seconds") or 0 for row in rows[data])
            for data in ("bert", "bert-dynamic")
        )
        if static and dynamic:
            cost = static / dynamic - 1
            what = "masking at load time costs less than 30 % of processor time"
            table.add_row(what, f"{cost:.0%}", _verdict(cost < 0.3))
    return table


def _verdict(met: bool) -> str:
    return "met" if met else "missed"


def compare_fingerprints(rows: list[Row]) -> list[str]:
    """Readers whose epoch adds up to something else than the first one's."""
    found = {row.reader: row.rounds[0].get("fingerprint") for row in rows if row.rounds}
    first = next((of for of in found.values() if of), None)
    return [f"{name}: {of}, not {first}" for name, of in found.items() if of and of != first]


def main() -> None:
    """Measure all, print the tables."""
    parser = argparse.ArgumentParser(description="Readers of training examples side by side.")
    parser.add_argument("--only", nargs="+", choices=BARS, default=list(BARS))
    parser.add_argument("--readers", nargs="+", choices=READERS, default=list(READERS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--examples", type=int, default=100_000)
    parser.add_argument(
        "--quick", action="store_true", help="one round of 10,000 examples, not compared"
    )
    parser.add_argument("--data", type=Path, default=Path("benchmark-data/readers"))
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.examples = 1, 10_000
    console = Console(width=150)
    rows = {
        data: [Row(name, data) for name in readers_of(data) if name in options.readers]
        for data in options.only
    }
    for data in options.only:
        folder = make_data_set(options.data, data)
        for turn in range(options.rounds):
            for row in rows[data]:
                console.print(f"{data}, round {turn + 1}: {row.reader} ...", style="dim")
                check = turn == 0 and not options.quick and row.reader not in _STREAMS_ONLY
                work = options.data / "work" / data
                run_case(row, folder, work, options.examples, check)
        console.print(render(data, rows[data]))
        for message in compare_fingerprints(rows[data]):
            console.print(f"not the same examples: {message}", style="bold red")
    console.print(bars(rows))
    console.print(f"load averages at the end: {os.getloadavg()}, {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
