"""Compiled encoding and decoding of tf.train.Example, a message of Protocol Buffers.

    Example  { Features features = 1; }
    Features { map<string, Feature> feature = 1; }
    Feature  { oneof { BytesList = 1; FloatList float_list = 2; Int64List int64_list = 3; } }
    FloatList, Int64List { repeated value = 1 [packed]; }

A field is a tag (its number times 8, plus 2 because it has a length), its length, and its bytes.

Source: https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/example/feature.proto
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.formats.varints import put_varint, take_varint, varint_size

FLOAT_LIST, INT64_LIST = 0x12, 0x1A
_FIRST, _SECOND = 0x0A, 0x12


@njit
def _list_size(packed: int) -> int:
    """Return the bytes of a list's one field; an empty list has none."""
    return 1 + varint_size(packed) + packed if packed else 0


@njit
def _entry_size(name: int, packed: int) -> int:
    """Return the bytes of an entry of the map, without its tag and length."""
    numbers = _list_size(packed)
    feature: int = 1 + varint_size(numbers) + numbers
    size: int = 1 + varint_size(name) + name + 1 + varint_size(feature) + feature
    return size


@njit
def example_sizes(name_sizes: np.ndarray, packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes of each example.

    Args:
        name_sizes: int64[features].
        packed: int64[features, rows], bytes of the numbers alone.

    Returns:
        examples: int64[rows].
        features: int64[rows], bytes of the Features message in each.
    """
    features = np.zeros(packed.shape[1], np.int64)
    examples = np.zeros(packed.shape[1], np.int64)
    for row in range(len(features)):
        for i in range(len(name_sizes)):
            entry = _entry_size(name_sizes[i], packed[i, row])
            features[row] += 1 + varint_size(entry) + entry
        examples[row] = 1 + varint_size(features[row]) + features[row]
    return examples, features


@njit
def put_example_heads(features: np.ndarray, out: np.ndarray, places: np.ndarray) -> None:
    """Write what precedes the first feature of each row, and move the places past it.

    Args:
        features: int64[rows], from `example_sizes`.
        out: uint8[bytes], changed.
        places: int64[rows] in out, changed.
    """
    for row in range(len(places)):
        out[places[row]] = _FIRST
        places[row] = put_varint(features[row], out, places[row] + 1)


@njit
def put_feature_heads(
    name: np.ndarray, kind: int, packed: np.ndarray, out: np.ndarray, places: np.ndarray
) -> None:
    """Write what precedes the numbers of a feature, and move the places past it.

    Args:
        name: uint8[bytes], UTF-8.
        kind: FLOAT_LIST or INT64_LIST.
        packed: int64[rows], bytes of the numbers alone.
        out: uint8[bytes], changed.
        places: int64[rows] in out, changed.
    """
    for row in range(len(places)):
        place, numbers = places[row], _list_size(packed[row])
        out[place] = _FIRST
        place = put_varint(_entry_size(len(name), packed[row]), out, place + 1)
        out[place] = _FIRST
        place = put_varint(len(name), out, place + 1)
        for i in range(len(name)):
            out[place + i] = name[i]
        place += len(name)
        out[place] = _SECOND
        place = put_varint(1 + varint_size(numbers) + numbers, out, place + 1)
        out[place] = kind
        place = put_varint(numbers, out, place + 1)
        if packed[row]:
            out[place] = _FIRST
            place = put_varint(packed[row], out, place + 1)
        places[row] = place


@njit
def _enter(data: np.ndarray, place: int, end: int, tag: int) -> tuple[int, int]:
    """Return start and end of a field's content; (-1, -1) unless the whole field is there."""
    if place < 0 or place >= end or data[place] != tag:
        return -1, -1
    size, begin = take_varint(data, place + 1, end)
    if begin < 0 or size < 0 or size > end - begin:
        return -1, -1
    return begin, begin + size


@njit
def _locate_numbers(
    data: np.ndarray, place: int, end: int, name: np.ndarray, kind: int
) -> tuple[int, int]:
    """Return start and end of a feature's numbers; (-1, -1) unless its entry stands at the place.

    Args:
        data: uint8[bytes].
        place: where the entry begins.
        end: where the last entry ends.
        name: uint8[bytes], that of the feature.
        kind: FLOAT_LIST or INT64_LIST.
    """
    entry, entry_end = _enter(data, place, end, _FIRST)
    begin, name_end = _enter(data, entry, entry_end, _FIRST)
    if begin < 0 or name_end - begin != len(name):
        return -1, -1
    for i in range(len(name)):
        if data[begin + i] != name[i]:
            return -1, -1
    feature, feature_end = _enter(data, name_end, entry_end, _SECOND)
    numbers, numbers_end = _enter(data, feature, feature_end, kind)
    if numbers < numbers_end:  # an empty list has no field
        numbers, numbers_end = _enter(data, numbers, numbers_end, _FIRST)
    # Each part ends with what holds it.
    return (numbers, numbers_end) if numbers_end == entry_end else (-1, -1)


@njit
def locate_features(
    data: np.ndarray,
    record_offsets: np.ndarray,
    names: np.ndarray,
    name_offsets: np.ndarray,
    kinds: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Locate the numbers of each feature of each record, which has them in the order of writing.

    Args:
        data: uint8[bytes], serialised examples.
        record_offsets: int64[records + 1] into data.
        names: uint8[bytes], the names of the features that each record must have.
        name_offsets: int64[features + 1] into names.
        kinds: uint8[features], FLOAT_LIST or INT64_LIST.

    Returns:
        starts: int64[records, features].
        ends: int64[records, features].
        record: the first faulty one; -1 if there is none.
        feature: the first one that it does not have in its place; their number if something
            follows the last one.
    """
    shape = (len(record_offsets) - 1, len(kinds))
    starts, ends = np.empty(shape, np.int64), np.empty(shape, np.int64)
    for record in range(shape[0]):
        place, end = _enter(data, record_offsets[record], record_offsets[record + 1], _FIRST)
        for i in range(len(kinds)):
            name = names[name_offsets[i] : name_offsets[i + 1]]
            starts[record, i], place = _locate_numbers(data, place, end, name, kinds[i])
            if place < 0:
                return starts, ends, record, i
            ends[record, i] = place
        if place != record_offsets[record + 1]:
            return starts, ends, record, len(kinds)
    return starts, ends, -1, 0


@njit
def unpack_numbers(
    data: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """Decode the packed int64 of each record.

    Args:
        data: uint8[bytes].
        starts: int64[records] in data.
        ends: int64[records] in data.

    Returns:
        values: int64[total].
        offsets: int64[records + 1].
        damaged: the first record with a number that has no end, or more than ten bytes; -1 if all
            is well.
    """
    # Each number takes at least one byte.
    values = np.empty((ends - starts).sum(), np.int64)
    offsets = np.zeros(len(starts) + 1, np.int64)
    total = 0
    for record in range(len(starts)):
        place = starts[record]
        while place < ends[record]:
            values[total], place = take_varint(data, place, ends[record])
            if place < 0:
                return values, offsets, record
            total += 1
        offsets[record + 1] = total
    return values[:total], offsets, -1
