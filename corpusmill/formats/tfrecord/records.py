"""The records of a TFRecord file, with their checksums.

A record is the length of the data (u64), a checksum of these eight bytes, the data, and a checksum
of the data; all of it little-endian. A checksum is a CRC-32C, rotated and shifted by a constant.

Source: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
"""

import io
from collections.abc import Iterator
from typing import NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt

_LENGTH_BYTES, _CHECKSUM_BYTES = 8, 4
HEAD_BYTES, TAIL_BYTES = _LENGTH_BYTES + _CHECKSUM_BYTES, _CHECKSUM_BYTES

# About as many bytes of records are read at a time.
_BATCH_BYTES = 2**22

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


def read_records(source: io.BufferedReader, max_records: int, max_bytes: int) -> Iterator[Records]:
    """Read all records of a file, a few megabytes at a time.

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
        while len(records) < max_records and place - begin < _BATCH_BYTES:
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
