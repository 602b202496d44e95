"""The costs of a job on Dataflow.

    python -m benchmarks.scale.dataflow_cost --corpus-bytes 1e12

A job is planned for each size and its work estimated as in `benchmarks.scale`. The processor time
for a byte of text comes from two runs on this machine: the difference between a larger and a
smaller corpus does not include the start.

The default prices are those of the price lists of Dataflow and Cloud Storage for us-central1,
batch, on 2025-06-01. They change: set yours.
"""

import os
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import NamedTuple

from benchmarks.builds import FOLDER, MEGABYTE, build, make_corpus, make_tokenizer
from benchmarks.console import CONSOLE, make_parser, print_table
from benchmarks.scale.planning import OBJECTIVES, Planned, plan_size, prepare_large_build

_GB = 10**9
# What a request reads from a file that is read from beginning to end, and what one lists.
_READ_BYTES, _LISTED_FILES = 4 * 2**20, 1000


class Prices(NamedTuple):
    """US dollars, in us-central1.

    Attributes:
        vcpu_hour: of a processor of a batch worker.
        memory_gb_hour: of its memory.
        disk_gb_hour: of its disk.
        shuffle_gb: of data in the shuffle service.
        put_thousand: of 1,000 requests of class A, which write, copy or list.
        get_thousand: of 1,000 requests of class B, which read.
        storage_gb_month: of a regional bucket.
    """

    vcpu_hour: float = 0.056
    memory_gb_hour: float = 0.003557
    disk_gb_hour: float = 0.000054
    shuffle_gb: float = 0.011
    put_thousand: float = 0.005
    get_thousand: float = 0.0004
    storage_gb_month: float = 0.020


class Pace(NamedTuple):
    """The time and the resources that the work takes.

    Attributes:
        cpu_seconds: measured processor time for a byte of text.
        request_seconds: time that a worker waits for a small read.
        element_seconds: processor time for a shuffled element, on both sides.
        memory_gb: memory of a processor.
        disk_gb: disk of a processor.
        soft_delete_days: time for which deleted temporary files are kept, and billed.
    """

    cpu_seconds: float
    request_seconds: float = 0.03
    element_seconds: float = 60e-6
    memory_gb: float = 4.0
    disk_gb: float = 12.5
    soft_delete_days: float = 7.0


class Volumes(NamedTuple):
    """What a job moves.

    Attributes:
        text: bytes of the corpus.
        elements: number of shuffled elements.
        shuffled: their bytes.
        temporary: bytes written to temporary files, including shards and the pool.
        fetched: bytes read from them.
        small_reads: requests that workers wait for, one after the other.
        puts: requests that write, copy or list.
        gets: requests that read.
    """

    text: float
    elements: float
    shuffled: float
    temporary: float
    fetched: float
    small_reads: float
    puts: float
    gets: float


class Sheet(NamedTuple):
    """The price of a job.

    Attributes:
        vcpu_hours: of its workers.
        dollars: by resource.
    """

    vcpu_hours: float
    dollars: dict[str, float]

    @property
    def total(self) -> float:
        """All costs but those of soft delete, which a bucket does not need."""
        return sum(cost for name, cost in self.dollars.items() if name != "soft delete")


def estimate(planned: Planned) -> Volumes:
    """Return what a planned job moves."""
    scale, job = planned.scale, planned.scale.job
    elements = scale.references + job.plan.tasks + job.layout.shards
    # The documents of the pool are written as candidates first. The commit copies shards to their
    # names, and lists the files that it removes.
    return Volumes(
        text=job.corpus_bytes,
        elements=elements,
        shuffled=elements * scale.rates.reference,
        temporary=scale.file_bytes_written + 2 * scale.pool_bytes + scale.output_bytes,
        fetched=scale.file_bytes_read + scale.pool_bytes,
        small_reads=scale.segment_opens,
        puts=scale.creates + scale.shard_files + ceil(scale.creates / _LISTED_FILES),
        gets=job.corpus_bytes / _READ_BYTES + planned.files + scale.opens + scale.looks,
    )


def billed_shuffle_gb(gigabytes: float) -> float:
    """Return what is billed: a quarter of the first 250 GB, half of the next 4,870, then all."""
    first, second = min(gigabytes, 250), min(max(gigabytes - 250, 0), 4870)
    return 0.25 * first + 0.5 * second + max(gigabytes - 5120, 0)


def price(volumes: Volumes, pace: Pace, prices: Prices) -> Sheet:
    """Return the price of a job."""
    seconds = volumes.text * pace.cpu_seconds
    seconds += volumes.small_reads * pace.request_seconds
    seconds += volumes.elements * pace.element_seconds
    hours = seconds / 3600
    # Shuffled data is written once and read once.
    shuffled = billed_shuffle_gb(2 * volumes.shuffled / 2**30)
    kept = volumes.temporary / 2**30 * pace.soft_delete_days / 30
    requests = volumes.puts * prices.put_thousand + volumes.gets * prices.get_thousand
    return Sheet(
        hours,
        {
            "vCPU": hours * prices.vcpu_hour,
            "memory": hours * pace.memory_gb * prices.memory_gb_hour,
            "disk": hours * pace.disk_gb * prices.disk_gb_hour,
            "shuffle": shuffled * prices.shuffle_gb,
            "requests": requests / 1000,
            "soft delete": kept * prices.storage_gb_month,
        },
    )


def measure_cpu_seconds(objective: str, folder: Path, num_bytes: int) -> float:
    """Return the processor seconds for a byte of text, from runs with a quarter and the whole."""
    os.environ["OMP_NUM_THREADS"] = "1"
    small, large = (make_corpus(folder, size) for size in (num_bytes // 4, num_bytes))
    tokenizer = make_tokenizer(folder, small, objective)
    one_process = ("--num-shards", 8, "--min-bytes-per-worker", 2**60)
    # The first run compiles the kernels if they are not compiled.
    _, fewer, more = (
        build(("pipeline", objective), corpus, tokenizer, folder / "output", *one_process)
        for corpus in (small, small, large)
    )
    difference = more.processor_seconds - fewer.processor_seconds
    return difference / (large.stat().st_size - small.stat().st_size)


_HEADINGS = (
    "", "tasks", "shards", "ids GB", "shuffled GB", "elements", "temporary GB", "fetched GB",
    "written GB", "puts, 1,000", "gets, 1,000", "vCPU hours", "vCPU $", "memory $", "disk $",
    "shuffle $", "requests $", "soft delete $", "all but that $",
)  # fmt: skip


def cells(planned: Planned, pace: Pace, prices: Prices) -> Iterator[str]:
    """Yield a row of the table."""
    scale, volumes = planned.scale, estimate(planned)
    sheet = price(volumes, pace, prices)
    yield f"{scale.job.plan.tasks:,}"
    yield f"{scale.job.layout.shards:,}"
    yield f"{scale.stored_bytes / _GB:,.1f}"
    yield f"{volumes.shuffled / _GB:,.1f}"
    yield f"{volumes.elements:,.0f}"
    yield f"{volumes.temporary / _GB:,.0f}"
    yield f"{volumes.fetched / _GB:,.0f}"
    yield f"{scale.output_bytes / _GB:,.0f}"
    yield f"{volumes.puts / 1e3:,.0f}"
    yield f"{volumes.gets / 1e3:,.0f}"
    yield f"{sheet.vcpu_hours:,.0f}"
    yield from (f"{cost:,.2f}" for cost in sheet.dollars.values())
    yield f"{sheet.total:,.2f}"


def main() -> None:
    """Measure, plan, and print the sheet."""
    parser = make_parser(
        __doc__, folder=FOLDER / "dataflow", bytes=16 * MEGABYTE, file_bytes=_GB,
        request_seconds=0.03, element_seconds=60e-6, **Prices()._asdict(),
    )  # fmt: skip
    parser.add_argument("--corpus-bytes", type=float, nargs="+", default=[1e10, 1e12])
    parser.add_argument("--num-shards", type=int)
    parser.add_argument("--objective", choices=OBJECTIVES, nargs="+", default=["bert"])
    parser.add_argument("--input", type=Path, help="a part of the corpus; synthetic by default")
    parser.add_argument("--cpu-seconds-per-mb", type=float, help="measured by default")
    options = parser.parse_args()
    prices = Prices(**{name: getattr(options, name) for name in Prices._fields})
    folder, rows = options.folder, []
    for objective in options.objective:
        if options.cpu_seconds_per_mb is None:
            cpu_seconds = measure_cpu_seconds(objective, folder, options.bytes)
        else:
            cpu_seconds = options.cpu_seconds_per_mb / MEGABYTE
        corpus = options.input or make_corpus(folder, options.bytes // 4)
        large, rates = prepare_large_build(objective, corpus, folder, num_shards=options.num_shards)
        CONSOLE.print(f"{objective}: {rates}, {cpu_seconds * MEGABYTE:.3f} processor seconds a MB")
        pace = Pace(cpu_seconds, options.request_seconds, options.element_seconds)
        for size in options.corpus_bytes:
            planned = plan_size(large, rates, round(size), options.file_bytes)
            rows.append([f"{objective}, {size / _GB:,.0f} GB", *cells(planned, pace, prices)])
    print_table(_HEADINGS, rows)


if __name__ == "__main__":
    main()
