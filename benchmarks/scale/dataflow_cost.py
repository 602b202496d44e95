"""The cost sheet of a job on Dataflow.

    python -m benchmarks.scale.dataflow_cost --corpus-bytes 1e12

The ratios are those of a data set that is there (`--manifest out/dataset.json`), or of runs that
the tool makes on this machine with synthetic text (`--objective bert`): two sizes, whose difference
is what a byte takes without the start. Everything else is arithmetic (`dataflow_volumes`).

The default prices are those of Dataflow's and Cloud Storage's price lists for us-central1, batch,
as known on 2025-06-01. They change: give yours.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.scale.dataflow_volumes import Ratios, Volumes, estimate, read_ratios
from benchmarks.synthetic.corpus import write_corpus

_SMALL, _LARGE = 4 * 10**6, 16 * 10**6
_OBJECTIVES = ("bert", "electra", "ernie", "gpt")
_TRAINING = {
    "wordpiece": ("--vocab-size", "30522"),
    "bpe": ("--model", "bpe", "--vocab-size", "50257", "--special-tokens", "<|endoftext|>"),
}


@dataclass(frozen=True)
class Prices:
    """US dollars, of us-central1.

    Attributes:
        vcpu_hour: of a processor of a batch worker.
        memory_gb_hour: of its memory.
        disk_gb_hour: of its disk.
        shuffle_gb: data that the shuffle service processes.
        put_thousand: requests of class A.
        get_thousand: requests of class B.
        storage_gb_month: of a regional bucket.
    """

    vcpu_hour: float = 0.056
    memory_gb_hour: float = 0.003557
    disk_gb_hour: float = 0.000054
    shuffle_gb: float = 0.011
    put_thousand: float = 0.005
    get_thousand: float = 0.0004
    storage_gb_month: float = 0.020


@dataclass(frozen=True)
class Pace:
    """What time is made of.

    Attributes:
        cpu_seconds: of a byte of text, measured.
        request_seconds: that a worker waits for one small read; it does nothing meanwhile.
        element_seconds: of an element through the shuffle, on both sides.
        memory_gb: of a processor.
        disk_gb: of a processor.
        soft_delete_days: that deleted temporary files are kept, and paid for.
    """

    cpu_seconds: float
    request_seconds: float = 0.03
    element_seconds: float = 60e-6
    memory_gb: float = 4.0
    disk_gb: float = 12.5
    soft_delete_days: float = 7.0


@dataclass(frozen=True)
class Sheet:
    """The lines of the sheet.

    Attributes:
        volumes: what the job moves.
        vcpu_hours: of its workers.
        dollars: by line.
    """

    volumes: Volumes
    vcpu_hours: float
    dollars: dict[str, float]

    @property
    def total(self) -> float:
        """All lines but what soft delete costs, which a bucket need not have."""
        return sum(of for name, of in self.dollars.items() if name != "soft delete")


def billed_shuffle_gb(gigabytes: float) -> float:
    """What is billed: a quarter of the first 250 GB, half of the next 4,870, all of the rest."""
    first, next_ones = min(gigabytes, 250), min(max(gigabytes - 250, 0), 4870)
    return 0.25 * first + 0.5 * next_ones + max(gigabytes - 5120, 0)


def price(volumes: Volumes, pace: Pace, prices: Prices) -> Sheet:
    """The sheet of a job.

    Args:
        volumes: what it moves.
        pace: what time is made of.
        prices: of what it takes.
    """
    seconds = volumes.read * pace.cpu_seconds
    seconds += volumes.small_reads * pace.request_seconds
    seconds += volumes.elements * pace.element_seconds
    hours = seconds / 3600
    # What is shuffled is written once and read once.
    shuffled = billed_shuffle_gb(2 * volumes.shuffled / 2**30)
    kept = volumes.temporary / 2**30 * pace.soft_delete_days / 30
    return Sheet(
        volumes,
        hours,
        {
            "vCPU": hours * prices.vcpu_hour,
            "memory": hours * pace.memory_gb * prices.memory_gb_hour,
            "disk": hours * pace.disk_gb * prices.disk_gb_hour,
            "shuffle": shuffled * prices.shuffle_gb,
            "requests": volumes.puts / 1000 * prices.put_thousand
            + volumes.gets / 1000 * prices.get_thousand,
            "soft delete": kept * prices.storage_gb_month,
        },
    )


def measure(objective: str, folder: Path) -> tuple[Ratios, float]:
    """The ratios and the CPU seconds a byte of an objective, from two runs on this machine."""
    seconds = {}
    for size in (_SMALL, _SMALL, _LARGE):  # the first one compiles what was not
        corpus = folder / f"synthetic-{size}.txt"
        if not corpus.exists():
            write_corpus(corpus, size)
        tokenizer = _tokenizer(objective, folder)
        output = folder / f"{objective}-{size}"
        seconds[size] = _cpu_seconds(
            objective, "--input", corpus, "--tokenizer", tokenizer, "--output", output,
            "--replace", "--num-shards", "8", "--min-bytes-per-worker", str(2**60),
        )  # fmt: skip
    manifest = json.loads((folder / f"{objective}-{_LARGE}" / "dataset.json").read_text())
    return read_ratios(manifest), (seconds[_LARGE] - seconds[_SMALL]) / (_LARGE - _SMALL)


def _tokenizer(objective: str, folder: Path) -> Path:
    model = "bpe" if objective == "gpt" else "wordpiece"
    path = folder / f"{model}.json"
    if not path.exists():
        corpus = folder / f"synthetic-{_SMALL}.txt"
        _cpu_seconds("train-tokenizer", "--input", corpus, "--output", path, *_TRAINING[model])
    return path


def _cpu_seconds(*arguments: str | Path) -> float:
    """Run a command of the job, in one process; gives its processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "pipeline", *map(str, arguments)],
        check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _rows(sheet: Sheet) -> Iterator[str]:
    of, gigabyte = sheet.volumes, 1e9
    yield f"{of.tasks:,}"
    yield f"{of.shards:,}"
    yield f"{of.stored / gigabyte:,.1f}"
    yield f"{of.shuffled / gigabyte:,.1f}"
    yield f"{of.elements:,.0f}"
    yield f"{of.temporary / gigabyte:,.0f}"
    yield f"{of.fetched / gigabyte:,.0f}"
    yield f"{of.written / gigabyte:,.0f}"
    yield f"{of.puts / 1e3:,.0f}"
    yield f"{of.gets / 1e3:,.0f}"
    yield f"{sheet.vcpu_hours:,.0f}"
    for name in ("vCPU", "memory", "disk", "shuffle", "requests"):
        yield f"{sheet.dollars[name]:,.2f}"
    yield f"{sheet.total:,.2f}"
    yield f"{sheet.dollars['soft delete']:,.2f}"


_COLUMNS = (
    "", "tasks", "shards", "ids GB", "shuffled GB", "elements", "temporary GB",
    "fetched GB", "written GB", "puts, 1,000", "gets, 1,000", "vCPU hours", "vCPU $", "memory $",
    "disk $", "shuffle $", "requests $", "all $", "soft delete $",
)  # fmt: skip


def main() -> None:
    """Measure or read, and print the sheet."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus-bytes", type=float, nargs="+", default=[1e10, 1e12])
    parser.add_argument("--files", type=int, default=1)
    parser.add_argument("--shards", type=int)
    parser.add_argument("--objective", choices=_OBJECTIVES, nargs="+", default=["bert"])
    parser.add_argument("--manifest", type=Path, help="dataset.json of a run of the objective")
    parser.add_argument("--cpu-seconds-per-mb", type=float, help="with --manifest")
    parser.add_argument("--folder", type=Path, default=Path("benchmark-data"))
    parser.add_argument("--request-seconds", type=float, default=Pace.request_seconds)
    parser.add_argument("--element-seconds", type=float, default=Pace.element_seconds)
    for name, default in vars(Prices()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=default)
    given = parser.parse_args()
    prices = Prices(**{name: getattr(given, name) for name in vars(Prices())})
    given.folder.mkdir(parents=True, exist_ok=True)
    console = Console(width=260)
    table = Table(*_COLUMNS)
    for objective in given.objective:
        if given.manifest:
            ratios = read_ratios(json.loads(given.manifest.read_text()))
            cpu_seconds = (given.cpu_seconds_per_mb or 0.0) / 1e6
        else:
            ratios, cpu_seconds = measure(objective, given.folder)
        console.print(f"{ratios}, {cpu_seconds * 1e6:.3f} s of a processor a MB")
        pace = Pace(cpu_seconds, given.request_seconds, given.element_seconds)
        for size in given.corpus_bytes:
            volumes = estimate(ratios, round(size), given.files, given.shards)
            label = f"{ratios.objective}, {size / 1e9:,.0f} GB"
            table.add_row(label, *_rows(price(volumes, pace, prices)))
    console.print(table)


if __name__ == "__main__":
    main()
