"""Records of tf.train.Example, byte by byte, in the shapes that programs of others give them."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from corpusmill.formats.tfrecord import masked_checksum
from tests.tools.table_rows import for_rows
from tests.tools.token_folders import read_file, read_files

ROWS = [[7, 8, 9, 70000], [], [5], [6, 2]]
INTEGERS, FLOATS, BYTES = 0x1A, 0x12, 0x0A


def varint(number: int) -> bytes:
    digits = bytearray()
    number %= 2**64
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def field(tag: int, content: bytes) -> bytes:
    return bytes([tag]) + varint(len(content)) + content


def feature(name: str, content: bytes, kind: int = INTEGERS) -> bytes:
    return field(0x0A, field(0x0A, name.encode()) + field(0x12, field(kind, content)))


def integers(name: str, values: list[int]) -> bytes:
    packed = b"".join(map(varint, values))
    return feature(name, field(0x0A, packed) if values else b"")


def record(*features: bytes) -> bytes:
    return frame(field(0x0A, b"".join(features)))


def frame(data: bytes) -> bytes:
    length = len(data).to_bytes(8, "little")
    parts = (length, masked_checksum(length).to_bytes(4, "little"), data)
    return b"".join(parts) + masked_checksum(data).to_bytes(4, "little")


def records(*others: Callable[[list[int]], bytes], name: str = "input_ids") -> bytes:
    return b"".join(record(*(other(row) for other in others), integers(name, row)) for row in ROWS)


def test_features_have_any_order_and_others_are_passed_over(tmp_path: Path) -> None:
    others = (
        lambda _: feature("text", field(0x0A, b"a text"), BYTES),
        lambda row: integers("input_mask", [1] * len(row)),
        lambda row: feature("weights", field(0x0A, bytes(4 * len(row))), FLOATS),
        lambda _: feature("empty", b"", BYTES),
        lambda row: integers("labels", [-100] * len(row)),
    )
    content = records(*others)
    (tmp_path / "a.tfrecord").write_bytes(content)
    (tmp_path / "b.tfrecord.gz").write_bytes(gzip.compress(content))
    (tmp_path / "c.tfrecord-00000-of-00002").write_bytes(records(*others[::-1], name="tokens"))
    (tmp_path / "c.tfrecords").write_bytes(content)
    (tmp_path / "d.tfrecordings").write_bytes(content)
    files = read_files(tmp_path, "tfrecord")
    assert len(files) == 4
    for file in files.values():
        assert (file.rows, file.numbers, file.faults) == (ROWS, [0, 1, 2, 3], [])
        assert file.columns == {
            "attended": [[1] * len(row) for row in ROWS],
            "labels": [[-100] * len(row) for row in ROWS],
        }


CLEAN = records()
FIRST = len(record(integers("input_ids", ROWS[0])))
UNPACKED = record(feature("input_ids", b"\x08\x07\x08\x08"))
HUGE = (2**40).to_bytes(8, "little")
NO_EXAMPLE = "a record is no tf.train.Example with packed numbers"


@for_rows(
    ("content", "rows", "fault"),
    [
        (CLEAN[:-1], ROWS[:3], "it cannot be read after 3 rows (record 3 at byte 116: the file"),
        (CLEAN[: FIRST + 5], ROWS[:1], "record 1 at byte"),
        (CLEAN[:5], [], "ends within"),
        (CLEAN[:14] + b"\0" + CLEAN[15:], [], "the checksum of its data differs"),
        (b"\0" + CLEAN[1:], [], "the checksum of its length differs"),
        (HUGE + masked_checksum(HUGE).to_bytes(4, "little"), [], "claims"),
        (CLEAN + record(), [*ROWS, []], "1 rows lack input_ids"),
        (CLEAN + record(integers("labels", [])), [*ROWS, []], "1 rows lack input_ids"),
        (CLEAN + record(integers("input_ids", [])[:-1]), ROWS, NO_EXAMPLE),
        (CLEAN + frame(b"\x0a\x05abc"), ROWS, NO_EXAMPLE),
        (CLEAN + UNPACKED, ROWS, NO_EXAMPLE),
        (CLEAN + record(feature("input_ids", field(0x0A, b"\xff"))), ROWS, "without an end"),
        (frame(b"no example at all"), [], NO_EXAMPLE),
        (record(integers("numbers", [1])), [], "no lists of ids"),
        (record(feature("input_ids", field(0x0A, b"a"), BYTES)), [], "no lists of ids"),
        (gzip.compress(CLEAN)[:-9], ROWS[:3], "record 3 at byte"),
    ],
)
def test_damage_is_a_fault_and_records_before_it_are_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    rows: list[list[int]],
    fault: str,
) -> None:
    monkeypatch.setattr("corpusmill.formats.tfrecord.RECORD_BYTES", 1)
    (tmp_path / "a.tfrecord").write_bytes(content)
    file = read_file(tmp_path, "tfrecord")
    assert (file.rows, len(file.faults)) == (rows, 1)
    assert fault in file.faults[0]
    assert read_file(tmp_path, "tfrecord", every=2).rows == rows[::2]


def test_numbers_of_each_size_are_read_and_no_rows_at_all(tmp_path: Path) -> None:
    values = [0, 127, 128, 2**31, -1, 2**62]
    (tmp_path / "a.tfrecord").write_bytes(record(integers("ids", values)))
    assert read_file(tmp_path, "tfrecord").rows == [values]
    (tmp_path / "a.tfrecord").write_bytes(b"")
    file = read_file(tmp_path, "tfrecord")
    assert (file.rows, file.faults) == ([], [])


def test_what_the_library_writes_is_read(tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    rows = [[*range(i, 3 * i + 2)] for i in range(40)]
    options = tf.io.TFRecordOptions(compression_type="GZIP")
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord"), options) as writer:
        for row in rows:
            ids = tf.train.Feature(int64_list=tf.train.Int64List(value=row))
            text = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a"]))
            features = tf.train.Features(feature={"text": text, "input_ids": ids, "labels": ids})
            writer.write(tf.train.Example(features=features).SerializeToString())
    file = read_file(tmp_path, "tfrecord")
    assert (file.rows, file.columns, file.faults) == (rows, {"labels": rows}, [])
