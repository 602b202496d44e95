"""TFRecord compared with Protocol Buffers' own library, and with Beam's reader of records."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.kernels.shard_formats import define_example
from corpusmill.arrays.columns import Column
from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, resolve
from corpusmill.formats.tfrecord import features_of, masked_checksum, shape_of
from corpusmill.objectives.columns import SENTENCE_ORDER_LABEL
from tests.tools.shard_samples import (
    BERT,
    ODD,
    Row,
    assert_read_as_written,
    bert_batch,
    odd_rows,
    options_of,
    pad_row,
    read_shard,
    to_batch,
    write_shard,
)
from transforms.testing import local_pipeline

both_layouts = pytest.mark.parametrize("padded", [False, True], ids=["ragged", "padded"])
both_codecs = pytest.mark.parametrize("compression", ["none", "gzip"])


# By protobuf's own library.
Example = define_example()


def to_example(row: Row, columns: tuple[Column, ...], real: Row) -> Any:
    """The example of a row, as Google's programs make it; `real` is the row without padding."""
    example = Example()
    names = {"token_type_ids": "segment_ids", "next_sentence_label": "next_sentence_labels"}
    for column in columns:
        value = row[column.name]
        values = value if isinstance(value, list) else [value]
        feature = example.features.feature[names.get(column.name, column.name)]
        # An empty list has the type int64, too.
        feature.int64list.SetInParent()
        feature.int64list.value.extend(values)
        unpadded = real[column.name]
        ones = len(unpadded) if isinstance(unpadded, list) else 1
        mask = [1] * ones + [0] * (len(values) - ones)
        if column.name == "input_ids":
            example.features.feature["input_mask"].int64list.value.extend(mask)
        if column.name == "masked_lm_positions":
            example.features.feature["masked_lm_weights"].floatlist.value.extend(mask)
    return example


def unframe(content: bytes) -> list[bytes]:
    """The data of all records; their checksums are ignored."""
    records, place = [], 0
    while place < len(content):
        (length,) = struct.unpack_from("<Q", content, place)
        records.append(content[place + 12 : place + 12 + length])
        place += 12 + length + 4
    return records


def frame(record: bytes) -> bytes:
    """A record with its checksums."""
    length = struct.pack("<Q", len(record))
    checksums = [struct.pack("<I", masked_checksum(data)) for data in (length, record)]
    return length + checksums[0] + record + checksums[1]


def serialize(example: Any) -> bytes:
    return bytes(example.SerializeToString(deterministic=True))


# What is written


@both_layouts
def test_records_are_byte_for_byte_what_protobuf_serializes(padded: bool) -> None:
    written = write_shard([bert_batch(300, padded)], BERT, options_of("tfrecord", padded))
    records = unframe(written)
    rows, real = bert_batch(300, padded).to_pylist(), bert_batch(300, False).to_pylist()
    expected = [to_example(row, BERT, unpadded) for row, unpadded in zip(rows, real, strict=True)]
    assert [Example.FromString(record) for record in records] == expected
    assert records == [serialize(example) for example in expected]


@given(odd_rows(), st.booleans())
def test_any_number_is_written_as_protobuf_does(rows: list[Row], padded: bool) -> None:
    written = write_shard([to_batch(rows, ODD, padded)] if rows else [], ODD,
                          options_of("tfrecord", padded))  # fmt: skip
    laid_out = [pad_row(row, ODD) if padded else row for row in rows]
    assert unframe(written) == [serialize(to_example(row, ODD, row)) for row in laid_out]


def test_beam_reads_every_record(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    written = write_shard([bert_batch(50, True)], BERT, options_of("tfrecord", True))
    path.write_bytes(written)
    with local_pipeline() as pipeline:
        assert_that(pipeline | beam.io.ReadFromTFRecord(str(path)), equal_to(unframe(written)))


def test_checksums_are_castagnolis_masked() -> None:
    # RFC 3720, B.4: 32 bytes of zeros have the CRC-32C 0x8a9136aa.
    plain = 0x8A9136AA
    masked = ((plain >> 15 | plain << 17) + 0xA282EAD8) % 2**32
    assert masked_checksum(bytes(32)) == masked


@both_layouts
def test_gzip_holds_the_same_records_and_no_time(padded: bool) -> None:
    batch = bert_batch(300, padded)
    compressed = write_shard([batch], BERT, options_of("tfrecord", padded, "gzip"))
    assert gzip.decompress(compressed) == write_shard([batch], BERT, options_of("tfrecord", padded))
    assert compressed[3:8] == bytes(5)  # no name, no time


@both_codecs
def test_bytes_do_not_show_how_the_rows_arrived(compression: Any) -> None:
    options = options_of("tfrecord", False, compression)
    whole = bert_batch(3000, False)
    parts = [whole.slice(0, 1), whole.slice(1, 2046), whole.slice(2047)]
    assert write_shard(parts, BERT, options) == write_shard([whole], BERT, options)


# Names


def names_of(*columns: Column) -> list[str]:
    return [feature.name for feature in features_of(columns)]


def test_features_have_the_names_that_trainers_parse() -> None:
    bert = [
        "input_ids", "input_mask", "masked_lm_ids", "masked_lm_positions", "masked_lm_weights",
        "next_sentence_labels", "segment_ids",
    ]  # fmt: skip
    tokens, segments, next_sentence, *predictions = BERT
    assert names_of(tokens, segments, next_sentence, *predictions) == bert
    assert names_of(tokens, segments, SENTENCE_ORDER_LABEL, *predictions) == bert
    assert names_of(tokens, segments) == ["input_ids", "input_mask", "segment_ids"]
    positions = Column("position_ids", "int16", "", 12)
    assert names_of(tokens, positions) == ["input_ids", "input_mask", "position_ids"]


def test_the_shapes_are_those_of_google_s_parser() -> None:
    shapes = {feature.name: shape_of(feature, padded=True) for feature in features_of(BERT)}
    assert shapes["input_mask"] == ("int64", 12)
    assert shapes["masked_lm_weights"] == ("float32", 3)
    assert shapes["next_sentence_labels"] == ("int64", 1)
    assert shape_of(features_of(BERT)[0], padded=False) == ("int64", 0)


def test_rows_are_padded_by_default() -> None:
    assert resolve(OutputOptions("tfrecord"), BERT).is_padded
    assert FORMATS["tfrecord"].suffixes(options_of("tfrecord", True)) == (".tfrecord",)
    assert FORMATS["tfrecord"].suffixes(options_of("tfrecord", True, "gzip")) == (".tfrecord.gz",)


def test_columns_and_codecs_that_cannot_be_are_refused() -> None:
    for added, cause in (
        (SENTENCE_ORDER_LABEL, "two columns would have the name next_sentence_labels"),
        (Column("input_mask", "int8", "", 12), "two columns would have the name input_mask"),
        (Column("score", "float32", ""), "the column score has the type float32"),
    ):
        with pytest.raises(UserError, match=cause):
            resolve(OutputOptions("tfrecord"), (*BERT, added))
    codec: Any
    for codec in ("zstd", "snappy", "deflate"):
        with pytest.raises(UserError, match=f"{codec}.*none, gzip"):
            resolve(OutputOptions("tfrecord", compression=codec), BERT)


# What is read


@given(odd_rows(), st.booleans(), st.sampled_from(["none", "gzip"]))
def test_any_number_is_read_as_it_was_written(rows: list[Row], padded: bool, codec: Any) -> None:
    options = options_of("tfrecord", padded, codec)
    batch = to_batch(rows, ODD, padded)
    assert_read_as_written([batch], ODD, options)


@both_codecs
@given(data=st.data())
def test_a_changed_byte_is_found(compression: Any, data: st.DataObject) -> None:
    options = options_of("tfrecord", True, compression)
    written = bytearray(write_shard([bert_batch(3, True)], BERT, options))
    # Some of the ten bytes of gzip's header have no meaning.
    place = data.draw(st.integers(10 if compression == "gzip" else 0, len(written) - 1))
    written[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises((ValueError, OSError)):
        read_shard(bytes(written), BERT, options)


@both_codecs
@given(data=st.data())
def test_a_file_that_ends_early_is_found(compression: Any, data: st.DataObject) -> None:
    options = options_of("tfrecord", True, compression)
    written = write_shard([bert_batch(1, True)], BERT, options)
    end = data.draw(st.integers(1, len(written) - 1))
    with pytest.raises((ValueError, OSError)):
        read_shard(written[:end], BERT, options)


def test_damage_is_described_by_its_record() -> None:
    options = options_of("tfrecord", True)
    written = write_shard([bert_batch(2, True)], BERT, options)
    second = len(written) // 2
    places = {
        3: "record 0 at byte 0: the checksum of its length differs",
        40: "record 0 at byte 0: the checksum of its data differs",
    }
    for place, sentence in places.items():
        damaged = written[:place] + bytes([written[place] ^ 255]) + written[place + 1 :]
        with pytest.raises(ValueError, match=sentence):
            read_shard(damaged, BERT, options)
    with pytest.raises(ValueError, match=r"record 1 at byte .*: the file ends within it"):
        read_shard(written[: second + 40], BERT, options)


def put(feature: str, value: float) -> Callable[[Any], object]:
    kind = "floatlist" if isinstance(value, float) else "int64list"
    return lambda features: getattr(features[feature], kind).value.__setitem__(0, value)


# Changes by which an example no longer fits the data set.
CHANGES: list[tuple[Callable[[Any], object], str]] = [
    (lambda features: features["color"].int64list.value.append(1),
     "record 0: something else stands in the place of its feature 'input_ids'"),
    (lambda features: features["zest"].int64list.value.append(1),
     "record 0: something follows its features"),
    (lambda features: features.__delitem__("segment_ids"),
     "record 0: something else stands in the place of its feature 'segment_ids'"),
    (lambda features: features["segment_ids"].floatlist.value.append(1),
     "record 0: something else stands in the place of its feature 'segment_ids'"),
    (lambda features: features["segment_ids"].int64list.value.pop(),
     "token_type_ids has 11 numbers in a row instead of 12"),
    (put("segment_ids", 300), "token_type_ids holds 300, which does not fit int8"),
    (put("input_mask", 0), "input_mask does not fit input_ids"),
    (put("masked_lm_weights", 0.5), "masked_lm_weights does not fit masked_lm_positions"),
]  # fmt: skip


def test_another_example_is_described() -> None:
    row, real = (bert_batch(1, padded).to_pylist()[0] for padded in (True, False))
    for change, sentence in CHANGES:
        example = to_example(row, BERT, real)
        change(example.features.feature)
        with pytest.raises(ValueError, match=sentence):
            read_shard(frame(serialize(example)), BERT, options_of("tfrecord", True))


def test_a_feature_that_comes_twice_is_found() -> None:
    columns = (Column("a", "int8", ""),)
    entry = bytes([0x0A, 10, 0x0A, 1, ord("a"), 0x12, 5, 0x1A, 3, 0x0A, 1, 5])
    once, twice = bytes([0x0A, 12]) + entry, bytes([0x0A, 24]) + entry * 2
    options = options_of("tfrecord", False)
    assert read_shard(frame(once), columns, options).to_pylist() == [{"a": 5}]
    with pytest.raises(ValueError, match="record 0: something follows its features"):
        read_shard(frame(twice), columns, options)


@given(st.data())
def test_the_parser_never_reads_beyond_its_bytes(data: st.DataObject) -> None:
    options = options_of("tfrecord", True)
    record = bytearray(unframe(write_shard([bert_batch(1, True)], BERT, options))[0])
    for _ in range(data.draw(st.integers(1, 3))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(record)))
    try:
        table = read_shard(frame(bytes(record[:end])), BERT, options)
    except ValueError:
        return
    assert table.num_rows == 1
