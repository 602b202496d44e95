"""A small real run whose work is counted: the basis of the estimates of `benchmarks.scale`.

The job runs in this process. Beam counts the elements of each collection; calls to the file system,
spills and sorts are counted as they happen.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apache_beam as beam
import psutil
import pyarrow as pa
from apache_beam.coders import registry
from apache_beam.io.localfilesystem import LocalFileSystem
from apache_beam.metrics import monitoring_infos
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from benchmarks.builds import read_manifest
from corpusmill.corpus.options import DocumentOptions
from corpusmill.formats.options import OutputOptions
from corpusmill.objectives.objective import ObjectiveOptions
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from pipeline.graph import Job, build_dataset
from pipeline.options import CorpusOptions, RunOptions
from pipeline.preparation.assembly import assemble_job
from pipeline.preparation.inputs import InputFile, list_inputs, read_bytes
from pipeline.preparation.recipe import Recipe
from pipeline.preparation.run_folder import run_folder
from pipeline.runners.engine import Engine
from pipeline.runners.local.engine import LocalEngine
from transforms import sort, spill
from transforms.elements import Segment

CALLS = ("open", "create", "exists", "delete", "rename", "match", "size", "mkdirs")
_ELEMENT_COUNT = "beam:metric:element_count:v1"


@dataclass
class Counted:
    """The counted work of a job.

    Attributes:
        job: the job.
        process_bytes: resident memory of this process before the run.
        manifest: of the data set.
        elements: the number of elements of each collection, by its name in the graph.
        calls: the number of calls to the file system, by name.
        buffered_bytes: size in memory of the documents that were spilled, each time they were.
        spilled: the segments of documents and of sorts, with their rows, bytes and paths.
        sorted_bytes: size in memory of the examples that were sorted.
    """

    job: Job
    process_bytes: int
    manifest: dict[str, Any] = field(default_factory=dict)
    elements: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    buffered_bytes: int = 0
    spilled: list[Segment] = field(default_factory=list)
    sorted_bytes: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """The counts of the manifest."""
        counts: dict[str, int] = self.manifest["counts"]
        return counts

    def count_elements(self, suffix: str) -> int:
        """Return the number of elements of the collections whose names end with a suffix."""
        return sum(number for name, number in self.elements.items() if name.endswith(suffix))


@dataclass(frozen=True)
class Build:
    """A build of any input.

    Attributes:
        objective: the options of the objective.
        tokenizer: of the data set.
        documents: how the corpus is read.
        output: how shards are written.
        num_shards: of the train split; None for the default.
        engine: where the job would run.
    """

    objective: ObjectiveOptions
    tokenizer: TokenizerFile
    documents: DocumentOptions
    output: OutputOptions
    num_shards: int | None
    engine: Engine

    def assemble(self, files: Sequence[InputFile], folder: Any) -> Job:
        """Return the job for some files, which need not exist."""
        dataset = CorpusOptions(input=("-",), tokenizer="-", num_shards=self.num_shards)
        recipe = Recipe(dataset, self.objective, self.tokenizer, self.documents, self.output, files)
        return assemble_job(recipe, self.engine, folder)


def prepare_build(
    objective: ObjectiveOptions,
    tokenizer: str,
    *,
    num_shards: int | None = None,
    run: RunOptions = RunOptions(),  # noqa: B008  frozen
    output: OutputOptions = OutputOptions(),  # noqa: B008  frozen
) -> Build:
    """Return a build of text files with a user's options."""
    documents = objective.choose_documents(DocumentOptions(input_format="text"))
    file = read_tokenizer(tokenizer, read_bytes)
    return Build(objective, file, documents, output, num_shards, LocalEngine(run))


def count_run(build: Build, inputs: Sequence[str], output: Path) -> Counted:
    """Build a data set in this process and count the work."""
    with run_folder(str(output), None, resume=False) as folder:
        files = list_inputs(inputs, folder.path)
        job = build.assemble(files, folder)
        folder.begin(job, files, ())
        counted = Counted(job, psutil.Process().memory_info().rss)
        pipeline = beam.Pipeline(runner=FnApiRunner())
        build_dataset(pipeline, job)
        names = {
            key: collection.unique_name
            for key, collection in pipeline.to_runner_api().components.pcollections.items()
        }
        with _count_calls(counted):
            result = pipeline.run()
        result.wait_until_finish()
    for key, number in _read_element_counts(result).items():
        if key in names:
            counted.elements[names[key]] += number
    counted.manifest = read_manifest(output)
    return counted


def _read_element_counts(result: Any) -> dict[str, int]:
    """Return Beam's number of elements of each collection, which several stages can report."""
    counts: dict[str, int] = {}
    for infos in result._monitoring_infos_by_stage.values():
        for info in infos:
            if info.urn == _ELEMENT_COUNT and "PCOLLECTION" in info.labels:
                number = monitoring_infos.extract_counter_value(info)
                name = info.labels["PCOLLECTION"]
                counts[name] = max(number, counts.get(name, 0))
    return counts


@contextmanager
def _count_calls(counted: Counted) -> Iterator[None]:
    """Count calls, spills and sorts within the block."""

    def counting(name: str) -> Callable[..., Any]:
        call = getattr(LocalFileSystem, name)

        def count(*arguments: Any, **named: Any) -> Any:
            counted.calls[name] += 1
            return call(*arguments, **named)

        return count

    write, add_rows, add = spill.Spill.write, sort.RowSorter.add, spill.Spill.add

    def count_write(self: spill.Spill) -> None:
        before = len(self.segments)
        write(self)
        counted.spilled += self.segments[before:]

    def count_rows(self: sort.RowSorter, rows: pa.RecordBatch) -> None:
        counted.sorted_bytes += rows.nbytes
        add_rows(self, rows)

    def count_add(self: spill.Spill, batch: pa.RecordBatch, buckets: Any) -> None:
        if "document" in batch.schema.names and "key" not in batch.schema.names:
            counted.buffered_bytes += batch.nbytes
        add(self, batch, buckets)

    with ExitStack() as patches:
        for name in CALLS:
            patches.enter_context(patch.object(LocalFileSystem, name, counting(name)))
        patches.enter_context(patch.object(spill.Spill, "write", count_write))
        patches.enter_context(patch.object(spill.Spill, "add", count_add))
        patches.enter_context(patch.object(sort.RowSorter, "add", count_rows))
        yield


def encoded_bytes(segment: Segment) -> int:
    """Return the size of a reference to a segment as it is shuffled, with its key."""
    return 4 + len(registry.get_coder(Segment).encode(segment))
