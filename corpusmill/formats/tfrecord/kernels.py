"""The Protocol Buffers of tf.train.Example, compiled: what stands around the numbers, and back.

    Example  { Features features = 1; }
    Features { map<string, Feature> feature = 1; }
    Feature  { oneof { BytesList = 1; FloatList float_list = 2; Int64List int64_list = 3; } }
    FloatList, Int64List { repeated value = 1 [packed]; }

A field is a tag (number times 8, plus 2 for all that has a length), its length, and its bytes.

Source: https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/example/feature.proto
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.formats.varints import put_varint, take_varint, varint_size

FLOAT_LIST, INT64_LIST = 0x12, 0x1A
_FIRST, _SECOND = 0x0A, 0x12

# What `locate_features` finds wrong.
FINE, MALFORMED, UNKNOWN, TWICE, WRONG_KIND, MISSING = range(6)


@njit
def _list_size(packed: int) -> int:
    """A FloatList or Int64List; an empty one is nothing at all."""
    return 1 + varint_size(packed) + packed if packed else 0


@njit
def _entry_size(name: int, packed: int) -> int:
    """An entry of the map, without its tag and length."""
    numbers = _list_size(packed)
    feature: int = 1 + varint_size(numbers) + numbers
    size: int = 1 + varint_size(name) + name + 1 + varint_size(feature) + feature
    return size


@njit
def example_sizes(name_sizes: np.ndarray, packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bytes of each example.

    Args:
        name_sizes: int64[features].
        packed: int64[features, rows], bytes of the numbers alone.

    Returns:
        examples: int64[rows].
        features: int64[rows], of the one message in each.
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
    """Write what stands before the first feature of each row, and move the places behind it.

    Args:
        features: int64[rows], bytes of all of them.
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
    """Write what stands before the numbers of a feature, and move the places behind it.

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
def put_bytes(data: np.ndarray, offsets: np.ndarray, out: np.ndarray, places: np.ndarray) -> None:
    """Write the bytes of each row at a place of its own, and move the places behind them.

    Args:
        data: uint8[total].
        offsets: int64[rows + 1] into data.
        out: uint8[bytes], changed.
        places: int64[rows] in out, changed.
    """
    for row in range(len(places)):
        place, start = places[row], offsets[row]
        for i in range(offsets[row + 1] - start):
            out[place + i] = data[start + i]
        places[row] = place + offsets[row + 1] - start


@njit
def _enter(data: np.ndarray, place: int, end: int, tag: int) -> tuple[int, int]:
    """Begin and end of what a field holds; (-1, -1) where no such field is whole there."""
    if place < 0 or place >= end or data[place] != tag:
        return -1, -1
    size, begin = take_varint(data, place + 1, end)
    if begin < 0 or size < 0 or size > end - begin:
        return -1, -1
    return begin, begin + size


@njit
def _find_name(
    data: np.ndarray, begin: int, end: int, names: np.ndarray, name_offsets: np.ndarray
) -> int:
    """Which of the names stands there; -1 for none."""
    for i in range(len(name_offsets) - 1):
        start = name_offsets[i]
        if end - begin != name_offsets[i + 1] - start:
            continue
        same = True
        for k in range(end - begin):
            if data[begin + k] != names[start + k]:
                same = False
                break
        if same:
            return i
    return -1


@njit
def _locate_entry(data: np.ndarray, begin: int, end: int) -> tuple[int, int, int, int, int]:
    """Of an entry of the map: begin and end of its name, kind, begin and end of its numbers.

    The kind is -1 where the entry is malformed.
    """
    name, name_end = _enter(data, begin, end, _FIRST)
    feature, feature_end = _enter(data, name_end, end, _SECOND)
    if feature < 0 or feature_end != end or feature >= end:
        return 0, 0, -1, 0, 0
    kind = data[feature]
    numbers, numbers_end = _enter(data, feature, end, kind)
    if numbers < 0 or numbers_end != end:
        return 0, 0, -1, 0, 0
    if numbers == numbers_end:  # an empty list
        return name, name_end, kind, numbers, numbers_end
    packed, packed_end = _enter(data, numbers, end, _FIRST)
    if packed < 0 or packed_end != end:
        return 0, 0, -1, 0, 0
    return name, name_end, kind, packed, packed_end


@njit
def _locate_record(
    data: np.ndarray,
    place: int,
    end: int,
    names: np.ndarray,
    name_offsets: np.ndarray,
    kinds: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
) -> tuple[int, int, int]:
    """`locate_features` for one record, whose starts are all -1; gives the last three of it."""
    fault, name, name_end = FINE, 0, 0
    while place < end and fault == FINE:
        begin, place = _enter(data, place, end, _FIRST)
        name, name_end, kind, numbers, numbers_end = _locate_entry(data, begin, place)
        i = _find_name(data, name, name_end, names, name_offsets)
        if begin < 0 or kind < 0:
            fault = MALFORMED
        elif i < 0:
            fault = UNKNOWN
        elif starts[i] >= 0:
            fault = TWICE
        elif kind != kinds[i]:
            fault = WRONG_KIND
        else:
            starts[i], ends[i] = numbers, numbers_end
    if fault == FINE and starts.min() < 0:
        return MISSING, int(starts.argmin()), 0
    return fault, name, name_end


@njit
def locate_features(
    data: np.ndarray,
    record_offsets: np.ndarray,
    names: np.ndarray,
    name_offsets: np.ndarray,
    kinds: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, int, int, int, int]:
    """Where the numbers of each feature of each record stand.

    Args:
        data: uint8[bytes], serialised examples.
        record_offsets: int64[records + 1] into data.
        names: uint8[bytes], of the features that each record must have.
        name_offsets: int64[features + 1] into names.
        kinds: uint8[features], FLOAT_LIST or INT64_LIST.

    Returns:
        starts: int64[records, features].
        ends: int64[records, features].
        record: the first that is not as it must be; -1 where all are.
        fault: FINE, or what is wrong with it.
        begin: of the name in data that is unknown, twice, or of a wrong kind; the number of the
            feature that is missing.
        end: of that name.
    """
    shape = (len(record_offsets) - 1, len(kinds))
    starts, ends = np.full(shape, -1, np.int64), np.zeros(shape, np.int64)
    for record in range(shape[0]):
        end = record_offsets[record + 1]
        place, features_end = _enter(data, record_offsets[record], end, _FIRST)
        if place < 0 or features_end != end:
            return starts, ends, record, MALFORMED, 0, 0
        fault, name, name_end = _locate_record(
            data, place, end, names, name_offsets, kinds, starts[record], ends[record]
        )
        if fault != FINE:
            return starts, ends, record, fault, name, name_end
    return starts, ends, -1, FINE, 0, 0


@njit
def unpack_numbers(
    data: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """Packed int64 of each record.

    Args:
        data: uint8[bytes].
        starts: int64[records] in data.
        ends: int64[records] in data.

    Returns:
        values: int64[total].
        offsets: int64[records + 1].
        damaged: the first record whose last number has no end, or one has more than ten bytes; -1
            where all is well.
    """
    offsets = np.zeros(len(starts) + 1, np.int64)
    for record in range(len(starts)):
        count = 0
        for place in range(starts[record], ends[record]):
            count += data[place] < 128
        offsets[record + 1] = offsets[record] + count
    values = np.empty(offsets[-1], np.int64)
    for record in range(len(starts)):
        place = starts[record]
        for i in range(offsets[record], offsets[record + 1]):
            values[i], place = take_varint(data, place, ends[record])
            if place < 0:
                return values, offsets, record
        if place != ends[record]:
            return values, offsets, record
    return values, offsets, -1
