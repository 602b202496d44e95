"""TFRecord shards: a tf.train.Example per row, for TensorFlow's trainers, made without TensorFlow.

A record is the length of the data (u64), a checksum of these eight bytes, the data, and a checksum
of the data; all of it little-endian. A checksum is a CRC-32C, rotated and shifted by a constant.
With gzip the whole file is one stream, which contains no time. The features have the names that
Google's trainers parse.

Sources: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details;
`create_pretraining_data.py` and `run_pretraining.py` of google-research/bert and
google-research/albert; `build_pretraining_dataset.py` and `pretrain/pretrain_data.py` of
google-research/electra.
"""

import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays.columns import LONGEST_ROW, Column, Role, most_values
from corpusmill.arrays.ragged import (
    check_numbers,
    chunk_rows,
    cut_chunks,
    flatten,
    is_padded,
    restore,
    row_lengths,
)
from corpusmill.errors import UserError, option
from corpusmill.formats import tfrecord_kernels as kernels
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import (
    Columns,
    ShardFormat,
    ShardWriter,
    Sink,
    Sinks,
    Sources,
    explain_files,
)
from corpusmill.formats.tfrecord_kernels import FLOAT_LIST, INT64_LIST
from corpusmill.formats.varints import gather, put_rows, row_sizes
from corpusmill.knobs import knob

Kind = Literal["values", "mask", "weights"]

# The most bytes of a number, and of the tags and lengths around the numbers of a feature.
_NUMBER_BYTES, _FRAME_BYTES = 10, 64

# Features that are 1 for each value of a column and 0 for its padding.
_DERIVED: dict[Role, tuple[str, Kind]] = {
    Role.TOKEN_IDS: ("input_mask", "mask"),
    Role.POSITIONS: ("masked_lm_weights", "weights"),
}


@dataclass(frozen=True)
class Feature:
    """One feature of an example.

    Attributes:
        name: its key.
        column: the column from which it is made.
        kind: "values": the column's numbers; "mask": int64 ones and zeros; "weights": the same as
            floats.
    """

    name: str
    column: Column
    kind: Kind

    @property
    def list_kind(self) -> int:
        """FLOAT_LIST or INT64_LIST."""
        return FLOAT_LIST if self.kind == "weights" else INT64_LIST

    def most_bytes(self, longest: int, padded: bool) -> int:
        """Return the most bytes of the feature in a record.

        Args:
            longest: the most tokens of a row.
            padded: whether lists have a fixed size.
        """
        size = 4 if self.kind == "weights" else _NUMBER_BYTES
        return most_values(self.column, longest, padded) * size + len(self.name) + _FRAME_BYTES

    def flatten(self, batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of the feature.

        Args:
            batch: with the column.

        Returns:
            values: integers[total], or uint8[4 * total] for weights, the bytes of little-endian
                float32; read-only.
            offsets: int64[rows + 1] into values.

        Example:
            a mask of the padded rows [[5, 6, 0], [5, 0, 0]] is [1, 1, 0, 1, 0, 0].
        """
        array = batch.column(self.column.name)
        values, offsets = flatten(array)
        if self.kind == "values":
            return values, offsets
        if is_padded(array):
            lengths = row_lengths(array, self.column.pad)
            ones = (np.arange(self.column.width) < lengths[:, None]).ravel().astype(np.int8)
        else:
            offsets = offsets - offsets[0]
            ones = np.ones(offsets[-1], np.int8)
        if self.kind == "weights":
            ones, offsets = ones.astype("<f4").view(np.uint8), offsets * 4
        ones.flags.writeable = False
        return ones, offsets


def features_of(columns: Sequence[Column]) -> tuple[Feature, ...]:
    """Return the features of columns, sorted by name as deterministic serialisers write them.

    Example:
        input_ids and token_type_ids give input_ids, input_mask, segment_ids.
    """
    features = [Feature(column.feature or column.name, column, "values") for column in columns]
    derived = [(column, *_DERIVED[column.role]) for column in columns if column.role in _DERIVED]
    features += [Feature(name, column, kind) for column, name, kind in derived]
    return tuple(sorted(features, key=lambda feature: feature.name.encode()))


def shape_of(feature: Feature, padded: bool) -> tuple[str, int]:
    """Return the feature's dtype and width as tf.data declares them; width 0 means any length."""
    dtype = "float32" if feature.kind == "weights" else "int64"
    if not feature.column.width:
        return dtype, 1
    return dtype, feature.column.width if padded else 0


_LENGTH_BYTES, _CHECKSUM_BYTES = 8, 4
HEAD_BYTES, TAIL_BYTES = _LENGTH_BYTES + _CHECKSUM_BYTES, _CHECKSUM_BYTES

_MASK_DELTA = 0xA282EAD8


class Records(NamedTuple):
    """The data of consecutive records.

    Attributes:
        data: uint8[bytes], read-only.
        offsets: int64[records + 1] into data.
        first: number of the first record in its file.
    """

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    first: int


def masked_checksum(data: bytes) -> int:
    """Return the CRC-32C of some bytes, as TFRecord stores it."""
    plain: int = google_crc32c.value(data)
    return ((plain >> 15 | plain << 17) + _MASK_DELTA) & 0xFFFFFFFF


def put_frames(
    out: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> None:
    """Write lengths and checksums around data.

    Args:
        out: uint8[bytes] with the data, HEAD_BYTES before and TAIL_BYTES after each; changed.
        starts: int64[records] of the data in out.
        sizes: int64[records] of the data.
    """
    lengths = sizes.astype("<u8").tobytes()
    data = out.tobytes()
    ends = starts + sizes
    # A call takes half a microsecond. The bytes between the data belong to no checksum.
    length_checksums = [
        google_crc32c.value(lengths[start : start + _LENGTH_BYTES])
        for start in range(0, len(lengths), _LENGTH_BYTES)
    ]
    data_checksums = [
        google_crc32c.value(data[start:end])
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    _put_fields(out, starts - HEAD_BYTES, np.frombuffer(lengths, np.uint8))
    for places, checksums in ((starts - _CHECKSUM_BYTES, length_checksums), (ends, data_checksums)):
        plain = np.array(checksums, np.uint32)
        masked = (plain >> 15 | plain << 17) + np.uint32(_MASK_DELTA)
        _put_fields(out, places, masked.astype("<u4").view(np.uint8))


def _put_fields(
    out: npt.NDArray[np.uint8], places: npt.NDArray[np.int64], fields: npt.NDArray[np.uint8]
) -> None:
    """Write fields of equal size, each to its own place."""
    size = len(fields) // len(places)
    out[places[:, None] + np.arange(size)] = fields.reshape(-1, size)


RECORD_BYTES = knob("record_bytes", 2**22, test=100)
"""How much of a file of records is parsed at once."""


def read_records(source: io.BufferedReader, max_records: int, max_bytes: int) -> Iterator[Records]:
    """Read all records of a file, some of them at a time.

    Args:
        source: the file.
        max_records: the most records at a time.
        max_bytes: the most bytes of a record.

    Raises:
        ValueError: a checksum differs, a record is too large, or the file ends within one.
    """
    first = place = 0
    while True:
        records: list[bytes] = []
        begin = place
        while len(records) < max_records and place - begin < RECORD_BYTES:
            if not (head := source.read(HEAD_BYTES)):
                break
            name = f"record {first + len(records)} at byte {place}"
            records.append(_read_record(source, head, name, max_bytes))
            place += HEAD_BYTES + len(records[-1]) + TAIL_BYTES
        if not records:
            return
        offsets = np.cumsum([0, *map(len, records)], dtype=np.int64)
        yield Records(np.frombuffer(b"".join(records), np.uint8), offsets, first)
        first += len(records)


def _read_record(source: io.BufferedReader, head: bytes, name: str, max_bytes: int) -> bytes:
    length, checksum = head[:_LENGTH_BYTES], head[_LENGTH_BYTES:]
    if len(head) == HEAD_BYTES and masked_checksum(length) != int.from_bytes(checksum, "little"):
        raise ValueError(f"{name}: the checksum of its length differs")
    size = int.from_bytes(length, "little")
    if size > max_bytes:
        raise ValueError(f"{name}: it claims {size:,} bytes, above the {max_bytes:,} of a row")
    data, checksum = source.read(size), source.read(_CHECKSUM_BYTES)
    if len(head) < HEAD_BYTES or len(data) < size or len(checksum) < _CHECKSUM_BYTES:
        raise ValueError(f"{name}: the file ends within it")
    if masked_checksum(data) != int.from_bytes(checksum, "little"):
        raise ValueError(f"{name}: the checksum of its data differs")
    return data


_READ_BYTES = 2**20


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
            raise UserError(option("output_format", "tfrecord"), cause, "Choose parquet")

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
            most = min(batch_rows, chunk_rows(columns))
            for records in read_records(stream, most, most_bytes):
                yield _parse(records, columns, options.is_padded)
        except (EOFError, zlib.error) as error:
            raise ValueError(f"its compressed stream is damaged: {error}") from None

    def explain_loading(
        self, columns: Columns, options: OutputOptions, split: str, files: Sequence[str]
    ) -> Iterator[str]:
        """Load by tf.data."""
        compression = "GZIP" if options.compression == "gzip" else ""
        yield from ("```python", "import json", "from pathlib import Path", "")
        yield from ("import tensorflow as tf", "")
        yield "features = {"
        for feature in features_of(columns):
            dtype, width = shape_of(feature, options.is_padded)
            kind = f"FixedLenFeature([{width}], tf" if width else "RaggedFeature(tf"
            yield f'    "{feature.name}": tf.io.{kind}.{dtype}),'
        yield "}"
        yield from explain_files(split)
        yield f'records = tf.data.TFRecordDataset(files, compression_type="{compression}")'
        yield "examples = records.map(lambda record: tf.io.parse_single_example(record, features))"
        yield from ("```", "")


class _Writer:
    def __init__(self, sink: Sink, columns: Columns, options: OutputOptions) -> None:
        self._sink, self._chunk_rows = sink, chunk_rows(columns)
        self._features = features_of(columns)
        self._gzip = None
        if options.compression == "gzip":
            level = options.compression_level or 6
            self._gzip = zlib.compressobj(level, zlib.DEFLATED, zlib.MAX_WBITS | 16)

    def write(self, rows: pa.RecordBatch) -> None:
        numbers = [feature.flatten(rows) for feature in self._features]
        for chunk in cut_chunks(numbers, self._chunk_rows):
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
    starts, ends, record, feature = kernels.locate_features(
        records.data,
        records.offsets,
        np.frombuffer(b"".join(names), np.uint8),
        np.cumsum([0, *map(len, names)]),
        np.array([feature.list_kind for feature in features], np.uint8),
    )
    if record < 0:
        return starts, ends
    cause = "something follows its features"
    if feature < len(features):
        cause = f"something else stands in the place of its feature {features[feature].name!r}"
    raise ValueError(f"record {records.first + record}: {cause}")


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
