"""A small real run whose every counter is taken: what `benchmarks.scale` reckons with.

The job runs in this process, with Beam's own counts of the elements of each collection, and with
the calls to the file system, the spills and the sorts counted as they happen.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from io import StringIO
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
from rich.console import Console

from corpusmill.corpus.options import DocumentOptions
from corpusmill.dataset.manifest import MANIFEST
from corpusmill.formats.options import OutputOptions
from corpusmill.objectives.objective import ObjectiveOptions
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from pipeline.graph import Job, build_dataset
from pipeline.options import DatasetOptions, RunOptions
from pipeline.preparation.assembly import assemble_job
from pipeline.preparation.inputs import InputFile, list_inputs, read_bytes
from pipeline.preparation.run_folder import run_folder
from pipeline.runners.launch import Launch, prepare_launch
from transforms import sort, spill
from transforms.elements import Segment

CALLS = ("open", "create", "exists", "delete", "rename", "match", "size", "mkdirs")
_ELEMENT_COUNT = "beam:metric:element_count:v1"


@dataclass
class Counted:
    """What a run of a job was counted to do.

    Attributes:
        job: that ran.
        counts: of the manifest.
        manifest: of the data set.
        elements: of each collection, by its name in the graph.
        calls: to the file system, by name.
        buffered_bytes: of the documents that were spilled, each time they were; as in memory.
        spilled: rows, bytes and path of each segment, of documents and of sorts.
        sorted_bytes: of the examples that were sorted, as in memory.
        process_bytes: resident memory of this process before the run.
    """

    job: Job
    counts: dict[str, int] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    elements: dict[str, int] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    buffered_bytes: int = 0
    spilled: list[Segment] = field(default_factory=list)
    sorted_bytes: int = 0
    process_bytes: int = 0


@dataclass(frozen=True)
class Build:
    """What is built, of which the input is free.

    Attributes:
        objective: with its options.
        tokenizer: as it was read.
        documents: the corpus' rules, with a format.
        output: how shards are written.
        num_shards: of the train split; None for the default.
        launch: where it would run.
    """

    objective: ObjectiveOptions
    tokenizer: TokenizerFile
    documents: DocumentOptions
    output: OutputOptions
    num_shards: int | None
    launch: Launch

    def dataset(self, folder: str) -> DatasetOptions:
        """The options of a data set in a folder."""
        return DatasetOptions(("-",), "-", folder, num_shards=self.num_shards)


def prepare_build(
    objective: ObjectiveOptions,
    tokenizer: str,
    input_format: str = "text",
    num_shards: int | None = None,
    run: RunOptions | None = None,
    output: OutputOptions | None = None,
) -> Build:
    """A build from the names that a user gives."""
    launch = prepare_launch(run or RunOptions(), (), (), "", Console(file=StringIO()))
    documents = objective.choose_documents(
        DocumentOptions(input_format=input_format)  # type: ignore[arg-type]
    )
    of_tokenizer = read_tokenizer(tokenizer, read_bytes)
    return Build(objective, of_tokenizer, documents, output or OutputOptions(), num_shards, launch)


def count_run(of: Build, inputs: Sequence[str], output: Path) -> Counted:
    """Build a data set in this process and count what is done."""
    with run_folder(str(output), None, resume=False) as folder:
        files = list_inputs(inputs, folder.path)
        job = assemble(of, files, str(output), folder)
        folder.begin(job.header, job.layout, job.range_bytes, files, ())
        counted = Counted(job, process_bytes=psutil.Process().memory_info().rss)
        pipeline = beam.Pipeline(runner=FnApiRunner())
        build_dataset(pipeline, job)
        names = {
            key: collection.unique_name
            for key, collection in pipeline.to_runner_api().components.pcollections.items()
        }
        with _counting(counted):
            result = pipeline.run()
        result.wait_until_finish()
    for key, number in _count_elements(result):
        if key in names:
            counted.elements[names[key]] = counted.elements.get(names[key], 0) + number
    counted.manifest = json.loads((output / MANIFEST).read_bytes())
    counted.counts = counted.manifest["counts"]
    return counted


def assemble(of: Build, files: Sequence[InputFile], output: str, folder: Any) -> Job:
    """The job of a build of some files, which need not exist."""
    return assemble_job(
        of.objective, of.tokenizer, of.documents, of.dataset(output), of.output, of.launch, files,
        folder,
    )  # fmt: skip


def _count_elements(result: Any) -> Iterator[tuple[str, int]]:
    """Each collection with the elements that Beam counted, once."""
    seen: dict[str, int] = {}
    for infos in result._monitoring_infos_by_stage.values():
        for info in infos:
            if info.urn == _ELEMENT_COUNT and "PCOLLECTION" in info.labels:
                number = monitoring_infos.extract_counter_value(info)
                name = info.labels["PCOLLECTION"]
                seen[name] = max(number, seen.get(name, 0))
    yield from seen.items()


@contextmanager
def _counting(counted: Counted) -> Iterator[None]:
    """Count calls, spills and sorts while the block runs."""

    def counting(name: str) -> Callable[..., Any]:
        call = getattr(LocalFileSystem, name)

        def count(*arguments: Any, **named: Any) -> Any:
            counted.calls[name] += 1
            return call(*arguments, **named)

        return count

    write, add_rows, add = spill.Spill.write, sort.RowSorter.add, spill.Buffer.add

    def count_write(self: spill.Spill) -> None:
        before = len(self.segments)
        write(self)
        counted.spilled += self.segments[before:]

    def count_rows(self: sort.RowSorter, rows: pa.RecordBatch) -> None:
        counted.sorted_bytes += rows.nbytes
        add_rows(self, rows)

    def count_add(self: spill.Buffer, batch: pa.RecordBatch, buckets: Any) -> None:
        if "document" in batch.schema.names and "key" not in batch.schema.names:
            counted.buffered_bytes += batch.nbytes
        add(self, batch, buckets)

    with ExitStack() as patches:
        for name in CALLS:
            patches.enter_context(patch.object(LocalFileSystem, name, counting(name)))
        patches.enter_context(patch.object(spill.Spill, "write", count_write))
        patches.enter_context(patch.object(spill.Buffer, "add", count_add))
        patches.enter_context(patch.object(sort.RowSorter, "add", count_rows))
        yield


def encoded_bytes(segment: Segment) -> int:
    """Bytes of a reference as it travels, with its key."""
    return 4 + len(registry.get_coder(Segment).encode(segment))
