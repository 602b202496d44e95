"""The rows of each shard to one file under a temporary name."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from uuid import uuid4

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import TaggedOutput

from corpusmill.checksums import HashingWriter
from corpusmill.formats.parquet import ROW_GROUP_ROWS, SUFFIX, ParquetOptions, ParquetShardWriter
from corpusmill.objective import Objective
from corpusmill.placement import SPLIT_NAMES
from corpusmill.spill import Layout, cut_into_groups, sort_rows, transit_schema
from transforms.elements import NamedOutputs, Segment, WrittenShard
from transforms.read import create_file
from transforms.shuffle import load_segment
from transforms.tally import COUNTS, Count, Tally

SHARDS = "shards"


class _WriteShard(beam.DoFn):
    """All segments of a shard to one file, slice by slice."""

    def __init__(
        self, objective: Objective, options: ParquetOptions, layout: Layout, temp_folder: str
    ) -> None:
        self._objective, self._options, self._layout = objective, options, layout
        self._temp_folder = temp_folder

    def setup(self) -> None:
        self._schema = transit_schema(self._objective)
        self._tally = Tally("write", live=("rows",))

    def start_bundle(self) -> None:
        self._tally.start()

    def process(self, element: tuple[int, Iterable[Segment]]) -> Iterator[WrittenShard]:
        shard, segments = element
        split = SPLIT_NAMES[shard >= self._layout.train_shards]
        path = FileSystems.join(self._temp_folder, f"shard-{shard}-{uuid4().hex}{SUFFIX}")
        tokens = rows = 0
        with create_file(path) as stream:
            sink = HashingWriter(stream)
            writer = ParquetShardWriter(sink, self._objective.columns, self._options)
            for group in cut_into_groups(self._slices(segments), ROW_GROUP_ROWS):
                tokens += self._measure(group, split)
                rows += group.num_rows
                self._tally.add("rows", group.num_rows)
                writer.write(self._objective.finish(group, self._options.padded))
            writer.close()
        yield WrittenShard(shard, path, rows, tokens, sink.bytes, sink.sha256)

    def finish_bundle(self) -> Iterator[TaggedOutput]:
        yield from self._tally.finish()

    def _slices(self, segments: Iterable[Segment]) -> Iterator[pa.RecordBatch]:
        present = sorted((segment for segment in segments if segment.rows), key=attrgetter("slice"))
        for _, of_slice in groupby(present, key=attrgetter("slice")):
            yield sort_rows([load_segment(segment, self._schema) for segment in of_slice])

    def _measure(self, group: pa.RecordBatch, split: str) -> int:
        distributions = self._objective.measure(group)
        for name, counts in distributions.items():
            for value in np.flatnonzero(counts).tolist():
                self._tally.add(f"{split}.{name}.{value}", int(counts[value]))
        lengths = distributions["length"]
        return int(lengths @ np.arange(len(lengths)))


class WriteShards(beam.PTransform):
    """Sort and write each shard; gives a tuple of the collections SHARDS and COUNTS.

    The counts hold the distributions of the rows, as ("write.<split>.<name>.<value>", number).

    Args:
        objective: whose rows they are.
        options: the file format's.
        layout: how the examples are spread.
        temp_folder: where the files wait for the commit.
    """

    def __init__(
        self, objective: Objective, options: ParquetOptions, layout: Layout, temp_folder: str
    ) -> None:
        super().__init__()
        self._objective, self._options, self._layout = objective, options, layout
        self._temp_folder = temp_folder

    def expand(self, shards: beam.PCollection[tuple[int, Iterable[Segment]]]) -> NamedOutputs:
        """One DoFn behind the shuffle."""
        write = _WriteShard(self._objective, self._options, self._layout, self._temp_folder)
        typed = beam.ParDo(write).with_output_types(WrittenShard, **{COUNTS: Count})
        return shards | "WriteShard" >> typed.with_outputs(COUNTS, main=SHARDS)

    def display_data(self) -> dict[str, str | bool]:
        """The layout of the files."""
        return {"compression": self._options.compression, "padded": self._options.padded}
