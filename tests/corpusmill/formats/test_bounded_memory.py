"""Shards that claim what no row can have are refused before they fill the memory.

A few kilobytes of a compressed or run-length encoded file can claim any number of values, which a
manifest may vouch for.
"""

import gzip
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusmill.arrays.columns import Column, Role, arrow_schema
from corpusmill.formats.avro import schema_of
from corpusmill.formats.output_options import Compression, OutputOptions
from corpusmill.formats.shard_formats import FORMATS, resolve
from corpusmill.formats.tfrecord import masked_checksum
from corpusmill.formats.varints import write_long
from tests.tools.memory import memory_of

VALUES = 2 * 10**7
TOKENS = Column("input_ids", "int16", "", -1, role=Role.TOKEN_IDS)
LONGEST = 1000


def parquet(dictionary: bool = True, values: int = VALUES) -> bytes:
    """One row of equal ids."""
    ids = pa.ListArray.from_arrays(pa.array([0, values], pa.int32()), np.full(values, 5, np.int16))
    sink = io.BytesIO()
    table = pa.table([ids], schema=arrow_schema([TOKENS]))
    pq.write_table(table, sink, use_dictionary=dictionary, compression="zstd")
    return sink.getvalue()


def tfrecord() -> bytes:
    size = VALUES.to_bytes(8, "little")
    return gzip.compress(size + masked_checksum(size).to_bytes(4, "little") + bytes(VALUES))


def avro() -> bytes:
    """One row of zeros, in a block of the schema that is expected."""
    sink, mark = io.BytesIO(), bytes(16)
    fastavro.writer(sink, schema_of([TOKENS]), [], "zstandard", sync_marker=mark)
    block: bytes = pa.Codec("zstd").compress(write_long(VALUES) + bytes(VALUES + 1), asbytes=True)
    return sink.getvalue() + write_long(1) + write_long(len(block)) + block + mark


def ernie_text() -> bytes:
    """A line that never ends."""
    return gzip.compress(b"5 " * 2**22)


def megatron_index() -> bytes:
    header = b"MMIDIDX\0\0" + (1).to_bytes(8, "little") + b"\x08"
    counts = (1).to_bytes(8, "little") + (2).to_bytes(8, "little")
    return header + counts + (2**31 - 1).to_bytes(4, "little") + bytes(16) + b"\1" + bytes(7)


ERNIE = (
    TOKENS,
    *(
        Column(name, "int8", "", -1, role=Role.TOKEN_VALUES)
        for name in ("token_type_ids", "seg_labels")
    ),
    Column("next_sentence_label", "int8", ""),
)
# By name of the file: what it holds, and the cause of the refusal.
CLAIMS: dict[str, tuple[Callable[[], bytes], str]] = {
    "dictionary.parquet": (parquet, "a column claims 20,000,000 values in"),
    "plain.parquet": (partial(parquet, dictionary=False), "a column claims 20,000,000 values in"),
    "one.tfrecord": (tfrecord, "it claims 20,000,000 bytes"),
    "one.avro": (avro, "a block claims more than the"),
    "one.ernie-text": (ernie_text, "a line is longer than 27,004 bytes"),
    "one.megatron": (megatron_index, "the length of a row is not from 0 to 1,000"),
}


def check_refusal(path: Path, cause: str) -> None:
    """Read a shard of rows of up to a thousand tokens."""
    output_format = path.suffix.removeprefix(".")
    columns = ERNIE if output_format == "ernie-text" else (TOKENS,)
    codecs: dict[str, Compression] = {"tfrecord": "gzip", "avro": "zstd"}
    wanted = OutputOptions(output_format, "do_not_pad", codecs.get(output_format))
    options, shard_format = resolve(wanted, columns), FORMATS[output_format]
    with path.open("rb") as stream:
        sources: list[Any] = [io.BytesIO(), stream][-len(shard_format.suffixes(options)) :]
        rows = shard_format.read(sources, columns, options, 8192, LONGEST)
        with pytest.raises((ValueError, OSError)) as refused:
            list(rows)
    assert cause in str(refused.value), refused.value


def test_a_shard_cannot_claim_more_than_its_rows_can_have(tmp_path: Path) -> None:
    for name, (content, _) in CLAIMS.items():
        (tmp_path / name).write_bytes(content())
    before = """
        from pathlib import Path
        from tests.corpusmill.formats.test_bounded_memory import CLAIMS, check_refusal
    """
    measured = f"""
        for name, (_, cause) in CLAIMS.items():
            check_refusal(Path({str(tmp_path)!r}) / name, cause)
    """
    assert memory_of(before, measured) < 60 * 2**20
