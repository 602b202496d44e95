"""Writers and readers of the shard formats beside plain Python ones.

    python -m benchmarks.kernels.shard_formats --length 512

The data are BERT examples of nearly full length with 20 predictions, not padded. The table shows
examples per second of processor time on one core, and bytes per example. The plain ways are Arrow's
writer with its dictionaries, and two that make a Python object of each example: protobuf's
deterministic serialization, framed as TFRecord with the same bytes, and fastavro's writer.
"""

import io
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, TypeVar

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from benchmarks.console import make_parser, print_table
from benchmarks.measure import time_call
from corpusmill.arrays import ragged
from corpusmill.arrays.columns import arrow_schema
from corpusmill.formats.avro import schema_of
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, resolve
from corpusmill.formats.tfrecord import features_of, masked_checksum
from corpusmill.objectives.bert import Bert, BertOptions
from corpusmill.tokenization.tokenizer_file import SpecialTokens

_VOCABULARY = 30522
_SPECIAL = SpecialTokens(cls_id=2, sep_id=3, mask_id=4, pad_id=0, unk_id=1, all_ids=(0, 1, 2, 3, 4))
_PLAIN_ROWS = 1000
_Result = TypeVar("_Result")


def make_examples(length: int, rows: int) -> tuple[Bert, pa.RecordBatch]:
    """Return ragged rows, on average nine tenths full, with ids as frequent as words."""
    bert = Bert(BertOptions(max_seq_length=length), _SPECIAL, _VOCABULARY, "int16")
    draw = np.random.default_rng(1)
    lengths = draw.integers(length * 8 // 10, length + 1, rows)
    predictions = np.full(rows, bert.options.most_predictions)
    sources: dict[str, tuple[np.ndarray, Callable[[int], np.ndarray]]] = {
        "input_ids": (lengths, lambda n: draw.zipf(1.2, n) % (_VOCABULARY - 5) + 5),
        "token_type_ids": (lengths, lambda n: draw.integers(0, 2, n)),
        "masked_lm_positions": (predictions, lambda n: draw.integers(1, length * 8 // 10, n)),
        "masked_lm_ids": (predictions, lambda n: draw.zipf(1.2, n) % (_VOCABULARY - 5) + 5),
    }
    columns: list[np.ndarray | pa.Array] = []
    for column in bert.columns:
        if not column.width:
            columns.append(draw.integers(0, 2, rows).astype(np.int8))
            continue
        own_lengths, make = sources[column.name]
        offsets = np.concatenate([[0], np.cumsum(own_lengths)])
        columns.append(ragged.to_arrow(make(offsets[-1]).astype(column.dtype), offsets))
    return bert, ragged.to_batch(columns, arrow_schema(bert.columns))


def define_example() -> Any:
    """Return the class tf.train.Example, made from its definition."""
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="b", syntax="proto3")
    feature = descriptor_pb2.DescriptorProto(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, kind) in enumerate((("BytesList", 12), ("FloatList", 2), ("Int64List", 3))):
        file.message_type.add(name=name).field.add(name="value", number=1, label=3, type=kind)
        field = feature.field.add(name=name.lower(), number=number + 1, oneof_index=0)
        field.label, field.type, field.type_name = 1, 11, f".b.{name}"
    file.message_type.append(feature)
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=1, type=9)
    entry.field.add(name="value", number=2, label=1, type=11, type_name=".b.Feature")
    features.field.add(
        name="feature", number=1, label=3, type=11, type_name=".b.Features.FeatureEntry"
    )
    file.message_type.add(name="Example").field.add(
        name="features", number=1, label=1, type=11, type_name=".b.Features"
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("b.Example"))


def write_by_protobuf(bert: Bert, batch: pa.RecordBatch) -> bytes:
    """Return a TFRecord file written by protobuf."""
    new_example, features, parts = define_example(), features_of(bert.columns), []
    numbers = [feature.flatten(batch) for feature in features]
    for row in range(batch.num_rows):
        example = new_example()
        for feature, (values, offsets) in zip(features, numbers, strict=True):
            message = example.features.feature[feature.name]
            own = values[offsets[row] : offsets[row + 1]]
            if feature.kind == "weights":
                message.floatlist.value.extend(own.view("<f4").tolist())
            else:
                message.int64list.value.extend(own.tolist())
        data = example.SerializeToString(deterministic=True)
        length = struct.pack("<Q", len(data))
        parts += [length, struct.pack("<I", masked_checksum(length)), data]
        parts.append(struct.pack("<I", masked_checksum(data)))
    return b"".join(parts)


def write_by_fastavro(bert: Bert, batch: pa.RecordBatch) -> bytes:
    """Return an uncompressed Avro file written by fastavro."""
    sink = io.BytesIO()
    fastavro.writer(sink, schema_of(bert.columns), batch.to_pylist(), sync_marker=bytes(16))
    return sink.getvalue()


def write_by_arrow(compression: str, batch: pa.RecordBatch) -> bytes:
    """Return a Parquet file written by Arrow, with dictionaries, too."""
    sink = io.BytesIO()
    with pq.ParquetWriter(
        sink,
        batch.schema,
        compression=compression,
        compression_level=1 if compression == "zstd" else None,
        write_statistics=False,
    ) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def write_shard(bert: Bert, batch: pa.RecordBatch, options: OutputOptions) -> bytes:
    """Return a shard."""
    sink = io.BytesIO()
    writer = FORMATS[options.output_format].open_writer([sink], bert.columns, options)
    writer.write(batch)
    writer.close()
    return sink.getvalue()


def read_shard(bert: Bert, content: bytes, options: OutputOptions) -> pa.Table:
    """Return the rows of a shard."""
    read = FORMATS[options.output_format].read
    return pa.Table.from_batches(read([io.BytesIO(content)], bert.columns, options, 8192))


def time_best(rounds: int, call: Callable[[], _Result]) -> tuple[_Result, float]:
    """Return a call's result, and the processor seconds of its fastest round."""
    timed = [time_call(call) for _ in range(rounds)]
    return timed[-1][0], min(seconds for _, seconds in timed)


def measure_formats(bert: Bert, batch: pa.RecordBatch, rounds: int) -> Iterator[list[str]]:
    """Yield a row of the table for each format and codec."""
    name: Literal["parquet", "tfrecord", "avro"]
    for name in ("parquet", "tfrecord", "avro"):
        for compression in FORMATS[name].compressions:
            options = resolve(OutputOptions(name, "do_not_pad", compression), bert.columns)
            content, write_seconds = time_best(rounds, partial(write_shard, bert, batch, options))
            table, read_seconds = time_best(rounds, partial(read_shard, bert, content, options))
            assert table.equals(pa.Table.from_batches([batch]))
            yield [
                f"{name}, {compression} {options.compression_level or ''}".strip(),
                f"{batch.num_rows / write_seconds:,.0f}",
                f"{batch.num_rows / read_seconds:,.0f}",
                f"{len(content) / batch.num_rows:,.0f}",
            ]


def measure_arrow(batch: pa.RecordBatch, rounds: int) -> Iterator[list[str]]:
    """Yield a row of the table for Arrow's writer with each codec that it is compared with."""
    for compression in ("zstd", "none"):
        content, seconds = time_best(rounds, partial(write_by_arrow, compression, batch))
        rate, size = batch.num_rows / seconds, len(content) / batch.num_rows
        yield [f"Arrow's writer, {compression}", f"{rate:,.0f}", "", f"{size:,.0f}"]


def measure_plain(bert: Bert, batch: pa.RecordBatch) -> Iterator[list[str]]:
    """Yield a row of the table for each plain way; protobuf must write the shard's bytes."""
    options = resolve(OutputOptions("tfrecord", "do_not_pad", "none"), bert.columns)
    assert write_by_protobuf(bert, batch) == write_shard(bert, batch, options)
    for name, write in (("protobuf", write_by_protobuf), ("fastavro", write_by_fastavro)):
        content, seconds = time_best(2, partial(write, bert, batch))
        rate, size = batch.num_rows / seconds, len(content) / batch.num_rows
        yield [f"{name}, none", f"{rate:,.0f}", "", f"{size:,.0f}"]


def main() -> None:
    """Measure and print a table for each length."""
    parser = make_parser(__doc__, rows=8192, rounds=3)
    parser.add_argument("--length", type=int, nargs="+", default=[512, 128])
    arguments = parser.parse_args()
    for length in arguments.length:
        bert, batch = make_examples(length, arguments.rows)
        head = pa.concat_batches([batch.slice(0, _PLAIN_ROWS)])
        rows = [
            *measure_formats(bert, batch, arguments.rounds),
            *measure_arrow(batch, arguments.rounds),
            *measure_plain(bert, head),
        ]
        print_table((f"{length} tokens", "written/s", "read/s", "bytes/example"), rows)


if __name__ == "__main__":
    main()
