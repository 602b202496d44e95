"""All measurements of the job in one run, side by side: `python -m benchmarks`.

Prints a table and whether each bar is met. The corpora are made by `benchmarks.synthetic.corpus`.
What is compared is run in turn, `--rounds` times, and the medians are shown; a ratio is the median
of the ratios of its rounds, as the speed of a shared machine changes between them. By default
it takes about 25 minutes on two cores, four of them the article's way at 100 MB.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Measurement, measure
from benchmarks.synthetic.corpus import write_corpus

WIKITEXT_2_BYTES, WIKITEXT_103_BYTES = 10_800_000, 540_000_000


@dataclass(frozen=True)
class Row:
    """A line of the table; it has a measurement of each round."""

    what: str
    corpus_bytes: int
    examples: int
    measurements: list[Measurement] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The median."""
        return median(measurement.seconds for measurement in self.measurements)

    @property
    def peak_mib(self) -> float:
        """The largest."""
        return max(measurement.peak_mib for measurement in self.measurements)

    def over(self, other: "Row") -> float:
        """How many times as long as the other it took: the median of the rounds."""
        pairs = zip(self.measurements, other.measurements, strict=True)
        return median(own.seconds / others.seconds for own, others in pairs)


class Bench:
    """Corpora, tokenizer and the commands that are compared.

    Args:
        folder: for corpora and outputs.
        console: for the line that says what runs.
    """

    def __init__(self, folder: Path, console: Console) -> None:
        self.folder, self._console = folder, console
        self.rows: dict[tuple[str, int], Row] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer = folder / "tokenizer.json"
        if not self.tokenizer.exists():
            measure(
                [
                    sys.executable,
                    "-m",
                    "pipeline",
                    "train-tokenizer",
                    "--input",
                    str(self.corpus(50_000_000)),
                    "--output",
                    str(self.tokenizer),
                ]
            )

    def corpus(self, num_bytes: int) -> Path:
        """A synthetic corpus of that size, made where it is missing."""
        path = self.folder / f"corpus-{num_bytes}.txt"
        if not path.exists():
            write_corpus(path, num_bytes)
        return path

    def job(self, num_bytes: int, workers: int = 2, shards: int = 32) -> Row:
        """The whole command, from the shell to `_SUCCESS`."""
        flags = ["--num-shards", str(shards), "--seed", "1", "--workers", str(workers)]
        label = f"job, {workers} worker{'s' if workers > 1 else ''}"
        return self._measure(label, num_bytes, ["pipeline", "bert"], "job", flags)

    def floor(self, num_bytes: int) -> Row:
        """The plain loop."""
        flags = ["--workers", "2", "--seed", "1"]
        module = ["benchmarks.job.floor", "bert"]
        return self._measure("floor, 2 processes", num_bytes, module, "floor", flags)

    def article(self, num_bytes: int) -> Row:
        """The article's way."""
        return self._measure(
            "article's way", num_bytes, ["benchmarks.job.article"], "article.parquet", []
        )

    def _measure(
        self, what: str, num_bytes: int, module: list[str], output_name: str, flags: list[str]
    ) -> Row:
        output = self.folder / output_name
        if output.is_dir():
            shutil.rmtree(output)
        output.unlink(missing_ok=True)
        files = [
            "--input",
            self.corpus(num_bytes),
            "--tokenizer",
            self.tokenizer,
            "--output",
            output,
        ]
        self._console.print(f"{what}, {num_bytes / 1e6:,.0f} MB ...")
        measurement = measure([sys.executable, "-m", *module, *map(str, files), *flags])
        new = Row(what, num_bytes, _count_examples(output, measurement))
        row = self.rows.setdefault((what, num_bytes), new)
        row.measurements.append(measurement)
        return row


def _count_examples(output: Path, measurement: Measurement) -> int:
    """From the manifest, or from the line of JSON that those without one print last."""
    manifest = output / "dataset.json"
    if manifest.exists():
        return int(json.loads(manifest.read_text())["splits"]["train"]["rows"])
    return int(json.loads(measurement.output.strip().splitlines()[-1])["examples"])


def render(rows: list[Row]) -> Table:
    """The table of all measurements."""
    table = Table("", "MB", "seconds", "rounds", "examples", "examples/s", "peak MiB (PSS)")
    for row in rows:
        table.add_row(
            row.what,
            f"{row.corpus_bytes / 1e6:,.1f}",
            f"{row.seconds:,.1f}",
            " ".join(f"{measurement.seconds:.1f}" for measurement in row.measurements),
            f"{row.examples:,}",
            f"{row.examples / row.seconds:,.0f}",
            f"{row.peak_mib:,.0f}",
        )
    return table


def judge(bench: Bench, full: int) -> Iterator[tuple[str, float, str, float]]:
    """Each bar: what, measured, relation, bar."""
    rows, job = bench.rows, "job, 2 workers"
    whole = rows[job, full]
    yield "WikiText-2-sized, seconds", rows[job, WIKITEXT_2_BYTES].seconds, "<=", 5.0
    yield "WikiText-103-sized, seconds", whole.seconds, "<=", 90.0
    yield "its memory, MiB", whole.peak_mib, "<=", 3072.0
    yield "its time over the floor's", whole.over(rows["floor, 2 processes", full]), "<=", 1.5
    for size, bar in ((10_000_000, 4.0), (100_000_000, 10.0)):
        ratio = rows["article's way", size].over(rows[job, size])
        yield f"times the article's way, {size / 1e6:.0f} MB", ratio, ">=", bar
    yield "one worker's time over two's", rows["job, 1 worker", full].over(whole), ">=", 1.7
    eighth = rows[job, full // 8].seconds
    slope = (whole.seconds - eighth) / (full - full // 8)
    for part in (4, 2):
        line = eighth + slope * (full // part - full // 8)
        over = rows[job, full // part].seconds / line
        yield f"time at 1/{part} over the straight line", over, "within 15 %", 1.0
    memory = whole.peak_mib / rows[job, full // 4].peak_mib
    yield "memory of the whole over a quarter's", memory, "", 1.0


def main() -> None:
    """Measure, print the table and the bars."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("benchmark-data"))
    parser.add_argument("--bytes", type=int, default=WIKITEXT_103_BYTES)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    console = Console()
    bench = Bench(arguments.folder, console)
    bench.job(WIKITEXT_2_BYTES, shards=8)  # compiles the kernels where nothing did yet
    bench.rows.clear()
    for _ in range(arguments.rounds):
        bench.job(WIKITEXT_2_BYTES, shards=8)
        bench.floor(arguments.bytes)
        for part in (1, 2, 4, 8):
            bench.job(arguments.bytes // part)
        bench.job(arguments.bytes, workers=1)
    for size in (10_000_000, 100_000_000):
        bench.article(size)
        bench.job(size, shards=8)
    console.print(render(list(bench.rows.values())))
    for what, value, relation, bar in judge(bench, arguments.bytes):
        console.print(f"{what}: {value:,.2f} ({relation} {bar:,.2f})")


if __name__ == "__main__":
    main()
