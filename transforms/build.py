"""Build the examples of each shard, sort them, and write them to a file with a temporary name."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from uuid import uuid4

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.shared import Shared

from corpusmill.dataset.checksums import HashingWriter
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.parquet import ROW_GROUP_ROWS
from corpusmill.formats.shard_format import ShardWriter
from corpusmill.formats.shard_formats import FORMATS
from corpusmill.layout.length_bins import cut_lengths, split_into_bins
from corpusmill.layout.placement import SPLIT_NAMES, Layout
from corpusmill.layout.sorting import add_keys, keyed_schema
from corpusmill.objectives.objective import Objective
from corpusmill.objectives.random_documents import Pool
from transforms.elements import NamedOutputs, Segment, WrittenFile
from transforms.pool import map_pool
from transforms.recovery.journal import Journal, Output
from transforms.sort import RowSorter
from transforms.spill import load_segment
from transforms.storage.files import create_file, scratch_folder
from transforms.tally import COUNTS, Count, Tally
from transforms.work_log import run_once

SHARDS = "shards"

# Size of the rows that are sorted in memory; a shard of the default size fits.
SORT_BYTES = 256 * 2**20


@dataclass(frozen=True)
class ShardOptions:
    """How shards are built.

    Attributes:
        objective: the objective that builds the examples.
        output: how shards are written, with nothing left to the format.
        layout: how the data set is spread over shards.
        documents_schema: schema of the segments
            (`corpusmill.tokenization.encoding.tokenized_schema`).
        temp_folder: folder of the files until the commit; every worker must reach it.
    """

    objective: Objective
    output: OutputOptions
    layout: Layout
    documents_schema: pa.Schema
    temp_folder: str


@dataclass
class _OpenShard:
    """The files of a shard, or of one of its length bins, while they are written."""

    paths: list[str]
    sinks: list[HashingWriter]
    writer: ShardWriter
    rows: int = 0
    tokens: int = 0


class _BuildShard(beam.DoFn):
    """Build, sort and write one shard."""

    def __init__(self, options: ShardOptions) -> None:
        self._options, self._shared = options, Shared()
        self._objective, self._layout = options.objective, options.layout

    def setup(self) -> None:
        self._built = Tally("build", live=("passes", "examples"))
        self._written = Tally("write", live=("rows",))
        self._tallies = (self._built, self._written)
        self._journal = Journal(self._options.temp_folder)

    def process(
        self, element: tuple[int, Iterable[Segment]], pool_path: str = ""
    ) -> Iterator[WrittenFile]:
        shard, segments = element
        outputs = run_once(
            self._journal,
            f"shard-{shard}",
            lambda: self._make(shard, segments, pool_path),
            self._tallies,
        )
        for tag, value in outputs:
            yield TaggedOutput(tag, value) if tag else value

    def _make(self, shard: int, segments: Iterable[Segment], pool_path: str) -> Iterator[Output]:
        for tally in self._tallies:
            tally.start()
        pool = (
            self._shared.acquire(lambda: map_pool(pool_path), tag=pool_path) if pool_path else None
        )
        with scratch_folder(self._options.temp_folder) as scratch:
            rows = RowSorter(keyed_schema(self._objective.built_columns), scratch, SORT_BYTES)
            for segment in segments:
                if segment.rows:
                    for examples in self._build(shard, segment, pool):
                        rows.add(examples)
            packed = self._objective.pack(rows.drain(ROW_GROUP_ROWS))
            yield from (("", file) for file in self._write(shard, packed))
        for tally in self._tallies:
            yield from ((COUNTS, count) for count in tally.drain())

    def _build(self, shard: int, segment: Segment, pool: Pool | None) -> Iterator[pa.RecordBatch]:
        documents, seed = load_segment(segment, self._options.documents_schema), self._layout.seed
        splits = np.full(documents.num_rows, self._layout.split_of(shard), np.uint8)
        for repeat in self._layout.repeats_of(shard, segment.bucket, self._objective.repeats):
            examples = self._objective.build(documents, repeat, pool, splits, seed)
            self._built.add("passes", documents.num_rows)
            self._built.add("examples", examples.num_rows)
            for name, number in self._objective.count(examples).items():
                self._built.add(name, number)
            yield add_keys(examples, seed)

    def _write(self, shard: int, batches: Iterable[pa.RecordBatch]) -> Iterator[WrittenFile]:
        split, output = SPLIT_NAMES[self._layout.split_of(shard)], self._options.output
        bins = cut_lengths(self._objective.columns, output.bin_size)
        with ExitStack() as files:
            shards = [self._open(shard, number, files) for number in range(len(bins) or 1)]
            for number, group in split_into_bins(batches, bins, ROW_GROUP_ROWS):
                file = shards[number]
                file.tokens += self._measure(group, split)
                file.rows += group.num_rows
                self._written.add("rows", group.num_rows)
                file.writer.write(self._objective.finish(group, output.is_padded))
            for file in shards:
                file.writer.close()
        for number, file in enumerate(shards):
            for part, (path, sink) in enumerate(zip(file.paths, file.sinks, strict=True)):
                content = (0, 0) if part else (file.rows, file.tokens)
                yield WrittenFile(shard, part, path, *content, sink.bytes, sink.sha256, number)

    def _open(self, shard: int, length_bin: int, files: ExitStack) -> _OpenShard:
        output, folder = self._options.output, self._options.temp_folder
        shard_format = FORMATS[output.output_format]
        name = FileSystems.join(folder, f"shard-{shard}-{length_bin}-{uuid4().hex}")
        paths = [name + suffix for suffix in shard_format.suffixes(output)]
        sinks = [HashingWriter(files.enter_context(create_file(path))) for path in paths]
        writer = shard_format.open_writer(sinks, self._objective.columns, output)
        return _OpenShard(paths, sinks, writer)

    def _measure(self, group: pa.RecordBatch, split: str) -> int:
        """Count the distributions of some rows, and return their tokens."""
        distributions = self._objective.measure(group)
        for name, counts in distributions.items():
            for value in np.flatnonzero(counts).tolist():
                self._written.add(f"{split}.{name}.{value}", int(counts[value]))
        if "pieces" in distributions:
            pieces = distributions["pieces"]
            self._written.add("pieces", int(pieces @ np.arange(len(pieces))))
        lengths = distributions["length"]
        return int(lengths @ np.arange(len(lengths)))


class BuildShards(beam.PTransform):
    """Build, sort and write each shard.

    Returns the collections SHARDS and COUNTS. The counts hold the distributions of the rows, as
    ("write.<split>.<name>.<value>", number).

    Args:
        options: how shards are built.
        pool: a collection of one path, the pool of random documents; None without a pool.
    """

    def __init__(self, options: ShardOptions, pool: beam.PCollection[str] | None) -> None:
        super().__init__()
        self._options, self._pool = options, pool

    def expand(self, shards: beam.PCollection[tuple[int, Iterable[Segment]]]) -> NamedOutputs:
        """Apply one DoFn to each shard; the pool's path is its side input."""
        paths = [] if self._pool is None else [beam.pvalue.AsSingleton(self._pool)]
        build = beam.ParDo(_BuildShard(self._options), *paths).with_output_types(
            WrittenFile, **{COUNTS: Count}
        )
        return shards | "BuildShard" >> build.with_outputs(COUNTS, main=SHARDS)

    def display_data(self) -> dict[str, str | int | float | bool]:
        """Show what is built; the seed as text, as Beam shows no integer above 2**63."""
        output = self._options.output
        return {
            "objective": self._options.objective.name,
            "seed": str(self._options.layout.seed),
            "output_format": output.output_format,
            "compression": output.compression or "",
            "padded": output.is_padded,
        }
