"""Build the examples of each shard, sort them, and write them to their files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.shared import Shared

from corpusmill.arrays.columns import Role
from corpusmill.arrays.ragged import RowBuffer
from corpusmill.corpus.groups import Grouping
from corpusmill.dataset.accounting import name_of_source
from corpusmill.dataset.file_checks import HashingWriter
from corpusmill.dataset.manifest_entries import Counts, add_all, weigh, weigh_segments
from corpusmill.dataset.shards import write_shard
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS
from corpusmill.knobs import knob
from corpusmill.layout.groups import count_groups, cut_documents, drawn_ids, order_records
from corpusmill.layout.placement import SPLIT_NAMES, Layout
from corpusmill.layout.sorting import add_keys, cut_into_groups, keyed_schema
from corpusmill.objectives.objective import Objective, Repeat
from corpusmill.objectives.random_documents import Pool
from corpusmill.provenance.documents_table import DocumentsWriter
from corpusmill.provenance.spans_table import SpansWriter
from transforms.coders import NamedOutputs
from transforms.corpus.pool import map_pool
from transforms.elements import DOCUMENTS, SPANS, Segment, WrittenFile
from transforms.recovery import Journal, Output, Workplace
from transforms.reports import run_once
from transforms.shard_files import FileNames
from transforms.shuffle.spill import RowSorter, load_segment, put_in_order
from transforms.storage.files import create_file, create_once, new_path, scratch_folder
from transforms.tally import COUNTS, SKETCHES, Count, Sketch, Tally

SHARDS = "shards"

RESERVED_BYTES = knob("reserved_bytes", 2**28, test=1000)
"""The memory that a column of a shard's rows reserves before it grows by doubling."""


@dataclass(frozen=True)
class ShardOptions:
    """How shards are built.

    Attributes:
        objective: the objective that builds the examples.
        output: how shards are written, with nothing left to the format.
        layout: how the data set is spread over shards.
        names: how the files of shards are named.
        documents_schema: schema of the segments
            (`corpusmill.tokenization.encoding.tokenized_schema`).
        place: where the run works.
        keep_fields: names of the fields of documents that provenance keeps; None records nothing
            of where rows come from.
        grouping: how records are joined to documents; None if each is a document.
    """

    objective: Objective
    output: OutputOptions
    layout: Layout
    names: FileNames
    documents_schema: pa.Schema
    place: Workplace
    keep_fields: Sequence[str] | None = None
    grouping: Grouping | None = None


class ShardProvenance:
    """The provenance of a shard: the spans of its rows, and its documents.

    Args:
        options: how the shard is built; nothing is written without fields to keep.
        shard: number of the shard.

    Attributes:
        sinks: (part, path, what it was written to) of each file.
    """

    def __init__(self, options: ShardOptions, shard: int) -> None:
        self._options, self._shard = options, shard
        self.sinks = list[tuple[int, str, HashingWriter]]()
        self._writers: dict[int, SpansWriter | DocumentsWriter] = {}

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Write the tables in a block; one that fails leaves nothing."""
        fields = self._options.keep_fields
        with ExitStack() as files:
            if fields is not None:
                self._writers[SPANS] = SpansWriter(self._open(SPANS, files))
                self._writers[DOCUMENTS] = DocumentsWriter(self._open(DOCUMENTS, files), fields)
            for writer in self._writers.values():  # which would write when they are deleted
                files.callback(writer.abandon)
            yield
            for writer in self._writers.values():
                writer.close()

    def _open(self, part: int, files: ExitStack) -> HashingWriter:
        place = self._options.place
        path = place.final_path(self._options.names.name(self._shard, part))
        sink = HashingWriter(files.enter_context(create_once(path, place.scratch)))
        self.sinks.append((part, path, sink))
        return sink

    def add(self, part: int, rows: pa.RecordBatch) -> None:
        """Add to a table.

        Args:
            part: SPANS or DOCUMENTS.
            rows: the next rows of the shard, with their identity and spans; or documents whose home
                the shard is, with their facts, in the order of the corpus.
        """
        if part in self._writers:
            self._writers[part].add(rows)


BUILT_DOCUMENTS = knob("built_documents", 2**14)
"""The documents whose examples are built by one call, which takes about two milliseconds more."""
BUILT_TOKENS = knob("built_tokens", 2**20)
"""A batch of long documents ends early, at this many tokens."""
ORDERED_BYTES = knob("ordered_bytes", 64 * 2**20, test=3000)
"""The records that are put in order in memory, where they are joined to documents."""
PASSES_BYTES = knob("passes_bytes", 2**16, test=1000)
"""Several passes over few documents are made by one call, of this size together."""


class ShardDoFn(beam.DoFn):
    """Build, sort and write one shard."""

    def __init__(self, options: ShardOptions) -> None:
        self._options, self._shared = options, Shared()
        self._objective, self._layout = options.objective, options.layout

    def setup(self) -> None:
        """Open the journal, and make the buffer that all shards use."""
        self._journal = Journal(self._options.place)
        columns = self._objective.built_columns
        # Objectives that combine rows combine their spans with them.
        if self._options.keep_fields is None and not self._objective.combines_rows:
            columns = tuple(column for column in columns if column.role is not Role.SPANS)
        self._rows = RowBuffer(keyed_schema(columns), RESERVED_BYTES)

    def process(
        self, element: tuple[int, Iterable[Segment]], pool_path: str = ""
    ) -> Iterator[WrittenFile]:
        """Build a shard of (shard, segments), unless the journal says that it is finished."""
        shard, segments = element
        work = partial(self._make, shard, segments, pool_path)
        for tag, value in run_once(self._journal, f"shard-{shard}", work):
            yield TaggedOutput(tag, value) if tag else value

    def finish_bundle(self) -> None:
        """Wait until the files of the bundle's shards are on the disk."""
        self._journal.sync()

    def _make(self, shard: int, segments: Iterable[Segment], pool_path: str) -> Iterator[Output]:
        # What is left of one shard in the heap would keep the next from fitting into its place.
        pa.default_memory_pool().release_unused()
        self._tally, self._passed, segments = Tally(), 0, list(segments)
        pool = None
        if pool_path:
            pool = self._shared.acquire(lambda: map_pool(pool_path), tag=pool_path)
        place, provenance = self._options.place, ShardProvenance(self._options, shard)
        with scratch_folder(place.temp_folder) as self._scratch, provenance.opened():
            examples = self._build(shard, segments, pool, provenance)
            if not self._layout.firsts:
                rows = RowSorter(self._rows, self._scratch, place.sizes.sort_bytes)
                # How many passes over documents make the shard.
                planned = sum(
                    segment.rows * len(self._repeats_of(shard, segment.bucket))
                    for segment in segments
                )
                for batch in examples:
                    rows.add(batch, self._passed / planned)
                pa.default_memory_pool().release_unused()
                shard_format = FORMATS[self._options.output.output_format]
                examples = rows.drain(shard_format.group_rows)
            yield from (("", file) for file in self._write(shard, examples, provenance))
        for part, path, sink in provenance.sinks:
            yield "", WrittenFile(shard, part, path, 0, 0, sink.bytes, sink.sha256)
        yield from self._tally.outputs()

    def _build(
        self,
        shard: int,
        segments: Iterable[Segment],
        pool: Pool | None,
        provenance: ShardProvenance,
    ) -> Iterator[pa.RecordBatch]:
        seed, repeats = self._layout.seed, self._objective.repeats
        source = self._options.names.source_of(shard)
        for home, every in self._load(shard, segments, provenance):
            copies = self._layout.count_copies(drawn_ids(every))
            for name, number in count_groups(every).items() if home == shard else ():
                self._tally.add(name, number)
            numbers, takes_passes = self._repeats_of(shard, home), self._objective.takes_passes
            at_once = max(1, PASSES_BYTES // every.nbytes) if takes_passes else 1
            for first in range(0, len(numbers), at_once):
                some = numbers[first : first + at_once]
                passes = every if len(some) == 1 else pa.concat_batches([every] * len(some))
                numbered = np.repeat(np.array(some, np.uint16), every.num_rows)
                are_taken = np.tile(copies, len(some)) > numbered // repeats
                documents = _choose(passes, are_taken)
                self._passed += passes.num_rows
                splits = np.full(documents.num_rows, self._layout.split_of(shard), np.uint8)
                repeat = numbered[are_taken] if takes_passes else some[0]
                draws = Repeat(repeat, pool, splits, seed)
                examples = self._objective.build(documents, draws)
                self._tally.add("build.passes", documents.num_rows)
                if source:
                    self._tally.add(name_of_source(source, "build.passes"), documents.num_rows)
                self._tally.add("build.examples", examples.num_rows)
                for name, number in self._objective.count(documents, examples).items():
                    self._tally.add(f"build.{name}", number)
                yield add_keys(examples.select(self._rows.schema.names[1:]), seed)

    def _repeats_of(self, shard: int, home: int) -> Sequence[int]:
        return self._layout.repeats_of(shard, home, self._objective.repeats)

    def _load(
        self, shard: int, segments: Iterable[Segment], provenance: ShardProvenance
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield (home, its documents), in the order of the corpus, or group by group."""
        load = partial(load_segment, schema=self._options.documents_schema)
        # A batch depends on the documents of its home alone, and so does a group of rows of
        # provenance, which is made of batches.
        ordered = sorted(segments, key=attrgetter("bucket", "place"))
        grouping = self._options.grouping
        for home, own in groupby(ordered, attrgetter("bucket")):
            loaded = self._keep(
                map(load, filter(attrgetter("rows"), own)), provenance, home == shard
            )
            if grouping:
                by = partial(order_records, by=grouping.by, order=grouping.order)
                loaded = put_in_order(loaded, by, self._scratch, ORDERED_BYTES)
            batches = cut_into_groups(loaded, "sentences", BUILT_DOCUMENTS, BUILT_TOKENS)
            if grouping:
                batches = cut_documents(batches, grouping.by, grouping.most_tokens)
            yield from ((home, documents) for documents in batches)

    def _keep(
        self, batches: Iterable[pa.RecordBatch], provenance: ShardProvenance, are_home: bool
    ) -> Iterator[pa.RecordBatch]:
        """Pass documents on, and add those whose home the shard is to its provenance."""
        for documents in batches:
            if are_home:
                are_taken = self._layout.count_copies(drawn_ids(documents)) > 0
                provenance.add(DOCUMENTS, _choose(documents, are_taken))
            yield documents

    def _write(
        self, shard: int, examples: Iterator[pa.RecordBatch], provenance: ShardProvenance
    ) -> Iterator[WrittenFile]:
        output = self._options.output
        written_rows, written_tokens, distributions = 0, 0, dict[str, Counts]()
        with ExitStack() as files:
            opened = self._open_parts(shard, files)
            sinks = [sink for _, sink in opened]
            for group in write_shard(self._objective, output, sinks, examples):
                provenance.add(SPANS, group.rows)
                self._tally.add("write.rows", group.rows.num_rows)
                self._tally.add_distinct("write.distinct_rows", group.hashes)
                written_rows += group.rows.num_rows
                written_tokens += weigh(group.distributions["length"])
                add_all(distributions, group.distributions)
        self._count(shard, distributions)
        for part, (path, sink) in enumerate(opened):
            content = (0, 0) if part else (written_rows, written_tokens)
            yield WrittenFile(shard, part, path, *content, sink.bytes, sink.sha256)

    def _open_parts(self, shard: int, files: ExitStack) -> list[tuple[str, HashingWriter]]:
        """Create the files of a shard; return their paths and sinks.

        What is joined with the files of other shards is temporary, and all else has its name.
        """
        names, place, opened = self._options.names, self._options.place, []
        for part, suffix in enumerate(names.suffixes):
            if names.joined:
                path = new_path(place.temp_folder, f"shard-{shard}", suffix)
                file = files.enter_context(create_file(path))
            else:
                path = place.final_path(names.name(shard, part))
                file = files.enter_context(create_once(path, place.scratch))
            opened.append((path, HashingWriter(file)))
        return opened

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
