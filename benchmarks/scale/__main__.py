"""What 10 GB, 1 TB and 50 TB would take: `python -m benchmarks.scale [--objective bert]`.

A small corpus is built and all the work is counted (`benchmarks.scale.counted_run`). For each size
a job is then planned for files that do not exist (`benchmarks.scale.planning`), and its work is
estimated from its plan and the counts (`benchmarks.scale.model`). Warnings follow the table.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.builds import FOLDER, make_corpus
from benchmarks.console import CONSOLE, make_parser, print_table
from benchmarks.scale.model import Scale
from benchmarks.scale.planning import OBJECTIVES, Planned, plan_size, prepare_large_build
from corpusmill.corpus.batches import MAX_FILES
from corpusmill.formats.options import OutputOptions
from pipeline.options import MAX_SHARDS, RunOptions
from transforms.shuffle import MERGE_BYTES, SMALLEST_SEGMENT_BYTES
from transforms.storage.parallel import CALLS_AT_ONCE

GB, TB = 10**9, 10**12
SIZES = {"10 GB": 10 * GB, "1 TB": TB, "50 TB": 50 * TB}

# Flink carried 90 values of 1 MB in a key, and failed with 150 (its sort buffer has 100 MB).
_MOST_KEY_BYTES = 90 * 2**20
# Dataflow refuses larger jobs.
_MOST_GRAPH_BYTES = 10 * 2**20
# A call to an object store, in seconds; a few tens of milliseconds are usual.
_CALL_SECONDS = 0.05
_MOST_MINUTES = 15
# From this number of elements or reads on, the cost of one matters.
_MANY = 10**8

_NUMBERS: dict[str, Callable[[Planned], float]] = {
    "input files": lambda planned: planned.files,
    "ranges": lambda planned: planned.scale.job.plan.ranges,
    "tasks": lambda planned: planned.scale.job.plan.tasks,
    "shards": lambda planned: planned.scale.job.layout.shards,
    "documents": lambda planned: planned.scale.documents,
    "examples": lambda planned: planned.scale.examples,
    "worker's open files": lambda planned: planned.scale.open_files,
    "references to candidates, one key": lambda planned: planned.scale.candidates,
    "spill files": lambda planned: planned.scale.spill_files,
    "merges": lambda planned: planned.scale.merges,
    "references to merges": lambda planned: planned.scale.merged_segments,
    "values of a merge's key": lambda planned: planned.scale.merge_values,
    "segments of shards": lambda planned: planned.scale.segments,
    "references to shards": lambda planned: planned.scale.shard_references,
    "values of a shard's key": lambda planned: planned.scale.shard_values,
    "sort files of a shard": lambda planned: planned.scale.sort_files,
    "segments of sort files": lambda planned: planned.scale.sort_opens,
    "requests: reads": lambda planned: planned.scale.opens,
    "requests: writes": lambda planned: planned.scale.creates,
    "requests: looks": lambda planned: planned.scale.looks,
    "requests: renames": lambda planned: planned.scale.shard_files,
    "counts, as elements": lambda planned: planned.scale.count_elements,
}
_BYTES: dict[str, Callable[[Planned], float]] = {
    "output": lambda planned: planned.scale.output_bytes,
    "a shard": lambda planned: planned.scale.output_bytes / planned.scale.job.layout.shards,
    "graph": lambda planned: planned.graph_bytes,
    "plan file": lambda planned: planned.plan_bytes,
    "manifest": lambda planned: planned.scale.manifest_bytes,
    "driver, planning": lambda planned: planned.driver_bytes,
    "worker process": lambda planned: planned.scale.worker_bytes,
    "pool": lambda planned: planned.scale.pool_bytes,
    "a merge": lambda planned: planned.scale.merge_bytes,
    "a segment": lambda planned: planned.scale.segment_bytes,
    "references shuffled": lambda planned: planned.scale.references * planned.scale.rates.reference,
    "temporary files written": lambda planned: planned.scale.file_bytes_written,
    "temporary files read": lambda planned: planned.scale.file_bytes_read,
    "a shard while it is sorted": lambda planned: planned.scale.sort_bytes,
    "worker's local disk": lambda planned: planned.scale.scratch_bytes,
}


def find_problems(planned: Planned) -> Iterator[str]:
    """Yield a sentence for everything that will not work at a size."""
    yield from _plan_problems(planned)
    yield from _shuffle_problems(planned.scale)
    yield from _commit_problems(planned.scale)


def _plan_problems(planned: Planned) -> Iterator[str]:
    shards = planned.scale.job.layout.shards
    if shards >= MAX_SHARDS:
        shard_gb = planned.scale.output_bytes / shards / GB
        yield f"names allow no more shards, so that each has {shard_gb:.1f} GB"
    if planned.files > MAX_FILES:
        yield f"{planned.files:,} files are more than ids allow ({MAX_FILES:,}): join them"
    if planned.graph_bytes > _MOST_GRAPH_BYTES:
        yield f"the graph of {planned.graph_bytes / 1e6:.0f} MB is too large for Dataflow"


def _shuffle_problems(scale: Scale) -> Iterator[str]:
    if scale.merge_bytes > 2 * MERGE_BYTES:
        yield f"a merge, which is one worker's, has {scale.merge_bytes / GB:.0f} GB"
    reads = scale.segments * scale.builders
    if scale.segment_bytes < SMALLEST_SEGMENT_BYTES / 2 and reads > _MANY:
        yield (
            f"segments of {scale.segment_bytes / 1000:.0f} kB take longer to open than to read: "
            f"{reads:,.0f} reads"
        )
    for name, number in (("merge", scale.merge_values), ("shard", scale.shard_values)):
        key_bytes = number * scale.rates.reference
        if key_bytes > _MOST_KEY_BYTES:
            yield f"the values of a {name}'s key have {key_bytes / 1e6:.0f} MB; Flink carries 90"


def _commit_problems(scale: Scale) -> Iterator[str]:
    # A rename takes a look at both names, a copy and a deletion.
    calls = {"the commit": 4 * scale.shard_files, "writing the pool": 2 * scale.candidates}
    for name, number in calls.items():
        minutes = number * _CALL_SECONDS / CALLS_AT_ONCE / 60
        if minutes > _MOST_MINUTES:
            yield f"{name} is one task of {number:,.0f} calls to the store: {minutes:,.0f} minutes"
    if scale.job.commit.joined and scale.output_bytes > TB:
        yield f"one task joins all shards into one file of {scale.output_bytes / TB:.0f} TB"


def show(planned: dict[str, Planned]) -> None:
    """Print the sheet, with a column for each size, and the problems."""
    sizes = planned.values()
    rows = [[name, *(f"{value(size):,.0f}" for size in sizes)] for name, value in _NUMBERS.items()]
    rows += [
        [name, *(_format_bytes(value(size)) for size in sizes)] for name, value in _BYTES.items()
    ]
    print_table(("", *planned), rows)
    for name, size in planned.items():
        for problem in find_problems(size):
            CONSOLE.print(f"{name}: {problem}", style="bold red")


def _format_bytes(value: float) -> str:
    for unit, name in ((TB, "TB"), (GB, "GB"), (10**6, "MB"), (10**3, "kB")):
        if value >= unit:
            return f"{value / unit:,.1f} {name}"
    return f"{value:,.0f} B"


def main() -> None:
    """Count a small run, plan large ones, and print the sheet."""
    parser = make_parser(
        __doc__, folder=FOLDER / "scale", bytes=5_000_000, file_bytes=GB, workers=1000
    )
    parser.add_argument("--objective", choices=OBJECTIVES, default="bert")
    parser.add_argument("--output-format", help="of the shards")
    parser.add_argument("--input", type=Path, help="a small corpus; a synthetic one by default")
    parser.add_argument("--num-shards", type=int)
    arguments = parser.parse_args()
    corpus = arguments.input or make_corpus(arguments.folder, arguments.bytes)
    output = {"output_format": arguments.output_format} if arguments.output_format else {}
    build, rates = prepare_large_build(
        arguments.objective, corpus, arguments.folder, num_shards=arguments.num_shards,
        run=RunOptions(workers=arguments.workers), output=OutputOptions(**output),
    )  # fmt: skip
    CONSOLE.print(f"measured on {corpus}: {rates}")
    show({
        name: plan_size(build, rates, size, arguments.file_bytes) for name, size in SIZES.items()
    })  # fmt: skip


if __name__ == "__main__":
    main()
