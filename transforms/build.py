"""Build the examples of each shard, sort them, and write them to a file with a temporary name."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Self

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.shared import Shared

from corpusmill.arrays.columns import Role
from corpusmill.arrays.ragged import RowBuffer
from corpusmill.dataset.accounting import name_of_source
from corpusmill.dataset.file_checks import HashingWriter
from corpusmill.dataset.manifest_entries import Counts, add_all, weigh, weigh_segments
from corpusmill.dataset.shards import write_shard
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS
from corpusmill.layout.length_bins import cut_lengths
from corpusmill.layout.placement import SPLIT_NAMES, Layout
from corpusmill.layout.sorting import add_keys, cut_into_groups, keyed_schema
from corpusmill.limits import FileLimits
from corpusmill.objectives.objective import Objective, Repeat
from corpusmill.objectives.random_documents import Pool
from corpusmill.provenance.documents_table import DocumentsWriter
from corpusmill.provenance.spans_table import SpansWriter
from transforms.coders import NamedOutputs
from transforms.corpus.pool import map_pool
from transforms.elements import DOCUMENTS, SPANS, Segment, WrittenFile
from transforms.recovery import Journal, Output, Workplace
from transforms.reports import run_once
from transforms.shuffle.spill import RowSorter, load_segment
from transforms.storage.files import create_file, new_path, scratch_folder
from transforms.tally import COUNTS, SKETCHES, Count, Sketch, Tally


@dataclass(frozen=True)
class ProvenanceOptions:
    """How provenance is written.

    Attributes:
        layout: how the data set is spread over shards.
        temp_folder: folder of the files.
        bins: the number of length bins.
        keep_fields: names of the fields of documents that are kept.
    """

    layout: Layout
    temp_folder: str
    bins: int = 1
    keep_fields: Sequence[str] = ()


class ShardProvenance:
    """The provenance of a shard: the spans of its rows, a file for each bin, and its documents.

    Args:
        options: how it is written; None writes nothing.
        shard: number of the shard.
        limits: the thresholds of the files.
    """

    def __init__(self, options: ProvenanceOptions | None, shard: int, limits: FileLimits) -> None:
        self._options, self._shard, self._limits = options, shard, limits
        self._files, self._sinks = ExitStack(), list[tuple[int, int, str, HashingWriter]]()
        self._spans, self._documents = list[SpansWriter](), list[DocumentsWriter]()

    def __enter__(self) -> Self:
        if options := self._options:
            try:
                self._open_all(options)
            except BaseException:
                self._abandon()
                raise
        return self

    def _open_all(self, options: ProvenanceOptions) -> None:
        for number in range(options.bins):
            sink = self._open(options.temp_folder, SPANS, number)
            self._spans.append(SpansWriter(sink, self._limits.group_lines))
        sink = self._open(options.temp_folder, DOCUMENTS, 0)
        self._documents.append(DocumentsWriter(sink, self._limits, options.keep_fields))

    def _abandon(self) -> None:
        """Close the files, in which writers would otherwise write when they are deleted."""
        for writer in self._writers:
            writer.abandon()
        self._files.close()

    @property
    def _writers(self) -> Sequence[SpansWriter | DocumentsWriter]:
        return [*self._spans, *self._documents]

    def _open(self, folder: str, part: int, number: int) -> HashingWriter:
        path = new_path(folder, f"provenance-{self._shard}", ".parquet")
        sink = HashingWriter(self._files.enter_context(create_file(path)))
        self._sinks.append((part, number, path, sink))
        return sink

    def add_documents(self, documents: pa.RecordBatch) -> None:
        """Add documents whose home the shard is, with their facts, in the order of the corpus."""
        for writer in self._documents:
            writer.add(documents)

    def add_rows(self, number: int, rows: pa.RecordBatch) -> None:
        """Add the next rows of a bin, with their identity and spans."""
        if self._spans:
            self._spans[number].add(rows)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            for writer in self._writers:
                writer.close()
        self._abandon()

    def written(self) -> Iterator[WrittenFile]:
        """Yield the files, once they are closed."""
        for part, number, path, sink in self._sinks:
            yield WrittenFile(self._shard, part, path, 0, 0, sink.bytes, sink.sha256, number)


SHARDS = "shards"


@dataclass(frozen=True)
class ShardOptions:
    """How shards are built.

    Attributes:
        objective: the objective that builds the examples.
        output: how shards are written, with nothing left to the format.
        layout: how the data set is spread over shards.
        documents_schema: schema of the segments
            (`corpusmill.tokenization.encoding.tokenized_schema`).
        place: where the run works.
        sources: names of the sources, in the order of the layout's; empty where there is but one.
        provenance: options for recording where rows come from, or None to record nothing.
    """

    objective: Objective
    output: OutputOptions
    layout: Layout
    documents_schema: pa.Schema
    place: Workplace
    sources: tuple[str, ...] = ()
    provenance: ProvenanceOptions | None = None


class ShardDoFn(beam.DoFn):
    """Build, sort and write one shard."""

    def __init__(self, options: ShardOptions) -> None:
        self._options, self._shared = options, Shared()
        self._objective, self._layout = options.objective, options.layout
        self._limits = options.place.limits.files

    def setup(self) -> None:
        """Open the journal, and make the buffer that all shards use."""
        self._journal = Journal(self._options.place)
        columns = self._objective.built_columns
        # Objectives that combine rows combine their spans with them.
        if not (self._options.provenance or self._objective.combines_rows):
            columns = tuple(column for column in columns if column.role is not Role.SPANS)
        reserved = self._options.place.limits.stages.reserved_bytes
        self._rows = RowBuffer(keyed_schema(columns), reserved)

    def process(
        self, element: tuple[int, Iterable[Segment]], pool_path: str = ""
    ) -> Iterator[WrittenFile]:
        """Build a shard of (shard, segments), unless the journal says that it is finished."""
        shard, segments = element
        work = partial(self._make, shard, segments, pool_path)
        outputs = run_once(self._journal, f"shard-{shard}", work)
        for tag, value in outputs:
            yield TaggedOutput(tag, value) if tag else value

    def _make(self, shard: int, segments: Iterable[Segment], pool_path: str) -> Iterator[Output]:
        # What is left of one shard in the heap would keep the next from fitting into its place.
        pa.default_memory_pool().release_unused()
        self._tally, self._passed, given = Tally(), 0, list(segments)
        pool = (
            self._shared.acquire(lambda: map_pool(pool_path), tag=pool_path) if pool_path else None
        )
        scratch_of_shard = scratch_folder(self._options.place.temp_folder)
        provenance = ShardProvenance(self._options.provenance, shard, self._limits)
        with scratch_of_shard as scratch, provenance:
            examples = self._build(shard, given, pool, provenance)
            if not self._layout.firsts:
                rows = RowSorter(self._rows, scratch, self._options.place.limits.stages)
                planned = self._count_planned(shard, given)
                for batch in examples:
                    rows.add(batch, self._passed / planned)
                pa.default_memory_pool().release_unused()
                shard_format = FORMATS[self._options.output.output_format]
                examples = rows.drain(shard_format.with_limits(self._limits).group_rows)
            yield from (("", file) for file in self._write(shard, examples, provenance))
        yield from (("", file) for file in provenance.written())
        yield from self._tally.outputs()

    def _build(
        self,
        shard: int,
        segments: Iterable[Segment],
        pool: Pool | None,
        provenance: ShardProvenance,
    ) -> Iterator[pa.RecordBatch]:
        seed, repeats = self._layout.seed, self._objective.repeats
        for home, every in self._load(segments):
            copies = self._layout.count_copies(every.column("document").to_numpy())
            if home == shard:
                provenance.add_documents(_choose(every, copies > 0))
            for repeat in self._layout.repeats_of(shard, home, repeats):
                self._passed += every.num_rows
                documents = _choose(every, copies > repeat // repeats)
                splits = np.full(documents.num_rows, self._layout.split_of(shard), np.uint8)
                draws = Repeat(repeat, pool, splits, seed, self._limits)
                examples = self._objective.build(documents, draws)
                self._count_passes(shard, documents.num_rows)
                self._tally.add("build.examples", examples.num_rows)
                for name, number in self._objective.count(documents, examples).items():
                    self._tally.add(f"build.{name}", number)
                yield add_keys(examples.select(self._rows.schema.names[1:]), seed)

    def _count_planned(self, shard: int, segments: Iterable[Segment]) -> int:
        """Return how many passes over documents make the shard."""
        layout, repeats = self._layout, self._objective.repeats
        return sum(
            segment.rows * len(layout.repeats_of(shard, segment.bucket, repeats))
            for segment in segments
        )

    def _load(self, segments: Iterable[Segment]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield (home, its documents), in the order of the corpus."""
        load, limits = partial(load_segment, schema=self._options.documents_schema), self._limits
        # A call takes about two milliseconds beside its examples. A batch depends on the documents
        # of its home alone, and so does a group of rows of provenance, which is made of batches.
        size = (limits.built_documents, limits.built_tokens)
        ordered = sorted(segments, key=attrgetter("bucket", "place"))
        for home, own in groupby(ordered, attrgetter("bucket")):
            loaded = (load(segment) for segment in own if segment.rows)
            batches = cut_into_groups(loaded, "sentences", *size)
            yield from ((home, documents) for documents in batches)

    def _count_passes(self, shard: int, documents: int) -> None:
        self._tally.add("build.passes", documents)
        source = self._layout.source_of(shard)
        if source is not None:
            name = self._options.sources[source]
            self._tally.add(name_of_source(name, "build.passes"), documents)

    def _write(
        self, shard: int, examples: Iterator[pa.RecordBatch], provenance: ShardProvenance
    ) -> Iterator[WrittenFile]:
        output = self._options.output
        bins = cut_lengths(self._objective.columns, output.bin_size) or (None,)
        suffixes = FORMATS[output.output_format].suffixes(output)
        folder = self._options.place.temp_folder
        names = [new_path(folder, f"shard-{shard}-{number}") for number in range(len(bins))]
        rows, tokens, distributions = [0] * len(bins), [0] * len(bins), dict[str, Counts]()
        with ExitStack() as files:
            sinks = [
                [HashingWriter(files.enter_context(create_file(name + end))) for end in suffixes]
                for name in names
            ]
            written = write_shard(self._objective, output, sinks, examples, self._limits)
            for group in written:
                provenance.add_rows(group.bin, group.rows)
                self._tally.add("write.rows", group.rows.num_rows)
                self._tally.add_distinct("write.distinct_rows", group.hashes)
                rows[group.bin] += group.rows.num_rows
                tokens[group.bin] += weigh(group.distributions["length"])
                add_all(distributions, group.distributions)
        self._count(shard, distributions)
        for number, name in enumerate(names):
            for part, (suffix, sink) in enumerate(zip(suffixes, sinks[number], strict=True)):
                content = (0, 0) if part else (rows[number], tokens[number])
                path = name + suffix
                yield WrittenFile(shard, part, path, *content, sink.bytes, sink.sha256, number)

    def _count(self, shard: int, distributions: Mapping[str, Counts]) -> None:
        split = SPLIT_NAMES[self._layout.split_of(shard)]
        for name, counts in distributions.items():
            for value in np.flatnonzero(counts).tolist():
                self._tally.add(f"write.{split}.{name}.{value}", int(counts[value]))
        if "pieces" in distributions:
            self._tally.add("write.pieces", weigh(distributions["pieces"]))
        if tokens := weigh_segments(distributions):
            self._tally.add("write.segment_tokens", tokens)


def _choose(documents: pa.RecordBatch, are_taken: np.ndarray) -> pa.RecordBatch:
    """Return some of the documents, most often all of them."""
    return documents if are_taken.all() else documents.filter(pa.array(are_taken))


class BuildShards(beam.PTransform):
    """Build, sort and write each shard.

    Returns the collections SHARDS, COUNTS and SKETCHES. The counts hold the distributions of the
    rows, as ("write.<split>.<name>.<value>", number).

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
        tags: dict[str, object] = {COUNTS: Count, SKETCHES: Sketch}
        build = beam.ParDo(ShardDoFn(self._options), *paths).with_output_types(WrittenFile, **tags)
        return shards | "BuildShard" >> build.with_outputs(*tags, main=SHARDS)

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
