"""TFRecord shards: a tf.train.Example for each row, for the trainers of TensorFlow; without it.

A record is the length of the data (u64), a checksum of these eight bytes, the data, and a checksum
of the data; all of it little-endian. A checksum is a CRC-32C, rotated and moved by a constant. With
gzip the whole file is one stream, which holds no time.

Source: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
"""

import gzip
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import google_crc32c
import numpy as np
import pyarrow as pa

from corpusmill.arrays.columns import Column
from corpusmill.arrays.flat_rows import chunk_rows, restore
from corpusmill.dataset.checksums import HashingWriter
from corpusmill.dataset.manifest import columns_of, output_options_of, shard_glob
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.tfrecord import kernels
from corpusmill.formats.tfrecord.features import Feature, check_features, features_of, shape_of
from corpusmill.formats.varints import gather, put_rows, row_sizes

_LENGTH_BYTES, _CHECKSUM_BYTES = 8, 4
_HEAD_BYTES = _LENGTH_BYTES + _CHECKSUM_BYTES
_MASK_DELTA = 0xA282EAD8
_READ_BYTES = 2**20

_FAULTS = {
    kernels.UNKNOWN: "it has a feature {name!r}, which is none of the data set's",
    kernels.TWICE: "it has the feature {name!r} twice",
    kernels.WRONG_KIND: "its feature {name!r} is of another kind",
    kernels.MALFORMED: "it is no tf.train.Example",
}


def masked_checksum(data: bytes) -> int:
    """The CRC-32C of some bytes, as TFRecord stores it."""
    plain: int = google_crc32c.value(data)
    return ((plain >> 15 | plain << 17) + _MASK_DELTA) & 0xFFFFFFFF


class _GzipSink:
    """Compresses what is written as one gzip stream without a time or a name."""

    def __init__(self, stream: BinaryIO | HashingWriter, level: int) -> None:
        self._stream = stream
        self._compressor = zlib.compressobj(level, zlib.DEFLATED, zlib.MAX_WBITS | 16)

    def write(self, data: bytes) -> None:
        self._stream.write(self._compressor.compress(data))

    def close(self) -> None:
        self._stream.write(self._compressor.flush())


class TFRecordShardWriter:
    """Writes one shard as a stream.

    Args:
        stream: where the bytes go; it is only written to, never read or sought.
        columns: the objective's table.
        options: with nothing left to the format.
    """

    def __init__(
        self, stream: BinaryIO | HashingWriter, columns: tuple[Column, ...], options: OutputOptions
    ) -> None:
        self._features = features_of(columns)
        self._names = [np.frombuffer(of.name.encode(), np.uint8) for of in self._features]
        self._chunk_rows = chunk_rows(columns)
        self._gzip = None
        if options.compression == "gzip":
            self._gzip = _GzipSink(stream, options.compression_level or 6)
        self._sink = self._gzip or stream

    def write(self, group: pa.RecordBatch) -> None:
        """Write a record for each row."""
        numbers = [_encodable(*feature.flatten(group)) for feature in self._features]
        for start in range(0, group.num_rows, self._chunk_rows):
            end = min(start + self._chunk_rows, group.num_rows)
            self._write_chunk([(of, offsets[start : end + 1]) for of, offsets in numbers])

    def close(self) -> None:
        """Write the end of the compressed stream; the stream below stays open."""
        if self._gzip:
            self._gzip.close()

    def _write_chunk(self, numbers: list[tuple[np.ndarray, np.ndarray]]) -> None:
        weights = [feature.kind == "weights" for feature in self._features]
        packed = np.stack(
            [
                np.diff(offsets) if raw else row_sizes(values, offsets, False)
                for raw, (values, offsets) in zip(weights, numbers, strict=True)
            ]
        )
        name_sizes = np.array([len(name) for name in self._names])
        sizes, feature_sizes = kernels.example_sizes(name_sizes, packed)
        ends = np.cumsum(sizes + _HEAD_BYTES + _CHECKSUM_BYTES)
        starts = ends - sizes - _CHECKSUM_BYTES
        out = np.empty(ends[-1], np.uint8)
        places = starts.copy()
        kernels.put_example_heads(feature_sizes, out, places)
        for i, (values, offsets) in enumerate(numbers):
            kind = kernels.FLOAT_LIST if weights[i] else kernels.INT64_LIST
            kernels.put_feature_heads(self._names[i], kind, packed[i], out, places)
            if weights[i]:
                kernels.put_bytes(values, offsets, out, places)
            else:
                put_rows(values, offsets, packed[i], False, out, places)
        _put_frames(out, starts, sizes)
        self._sink.write(out.tobytes())


def _encodable(values: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Floats as the bytes that they are written as."""
    if values.dtype != np.float32:
        return values, offsets
    return values.astype("<f4").view(np.uint8), offsets * values.itemsize


def _put_frames(out: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> None:
    """Write lengths and checksums around the data that are in `out` already."""
    lengths = sizes.astype("<u8").tobytes()
    data = out.tobytes()
    ends = starts + sizes
    # One call a checksum takes half a microsecond; the bytes between are no part of any.
    of_lengths = [
        google_crc32c.value(lengths[at : at + _LENGTH_BYTES])
        for at in range(0, len(lengths), _LENGTH_BYTES)
    ]
    of_data = [
        google_crc32c.value(data[start:end])
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    _put_fields(out, starts - _HEAD_BYTES, np.frombuffer(lengths, np.uint8))
    _put_fields(out, starts - _CHECKSUM_BYTES, _mask(of_lengths))
    _put_fields(out, ends, _mask(of_data))


def _mask(checksums: list[int]) -> np.ndarray:
    """The bytes of masked checksums, uint8[4 * checksums]; see `masked_checksum`."""
    plain = np.array(checksums, np.uint32)
    rotated = plain >> np.uint32(15) | plain << np.uint32(17)
    return (rotated + np.uint32(_MASK_DELTA)).astype("<u4").view(np.uint8)


def _put_fields(out: np.ndarray, places: np.ndarray, fields: np.ndarray) -> None:
    """Write fields of one size, each to a place of its own."""
    size = len(fields) // len(places)
    out[places[:, None] + np.arange(size)] = fields.reshape(-1, size)


class _Records(NamedTuple):
    """Some records, one behind the other.

    Attributes:
        data: uint8[bytes], not writable.
        offsets: int64[records + 1] into data.
        first: number of the first record in its file.
    """

    data: np.ndarray
    offsets: np.ndarray
    first: int


def _read_records(stream: io.BufferedReader, most: int) -> Iterator[_Records]:
    """All records of a file, at most so many at a time, with their checksums checked."""
    first, at = 0, 0
    while True:
        records: list[bytes] = []
        while len(records) < most and (head := stream.read(_HEAD_BYTES)):
            name = f"record {first + len(records)} at byte {at}"
            records.append(_read_record(stream, head, name))
            at += _HEAD_BYTES + len(records[-1]) + _CHECKSUM_BYTES
        if not records:
            return
        offsets = np.zeros(len(records) + 1, np.int64)
        np.cumsum([len(record) for record in records], out=offsets[1:])
        yield _Records(np.frombuffer(b"".join(records), np.uint8), offsets, first)
        first += len(records)


def _read_record(stream: io.BufferedReader, head: bytes, name: str) -> bytes:
    length, checksum = head[:_LENGTH_BYTES], head[_LENGTH_BYTES:]
    if len(head) == _HEAD_BYTES and masked_checksum(length) != int.from_bytes(checksum, "little"):
        raise ValueError(f"{name}: the checksum of its length differs")
    size = int.from_bytes(length, "little")
    data, checksum = stream.read(size), stream.read(_CHECKSUM_BYTES)
    if len(head) < _HEAD_BYTES or len(data) < size or len(checksum) < _CHECKSUM_BYTES:
        raise ValueError(f"{name}: the file ends in it")
    if masked_checksum(data) != int.from_bytes(checksum, "little"):
        raise ValueError(f"{name}: the checksum of its data differs")
    return data


class _Parser:
    """Serialised examples to rows."""

    def __init__(self, columns: tuple[Column, ...], padded: bool) -> None:
        self._columns, self._padded = columns, padded
        self._features = features_of(columns)
        names = [feature.name.encode() for feature in self._features]
        self._names = np.frombuffer(b"".join(names), np.uint8)
        self._name_offsets = np.cumsum([0, *(len(name) for name in names)])
        self._kinds = np.array(
            [
                kernels.FLOAT_LIST if of.kind == "weights" else kernels.INT64_LIST
                for of in self._features
            ],
            np.uint8,
        )

    def parse(self, records: _Records) -> pa.RecordBatch:
        """The rows of some records.

        Raises:
            ValueError: a record is no example, or has not the columns' features.
        """
        starts, ends, record, fault, begin, end = kernels.locate_features(
            records.data, records.offsets, self._names, self._name_offsets, self._kinds
        )
        if fault == kernels.MISSING:
            missing = self._features[begin].name
            raise ValueError(f"record {records.first + record}: it lacks the feature {missing!r}")
        if fault != kernels.FINE:
            name = records.data[begin:end].tobytes().decode(errors="replace")
            raise ValueError(f"record {records.first + record}: {_FAULTS[fault].format(name=name)}")
        found = {
            feature.name: self._unpack(feature, records, starts[:, i], ends[:, i])
            for i, feature in enumerate(self._features)
        }
        of_columns = {
            of.column.name: found[of.name] for of in self._features if of.kind == "values"
        }
        rows = [of_columns[column.name] for column in self._columns]
        batch = restore(self._columns, rows, self._padded)
        for feature in self._features:
            if feature.kind != "values":
                _check_derived(feature, batch, *found[feature.name])
        return batch

    def _unpack(
        self, feature: Feature, records: _Records, starts: np.ndarray, ends: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        if feature.kind == "weights":
            data, offsets = gather(records.data, starts, ends)
            if (offsets % 4).any():
                raise ValueError(f"{feature.name} holds half a number")
            return data.view("<f4"), offsets // 4
        values, offsets, damaged = kernels.unpack_numbers(records.data, starts, ends)
        if damaged >= 0:
            raise ValueError(f"record {records.first + damaged}: {feature.name} holds no numbers")
        return values, offsets


def _check_derived(
    feature: Feature, batch: pa.RecordBatch, values: np.ndarray, offsets: np.ndarray
) -> None:
    expected, expected_offsets = feature.flatten(batch)
    if not (np.array_equal(offsets, expected_offsets) and np.array_equal(values, expected)):
        raise ValueError(f"{feature.name} does not fit {feature.column.name}")


def suffixes(options: OutputOptions) -> tuple[str, ...]:
    """One file a shard."""
    return (".tfrecord.gz",) if options.compression == "gzip" else (".tfrecord",)


def open_writer(
    streams: Sequence[BinaryIO | HashingWriter],
    columns: tuple[Column, ...],
    options: OutputOptions,
) -> TFRecordShardWriter:
    """See `corpusmill.formats.shard_formats.ShardFormat`."""
    return TFRecordShardWriter(streams[0], columns, options)


def read_shard(
    streams: Sequence[BinaryIO],
    columns: tuple[Column, ...],
    options: OutputOptions,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """See `corpusmill.formats.shard_formats.ShardFormat`."""
    source: BinaryIO | gzip.GzipFile = streams[0]
    if options.compression == "gzip":
        source = gzip.GzipFile(fileobj=source, mode="rb")
    parser = _Parser(columns, options.is_padded)
    most = min(batch_rows, chunk_rows(columns))
    try:
        for records in _read_records(io.BufferedReader(source, _READ_BYTES), most):  # type: ignore[arg-type]
            yield parser.parse(records)
    except (EOFError, zlib.error) as error:
        raise ValueError(f"its compressed stream is damaged: {error}") from None


def check(columns: tuple[Column, ...], _options: OutputOptions) -> None:
    """See `corpusmill.formats.shard_formats.ShardFormat`."""
    check_features(columns)


def load_tfrecord(manifest: Mapping[str, Any]) -> Iterator[str]:
    """By tf.data."""
    options, split = output_options_of(manifest), next(iter(manifest["splits"]))
    compression = "GZIP" if options.compression == "gzip" else ""
    yield from ("```python", "from pathlib import Path", "", "import tensorflow as tf", "")
    yield "features = {"
    for feature in features_of(columns_of(manifest)):
        dtype, width = shape_of(feature, options.is_padded)
        shape = f"FixedLenFeature([{width}], tf.{dtype})" if width else f"RaggedFeature(tf.{dtype})"
        yield f'    "{feature.name}": tf.io.{shape},'
    yield "}"
    yield f'files = sorted(str(path) for path in Path(".").glob("{shard_glob(manifest, split)}"))'
    yield f'records = tf.data.TFRecordDataset(files, compression_type="{compression}")'
    yield "examples = records.map(lambda record: tf.io.parse_single_example(record, features))"
    yield from ("```", "")
