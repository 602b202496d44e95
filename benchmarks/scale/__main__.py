"""What 10 GB, 1 TB and 50 TB would take: `python -m benchmarks.scale [--objective bert]`.

A small corpus is built, and everything that the job does is counted
(`benchmarks.scale.counted_run`). For each size a job is then planned for files that do not exist,
and its work is estimated from its plan and the counts (`benchmarks.scale.model`). Warnings follow
below the table.
"""

import argparse
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import apache_beam as beam
from rich.console import Console
from rich.table import Table

from benchmarks.measure import measure
from benchmarks.scale.counted_run import Build, assemble, count_run, prepare_build
from benchmarks.scale.model import Rates, Scale, rates_of
from benchmarks.synthetic.corpus import write_corpus
from corpusmill.corpus.batches import MAX_FILES
from corpusmill.formats.options import OutputOptions
from corpusmill.objectives.bert import BertOptions
from corpusmill.objectives.electra import ElectraOptions
from corpusmill.objectives.ernie import ErnieOptions
from corpusmill.objectives.gpt import GptOptions
from corpusmill.objectives.objective import ObjectiveOptions
from pipeline.graph import build_dataset
from pipeline.options import MAX_SHARDS, RunOptions
from pipeline.preparation.inputs import InputFile
from pipeline.preparation.run_folder import RunFolder
from transforms.shuffle import MERGE_BYTES, SMALLEST_SEGMENT_BYTES
from transforms.storage.parallel import CALLS_AT_ONCE

GB, TB = 10**9, 10**12
SIZES = {"10 GB": 10 * GB, "1 TB": TB, "50 TB": 50 * TB}
OBJECTIVES: dict[str, Callable[[], ObjectiveOptions]] = {
    "bert": BertOptions,
    "electra": ElectraOptions,
    "ernie": ErnieOptions,
    "gpt": GptOptions,
}
_MODELS = {"gpt": ("bpe", "--special-tokens", "<|endoftext|>")}

# Flink passed 90 values of 1 MB a key, and failed with 150 (its sort buffer has 100 MB).
_MOST_KEY_BYTES = 90 * 2**20
# Dataflow refuses a job above this.
_MOST_GRAPH_BYTES = 10 * 2**20
# One call to an object store, in seconds; a few tens of milliseconds are usual.
_CALL_SECONDS = 0.05
_MOST_MINUTES = 15
# Elements and reads from which it matters what one of them costs.
_MANY = 10**8


class Planned(NamedTuple):
    """A job of a size, and what planning it took here.

    Attributes:
        scale: what it will do.
        files: of input.
        graph_bytes: of the graph as a runner gets it.
        plan_bytes: of the plan's file.
        driver_bytes: most that planning held at once.
    """

    scale: Scale
    files: int
    graph_bytes: int
    plan_bytes: int
    driver_bytes: int


def plan_size(of: Build, rates: Rates, corpus_bytes: int, file_bytes: int) -> Planned:
    """Plan a job of a corpus that does not exist, in files of one size."""
    number = max(1, round(corpus_bytes / file_bytes))
    with tempfile.TemporaryDirectory() as folder:
        tracemalloc.start()
        files = [
            InputFile(f"gs://bucket/corpus/part-{at:07d}.txt", file_bytes, f"part-{at:07d}.txt")
            for at in range(number)
        ]
        job = assemble(of, files, folder, RunFolder(folder))
        pipeline = beam.Pipeline()
        build_dataset(pipeline, job)
        graph_bytes = len(pipeline.to_runner_api().SerializeToString())
        _, driver_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        plan_bytes = Path(job.plan.path).stat().st_size
    return Planned(Scale(job, rates), number, graph_bytes, plan_bytes, driver_bytes)


@dataclass(frozen=True)
class Line:
    """A line of the sheet."""

    name: str
    value: Callable[[Planned], float]
    unit: str = ""


LINES = (
    Line("input files", lambda of: of.files),
    Line("ranges", lambda of: of.scale.job.plan.ranges),
    Line("tasks", lambda of: of.scale.job.plan.tasks),
    Line("shards", lambda of: of.scale.job.layout.shards),
    Line("documents", lambda of: of.scale.documents),
    Line("examples", lambda of: of.scale.examples),
    Line("output", lambda of: of.scale.output_bytes, "B"),
    Line("a shard", lambda of: of.scale.output_bytes / of.scale.job.layout.shards, "B"),
    Line("graph", lambda of: of.graph_bytes, "B"),
    Line("plan file", lambda of: of.plan_bytes, "B"),
    Line("manifest", lambda of: of.scale.manifest_bytes, "B"),
    Line("driver, planning", lambda of: of.driver_bytes, "B"),
    Line("worker process", lambda of: of.scale.worker_bytes, "B"),
    Line("worker's open files", lambda of: of.scale.open_files),
    Line("pool", lambda of: of.scale.pool_bytes, "B"),
    Line("references to candidates, one key", lambda of: of.scale.candidates),
    Line("spill files", lambda of: of.scale.spill_files),
    Line("merges", lambda of: of.scale.merges if of.scale.job.routes.two_levels else 0),
    Line("a merge", lambda of: of.scale.merge_bytes, "B"),
    Line("references to merges", lambda of: of.scale.first_segments),
    Line("values of a merge's key", lambda of: of.scale.merge_values),
    Line("segments of shards", lambda of: of.scale.segments),
    Line("a segment", lambda of: of.scale.segment_bytes, "B"),
    Line("references to shards", lambda of: of.scale.shard_references),
    Line("values of a shard's key", lambda of: of.scale.shard_values),
    Line("bytes of references shuffled", lambda of: of.scale.reference_bytes, "B"),
    Line("temporary files written", lambda of: of.scale.file_bytes_written, "B"),
    Line("temporary files read", lambda of: of.scale.file_bytes_read, "B"),
    Line("a shard while it is sorted", lambda of: of.scale.sort_bytes, "B"),
    Line("sort files of a shard", lambda of: of.scale.sort_files),
    Line("pieces of them read", lambda of: of.scale.sort_opens),
    Line("worker's own disk", lambda of: of.scale.scratch_bytes, "B"),
    Line("requests: reads", lambda of: of.scale.opens),
    Line("requests: writes", lambda of: of.scale.creates),
    Line("requests: looks", lambda of: of.scale.looks),
    Line("requests: renames", lambda of: of.scale.renames),
    Line("counts, as elements", lambda of: of.scale.count_elements),
)


def shards_of(of: Planned) -> int:
    """All shards."""
    return of.scale.job.layout.shards


def find_breaks(of: Planned) -> Iterator[str]:
    """What will not hold at a size, a sentence each."""
    yield from _plan_breaks(of)
    yield from _file_breaks(of.scale)
    yield from _commit_breaks(of.scale)


def _plan_breaks(of: Planned) -> Iterator[str]:
    if shards_of(of) >= MAX_SHARDS:
        shard_gb = of.scale.output_bytes / shards_of(of) / GB
        yield f"shards are as many as names allow, so each has {shard_gb:.1f} GB"
    if of.files > MAX_FILES:
        yield f"{of.files:,} files are more than ids allow ({MAX_FILES:,}): join them"
    if of.graph_bytes > _MOST_GRAPH_BYTES:
        yield f"the graph of {of.graph_bytes / 1e6:.0f} MB is more than Dataflow takes"


def _file_breaks(scale: Scale) -> Iterator[str]:
    if scale.job.routes.two_levels and scale.merge_bytes > 2 * MERGE_BYTES:
        yield f"a merge has {scale.merge_bytes / GB:.0f} GB, which one worker does alone"
    reads = scale.segments * scale.builders
    if scale.segment_bytes < SMALLEST_SEGMENT_BYTES / 2 and reads > _MANY:
        yield (
            f"segments of {scale.segment_bytes / 1000:.0f} kB cost more to open than to read: "
            f"{reads:,.0f} reads"
        )
    for name, number in (("merge", scale.merge_values), ("shard", scale.shard_values)):
        key_bytes = number * scale.rates.reference
        if key_bytes > _MOST_KEY_BYTES:
            yield f"a {name}'s key has {key_bytes / 1e6:.0f} MB of values, and Flink bears 90"


def _commit_breaks(scale: Scale) -> Iterator[str]:
    # A rename is a look at both names, a copy and a deletion.
    calls_of = {"the commit": 4 * scale.renames, "writing the pool": 2 * scale.candidates}
    for what, calls in calls_of.items():
        minutes = calls * _CALL_SECONDS / CALLS_AT_ONCE / 60
        if minutes > _MOST_MINUTES:
            yield f"{what} is one task of {calls:,.0f} calls to the store: {minutes:,.0f} minutes"
    if scale.job.commit.joined and scale.output_bytes > TB:
        yield f"one task joins all shards into one file of {scale.output_bytes / TB:.0f} TB"


def render_sheet(planned: dict[str, Planned]) -> Table:
    """The sheet, a column a size."""
    table = Table("", *planned)
    for column in table.columns[1:]:
        column.justify = "right"
    for line in LINES:
        values = (line.value(of) for of in planned.values())
        table.add_row(line.name, *(_render(value, line.unit) for value in values))
    return table


def _render(value: float, unit: str) -> str:
    if not unit:
        return f"{value:,.0f}"
    for size, name in ((TB, "TB"), (GB, "GB"), (10**6, "MB"), (10**3, "kB")):
        if value >= size:
            return f"{value / size:,.1f} {name}"
    return f"{value:,.0f} B"


def make_tokenizer(folder: Path, corpus: Path, objective: str) -> Path:
    """A tokenizer for the objective, trained on the corpus where it is missing."""
    model, *special = _MODELS.get(objective, ("wordpiece",))
    path = folder / f"{corpus.stem}-{model}.json"
    if not path.exists():
        given = ["--input", str(corpus), "--output", str(path), "--model", model]
        command = ["python", "-m", "pipeline", "train-tokenizer", *given, "--vocab-size", "30522"]
        measure([*command, *special])
    return path


def main() -> None:
    """Measure, reckon and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objective", choices=OBJECTIVES, default="bert")
    parser.add_argument("--output-format", help="of the shards")
    parser.add_argument("--input", type=Path, help="a small corpus; by default a synthetic one")
    parser.add_argument("--bytes", type=int, default=5_000_000, help="of the synthetic one")
    parser.add_argument("--file-bytes", type=int, default=GB, help="of each file of the large ones")
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--num-shards", type=int)
    parser.add_argument("--folder", type=Path, default=Path("benchmark-data/scale"))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    corpus = arguments.input or arguments.folder / f"synthetic-{arguments.bytes}.txt"
    if not corpus.exists():
        write_corpus(corpus, arguments.bytes)
    tokenizer = str(make_tokenizer(arguments.folder, corpus, arguments.objective))
    format_ = {"output_format": arguments.output_format} if arguments.output_format else {}
    objective = OBJECTIVES[arguments.objective]()
    run, output = RunOptions(workers=arguments.workers), OutputOptions(**format_)
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as folder:
        small = prepare_build(objective, tokenizer, output=output)
        counted = count_run(small, [str(corpus)], Path(folder) / "out")
    rates = rates_of(counted)
    console.print(f"measured on {counted.counts['read.bytes']:,} bytes: {rates}", highlight=False)
    large = prepare_build(objective, tokenizer, "text", arguments.num_shards, run, output)
    planned = {
        name: plan_size(large, rates, size, arguments.file_bytes) for name, size in SIZES.items()
    }
    console.print(render_sheet(planned))
    for name, of in planned.items():
        for sentence in find_breaks(of):
            console.print(f"{name}: {sentence}", style="bold red", highlight=False)


if __name__ == "__main__":
    main()
