"""Jobs of any size, planned for files that do not exist, with the rates of a small real run."""

import tempfile
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import apache_beam as beam

from benchmarks.builds import make_tokenizer
from benchmarks.scale.counted_run import Build, count_run, prepare_build
from benchmarks.scale.model import Rates, Scale, compute_rates
from corpusmill.formats.options import OutputOptions
from corpusmill.objectives.bert import BertOptions
from corpusmill.objectives.electra import ElectraOptions
from corpusmill.objectives.ernie import ErnieOptions
from corpusmill.objectives.gpt import GptOptions
from corpusmill.objectives.objective import ObjectiveOptions
from pipeline.graph import build_dataset
from pipeline.options import RunOptions
from pipeline.preparation.inputs import InputFile
from pipeline.preparation.run_folder import RunFolder

OBJECTIVES: Mapping[str, type[ObjectiveOptions]] = {
    "bert": BertOptions,
    "electra": ElectraOptions,
    "ernie": ErnieOptions,
    "gpt": GptOptions,
}


class Planned(NamedTuple):
    """A job, and what planning it took here.

    Attributes:
        scale: the job's work.
        files: number of input files.
        graph_bytes: size of the graph that a runner gets.
        plan_bytes: size of the plan's file.
        driver_bytes: peak memory of the planning.
    """

    scale: Scale
    files: int
    graph_bytes: int
    plan_bytes: int
    driver_bytes: int


def plan_size(build: Build, rates: Rates, corpus_bytes: int, file_bytes: int) -> Planned:
    """Plan a job for a corpus that does not exist, in files of one size."""
    number = max(1, round(corpus_bytes / file_bytes))
    with tempfile.TemporaryDirectory() as folder:
        tracemalloc.start()
        names = [f"part-{index:07d}.txt" for index in range(number)]
        files = [InputFile(f"gs://bucket/corpus/{name}", file_bytes, name) for name in names]
        job = build.assemble(files, RunFolder(folder, folder))
        pipeline = beam.Pipeline()
        build_dataset(pipeline, job)
        graph_bytes = len(pipeline.to_runner_api().SerializeToString())
        _, driver_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        plan_bytes = Path(job.plan.path).stat().st_size
    return Planned(Scale(job, rates), number, graph_bytes, plan_bytes, driver_bytes)


def prepare_large_build(
    objective: str,
    corpus: Path,
    folder: Path,
    *,
    num_shards: int | None = None,
    run: RunOptions = RunOptions(),  # noqa: B008  frozen
    output: OutputOptions = OutputOptions(),  # noqa: B008  frozen
) -> tuple[Build, Rates]:
    """Build a small corpus and count the work.

    Args:
        objective: a key of `OBJECTIVES`.
        corpus: the small corpus.
        folder: for the tokenizer.
        num_shards: of large jobs; None for the default.
        run: where large jobs would run.
        output: how shards are written.

    Returns:
        A build for `plan_size`, and the rates of the small run.
    """
    tokenizer = str(make_tokenizer(folder, corpus, objective))
    small = prepare_build(OBJECTIVES[objective](), tokenizer, output=output)
    with tempfile.TemporaryDirectory() as scratch:
        rates = compute_rates(count_run(small, [str(corpus)], Path(scratch) / "output"))
    large = prepare_build(
        OBJECTIVES[objective](), tokenizer, num_shards=num_shards, run=run, output=output
    )
    return large, rates
