"""TFRecord shards: a tf.train.Example per row, for TensorFlow's trainers, made without TensorFlow.

With gzip the whole file is one stream, which contains no time.
"""

import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays.columns import LONGEST_ROW
from corpusmill.arrays.flat_rows import check_numbers, chunk_rows, cut_chunks, restore
from corpusmill.errors import UserError
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.shard_format import Columns, ShardFormat, ShardWriter, Sink, Sinks, Sources
from corpusmill.formats.shard_names import shard_glob
from corpusmill.formats.tfrecord import kernels
from corpusmill.formats.tfrecord.features import Feature, features_of, shape_of
from corpusmill.formats.tfrecord.records import (
    HEAD_BYTES,
    TAIL_BYTES,
    Records,
    put_frames,
    read_records,
)
from corpusmill.formats.varints import gather, put_rows, row_sizes

_READ_BYTES = 2**20

_FAULTS = {
    kernels.MISSING: "it lacks the feature {name!r}",
    kernels.UNKNOWN: "it has a feature {name!r}, which the data set lacks",
    kernels.TWICE: "it has the feature {name!r} twice",
    kernels.WRONG_KIND: "its feature {name!r} has another type",
    kernels.MALFORMED: "it is not a tf.train.Example",
}


class TFRecordFormat(ShardFormat):
    """TFRecord for columns of integers."""

    name = "tfrecord"
    file_suffixes = (".tfrecord",)
    compressions = ("none", "gzip")
    # Google's trainers parse features of fixed length.
    padding = "max_length"
    free_names = True

    def suffixes(self, options: OutputOptions) -> tuple[str, ...]:
        """Return the suffix of the one file, which names the codec."""
        return (".tfrecord.gz",) if options.compression == "gzip" else self.file_suffixes

    def check(self, columns: Columns, options: OutputOptions) -> None:
        """Refuse columns that cannot be features.

        Raises:
            UserError: a column is not of integers, or two would have the same name.
        """
        check_numbers(columns, self.name)
        names = [feature.name for feature in features_of(columns)]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            cause = f"two columns would have the name {repeated[0]}"
            raise UserError("--output-format tfrecord", cause, "Choose parquet")

    def open_writer(self, sinks: Sinks, columns: Columns, options: OutputOptions) -> ShardWriter:
        """Open a writer of one record per row."""
        return _Writer(sinks[0], columns, options)

    def read(
        self,
        sources: Sources,
        columns: Columns,
        options: OutputOptions,
        batch_rows: int,
        longest: int = LONGEST_ROW,
    ) -> Iterator[pa.RecordBatch]:
        """Read the records, and check that all have the columns' features."""
        source: Any = sources[0]
        if options.compression == "gzip":
            source = gzip.GzipFile(fileobj=source, mode="rb")
        stream = io.BufferedReader(source, _READ_BYTES)
        try:
            most_bytes = sum(
                feature.most_bytes(longest, options.is_padded) for feature in features_of(columns)
            )
            for records in read_records(stream, min(batch_rows, chunk_rows(columns)), most_bytes):
                yield _parse(records, columns, options.is_padded)
        except (EOFError, zlib.error) as error:
            raise ValueError(f"its compressed stream is damaged: {error}") from None

    def explain_loading(
        self, columns: Columns, options: OutputOptions, split: str, files: Sequence[str]
    ) -> Iterator[str]:
        """Load by tf.data."""
        glob = shard_glob(options.shard_name, split, files)
        compression = "GZIP" if options.compression == "gzip" else ""
        yield from ("```python", "from pathlib import Path", "", "import tensorflow as tf", "")
        yield "features = {"
        for feature in features_of(columns):
            dtype, width = shape_of(feature, options.is_padded)
            kind = f"FixedLenFeature([{width}], tf" if width else "RaggedFeature(tf"
            yield f'    "{feature.name}": tf.io.{kind}.{dtype}),'
        yield "}"
        yield f'files = sorted(str(path) for path in Path(".").glob("{glob}"))'
        yield f'records = tf.data.TFRecordDataset(files, compression_type="{compression}")'
        yield "examples = records.map(lambda record: tf.io.parse_single_example(record, features))"
        yield from ("```", "")


class _Writer:
    def __init__(self, sink: Sink, columns: Columns, options: OutputOptions) -> None:
        self._sink, self._columns = sink, columns
        self._features = features_of(columns)
        self._gzip = None
        if options.compression == "gzip":
            level = options.compression_level or 6
            self._gzip = zlib.compressobj(level, zlib.DEFLATED, zlib.MAX_WBITS | 16)

    def write(self, rows: pa.RecordBatch) -> None:
        numbers = [feature.flatten(rows) for feature in self._features]
        for chunk in cut_chunks(numbers, chunk_rows(self._columns)):
            records = _encode(self._features, chunk)
            self._sink.write(self._gzip.compress(records) if self._gzip else records)

    def close(self) -> None:
        if self._gzip:
            self._sink.write(self._gzip.flush())


def _encode(features: Sequence[Feature], numbers: Sequence[tuple[np.ndarray, np.ndarray]]) -> bytes:
    """Return the records of rows, of which `numbers` holds each feature's values and offsets."""
    names = [np.frombuffer(feature.name.encode(), np.uint8) for feature in features]
    kinds = [feature.list_kind for feature in features]
    packed = np.stack(
        [
            np.diff(offsets) if kind == kernels.FLOAT_LIST else row_sizes(values, offsets, False)
            for kind, (values, offsets) in zip(kinds, numbers, strict=True)
        ]
    )
    sizes, feature_sizes = kernels.example_sizes(np.array([*map(len, names)]), packed)
    ends = np.cumsum(HEAD_BYTES + sizes + TAIL_BYTES)
    starts = ends - sizes - TAIL_BYTES
    out = np.empty(ends[-1], np.uint8)
    places = starts.copy()
    kernels.put_example_heads(feature_sizes, out, places)
    for i, (values, offsets) in enumerate(numbers):
        kernels.put_feature_heads(names[i], kinds[i], packed[i], out, places)
        # The bytes of floats, of which each has the size of one byte, are copied.
        put_rows(values, offsets, packed[i], False, out, places)
    put_frames(out, starts, sizes)
    return out.tobytes()


def _parse(records: Records, columns: Columns, padded: bool) -> pa.RecordBatch:
    """Parse records.

    Raises:
        ValueError: a record is not an example, or its features are not those of the columns.
    """
    features = features_of(columns)
    starts, ends = _locate_features(records, features)
    values_of_columns, derived = {}, []
    for i, feature in enumerate(features):
        numbers = _unpack(feature, records, starts[:, i], ends[:, i])
        if feature.kind == "values":
            values_of_columns[feature.column.name] = numbers
        else:
            derived.append((feature, numbers))
    batch = restore(columns, [values_of_columns[column.name] for column in columns], padded)
    for feature, (values, offsets) in derived:
        expected, expected_offsets = feature.flatten(batch)
        if not (np.array_equal(offsets, expected_offsets) and np.array_equal(values, expected)):
            raise ValueError(f"{feature.name} does not fit {feature.column.name}")
    return batch


def _locate_features(
    records: Records, features: Sequence[Feature]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where the numbers of each feature start and end, int64[records, features] each."""
    names = [feature.name.encode() for feature in features]
    starts, ends, record, fault, begin, end = kernels.locate_features(
        records.data,
        records.offsets,
        np.frombuffer(b"".join(names), np.uint8),
        np.cumsum([0, *map(len, names)]),
        np.array([feature.list_kind for feature in features], np.uint8),
    )
    if fault == kernels.FINE:
        return starts, ends
    if fault == kernels.MISSING:
        name = features[begin].name
    else:
        name = records.data[begin:end].tobytes().decode(errors="replace")
    raise ValueError(f"record {records.first + record}: {_FAULTS[fault].format(name=name)}")


def _unpack(
    feature: Feature, records: Records, starts: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    if feature.kind == "weights":
        data, offsets = gather(records.data, starts, ends)
        return data, offsets
    values, offsets, damaged = kernels.unpack_numbers(records.data, starts, ends)
    if damaged >= 0:
        raise ValueError(f"record {records.first + damaged}: {feature.name} holds no numbers")
    return values, offsets
