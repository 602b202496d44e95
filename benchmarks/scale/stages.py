"""The stages of a build of any size, with the largest call of each, and the time that it takes.

    python -m benchmarks.scale.stages --sizes 1TB 50TB --objectives bert gpt

The rates are those of a small corpus, which `inspect-corpus` measures; nothing else is built. No
call may take longer than two minutes, hold more than 2 GiB, or be given more references than an
engine sorts in memory.
"""

import argparse
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from rich.console import Console

from benchmarks.builds import FOLDER, SAMPLE, make_tokenizer
from benchmarks.console import print_table
from benchmarks.scale.stage_sizes import Corpus, StageSize, measure_manifest, size_stages
from corpusmill.commands.command import Call
from pipeline.assembly import assemble_job
from pipeline.commands.builds import make_command
from pipeline.commands.inspect_corpus import InspectCorpus
from pipeline.graph import Job
from pipeline.job_options import CorpusOptions, RunOptions, parse_size
from pipeline.jobs.build_work import BuildSize, enlarge
from pipeline.jobs.corpus_inspection import measure_corpus
from pipeline.recipe.preparation import prepare
from pipeline.runners.local.engine import LocalEngine
from transforms.recovery import Workplace

MOST_SECONDS, MOST_MEMORY_BYTES, MOST_REFERENCES = 120, 2**31, 2**18


class BuildStages(NamedTuple):
    """The stages of a build.

    Attributes:
        stages: their sizes.
        manifest_bytes: size of the manifest.
        worker_bytes: what each worker reads beside its work: the tokenizer and the pool.
    """

    stages: list[StageSize]
    manifest_bytes: int
    worker_bytes: float


def measure_stages(options: InspectCorpus, sizes: Iterable[int]) -> list[BuildStages]:
    """Measure a corpus, and return the stages of builds of larger ones like it.

    Args:
        options: of the corpus and its build.
        sizes: bytes of the larger corpora.
    """
    console = Console(file=StringIO())
    engine = LocalEngine(options.run)
    numbers = measure_corpus(options, Call(console))
    with TemporaryDirectory(prefix="corpusmill-") as folder:
        recipe = prepare(options, folder, console)
        job = assemble_job(recipe, engine, Workplace(folder, sizes=options.run.task_sizes))
        jobs = [(enlarge(job, recipe, engine, size), size) for size in sizes]
    return [_size_build(numbers, larger, size, recipe.tokenizer.json) for larger, size in jobs]


def _size_build(numbers: dict[str, Any], job: Job, size: int, tokenizer: str) -> BuildStages:
    build = BuildSize.from_numbers(numbers, job, size / numbers["corpus"]["bytes"])
    files = -(-size // 10**9)
    corpus = Corpus(
        files=files,
        ranges=job.plan.ranges,
        largest_task_bytes=min(job.range_bytes, size / files),
        documents=build.documents,
        stored_bytes=build.stored_bytes,
        share_of_candidates=build.share_of_candidates,
        pool_bytes=build.pool_bytes,
        output_bytes=sum(split.bytes for split in build.splits),
        built_bytes=sum(split.built_bytes for split in build.splits),
    )
    return BuildStages(
        size_stages(job, corpus), measure_manifest(job, files), len(tokenizer) + build.pool_bytes
    )


def main() -> None:
    """Print a table for each objective and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", type=Path, default=SAMPLE)
    parser.add_argument("--objectives", nargs="+", default=["bert", "gpt"])
    parser.add_argument("--sizes", nargs="+", default=["50TB"])
    flags = parser.parse_args()
    for objective in flags.objectives:
        tokenizer = make_tokenizer(FOLDER, flags.input, objective)
        corpus = CorpusOptions(input=(str(flags.input),), tokenizer=str(tokenizer))
        command: Any = make_command(InspectCorpus, objective)
        options = command(dataset=corpus, run=RunOptions(workers=1))
        builds = measure_stages(options, [parse_size("sizes", size) for size in flags.sizes])
        for size, build in zip(flags.sizes, builds, strict=True):
            print_table(
                ("", "calls", "seconds", "MB", "MB held", "files", "references", "GB carried"),
                (
                    (
                        stage.name, f"{stage.calls:,}", f"{stage.seconds:,.1f}",
                        f"{stage.bytes / 1e6:,.1f}", f"{stage.memory_bytes / 1e6:,.1f}",
                        f"{stage.files:,.0f}", f"{stage.references:,.0f}",
                        f"{stage.shuffled_bytes / 1e9:,.2f}",
                    )
                    for stage in build.stages
                ),
                f"{objective}, {size}",
            )  # fmt: skip


if __name__ == "__main__":
    main()
