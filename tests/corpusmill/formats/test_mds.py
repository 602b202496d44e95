"""Shards of MosaicML's streaming, byte by byte, and as its own program reads them."""

import io
import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.columns import ANY_LENGTH, Column, Role, arrow_schema
from corpusmill.dataset.manifest import Shard
from corpusmill.dataset.shards import read_shard
from corpusmill.errors import UserError
from corpusmill.formats import mds
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, Columns, DataSetContents, resolve
from corpusmill.location import locate
from tests.tools.knobs import knobs
from tests.tools.shard_samples import write_shard
from tests.tools.small_datasets import OBJECTIVES, Recipe, write_dataset

DOCUMENTS = (Column("input_ids", "uint16", "", ANY_LENGTH, role=Role.TOKEN_IDS),)
ROWS = (
    Column("input_ids", "int32", "", 600, role=Role.TOKEN_IDS),
    Column("labels", "int8", "", 600, role=Role.TOKEN_VALUES, smallest=-1),
    Column("a_class", "int8", "", role=Role.CLASS),
    Column("number", "int64", "", smallest=-(2**40)),
)
OPTIONS = OutputOptions("mds")


def batch(columns: Columns, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, arrow_schema(columns))


def write(columns: Columns, *groups: list[dict[str, Any]]) -> bytes:
    rows = [batch(columns, group) for group in groups]
    return write_shard(rows, columns, resolve(OPTIONS, columns))


def read(columns: Columns, shard: bytes, batch_rows: int = 3) -> list[dict[str, Any]]:
    options = resolve(OPTIONS, columns)
    batches = FORMATS["mds"].read([io.BytesIO(shard)], columns, options, batch_rows)
    return [row for each in batches for row in each.to_pylist()]


def read_plainly(shard: bytes) -> list[dict[str, Any]]:
    """Read a shard one value after the other, as the format is described."""
    [count] = struct.unpack_from("<I", shard)
    begins = struct.unpack_from(f"<{count + 1}I", shard, 4)
    described = json.loads(shard[8 + 4 * count : begins[0]])
    kinds = list(
        zip(described["column_names"], described["column_encodings"], described["column_sizes"],
            strict=True)
    )  # fmt: skip
    rows = []
    for begin, end in pairwise(begins):
        head = sum(size is None for _, _, size in kinds)
        own = iter(struct.unpack_from(f"<{head}I", shard, begin))
        place, row = begin + 4 * head, dict[str, Any]()
        for name, kind, fixed in kinds:
            size = next(own) if fixed is None else fixed
            row[name], place = decode(kind, shard[place : place + size]), place + size
        assert place == end
        rows.append(row)
    return rows


def decode(kind: str, data: bytes) -> Any:
    name, _, dtype = kind.partition(":")
    if name == "str":
        return data.decode()
    if name != "ndarray":
        return int(np.frombuffer(data, "int64" if name == "int" else name)[0])
    length_bytes = 1 << (data[0] - 4)
    length = int.from_bytes(data[1 : 1 + length_bytes], "little")
    values = np.frombuffer(data[1 + length_bytes :], dtype).tolist()
    assert len(values) == length
    return values


def test_a_shard_byte_by_byte() -> None:
    shard = write(DOCUMENTS, [{"input_ids": [7, 300]}])
    described = b'{"column_encodings": ["str", "ndarray:uint16", "int"], "column_names": '
    described += b'["id", "input_ids", "len"], "column_sizes": [null, null, 8], "compression": '
    described += b'null, "format": "mds", "hashes": ["sha256"], "size_limit": null, "version": 2}'
    first = 12 + len(described)
    row = struct.pack("<II", 16, 6) + shard[first + 8 : first + 24]
    row += struct.pack("<BBHH", 4, 2, 7, 300) + struct.pack("<q", 2)
    assert shard == struct.pack("<III", 1, first, first + len(row)) + described + row


LENGTHS = st.sampled_from([0, 1, 2, 254, 255, 256, 257, 600])


@given(
    lengths=st.lists(LENGTHS, max_size=9),
    cut=st.integers(0, 9),
    batch_rows=st.integers(1, 5),
    seed=st.integers(0, 9),
)
def test_rows_of_any_columns_and_lengths(
    lengths: list[int], cut: int, batch_rows: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    rows = [
        {
            "input_ids": random.integers(0, 70_000, length).tolist(),
            "labels": random.integers(-1, 100, length).tolist(),
            "a_class": int(random.integers(0, 3)),
            "number": int(random.integers(-(2**40), 2**40)),
        }
        for length in lengths
    ]
    shard = write(ROWS, rows[:cut], rows[cut:])
    assert shard == write(ROWS, rows)
    assert read(ROWS, shard, batch_rows) == read_plainly(shard) == rows


@pytest.mark.parametrize(
    ("length", "length_bytes"), [(255, 1), (256, 2), (2**16 - 1, 2), (2**16, 4)]
)
def test_documents_have_their_length_and_an_id(length: int, length_bytes: int) -> None:
    rows: list[dict[str, Any]] = [{"input_ids": [*range(length - 1), 1]}]
    rows += [{"input_ids": [5]}, {"input_ids": [5]}]
    shard = write(DOCUMENTS, rows)
    assert read(DOCUMENTS, shard) == rows
    [first] = struct.unpack_from("<I", shard, 4)
    # The sizes of the id and of the list come first, then the id.
    id_bytes, list_bytes = struct.unpack_from("<II", shard, first)
    assert (id_bytes, list_bytes) == (16, 1 + length_bytes + 2 * length)
    plain = read_plainly(shard)
    assert [row["len"] for row in plain] == [length, 1, 1]
    ids = [row["id"] for row in plain]
    assert ids[1] == ids[2] != ids[0]
    assert all(len(name) == 16 for name in ids)


def test_each_changed_byte_is_found() -> None:
    rows: list[dict[str, Any]] = [{"input_ids": ids} for ids in ([7, 300, 5], [1], [])]
    shard = write(DOCUMENTS, rows)
    for place in range(len(shard)):
        changed = bytearray(shard)
        changed[place] ^= 4
        with pytest.raises(ValueError, match=r"."):
            read(DOCUMENTS, bytes(changed))
    for end in range(len(shard)):
        with pytest.raises(ValueError, match=r"."):
            read(DOCUMENTS, shard[:end])
    with pytest.raises(ValueError, match="do not follow each other"):
        read(DOCUMENTS, shard + b"x")


def test_long_documents_are_read_a_few_at_a_time() -> None:
    rows = [{"input_ids": [3] * 100} for _ in range(9)]
    shard, options = write(DOCUMENTS, rows), resolve(OPTIONS, DOCUMENTS)
    for tokens, most in ((100, 1), (120, 2), (10**6, 9)):
        with knobs(read_tokens=tokens):
            batches = [*FORMATS["mds"].read([io.BytesIO(shard)], DOCUMENTS, options, 10**6)]
        assert batches[0].num_rows == most
        assert sum(each.num_rows for each in batches) == 9


def test_a_row_that_claims_more_than_a_row_can_have_is_refused() -> None:
    shard, options = write(DOCUMENTS, [{"input_ids": [3] * 1000}]), resolve(OPTIONS, DOCUMENTS)
    with pytest.raises(ValueError, match="a row has more than"):
        [*FORMATS["mds"].read([io.BytesIO(shard)], DOCUMENTS, options, 9, longest=900)]


def test_a_shard_is_no_longer_than_its_places_can_say(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"input_ids": [3] * 1000}]
    monkeypatch.setattr(mds, "_MOST_SHARD_BYTES", len(write(DOCUMENTS, rows)))
    write(DOCUMENTS, rows)
    with pytest.raises(UserError, match=r"--num-shards.* Give more shards"):
        write(DOCUMENTS, [*rows, {"input_ids": [3]}])


def test_the_index_leads_to_the_shards_with_rows() -> None:
    shards = {
        "train": [Shard("a.mds", 90, 64 * "1", 7, 70), Shard("b.mds", 9, 64 * "2", 0, 0)],
        "validation": [Shard("c.mds", 50, 64 * "3", 5, 50)],
    }
    files = FORMATS["mds"].companion_files(DataSetContents(shards, DOCUMENTS, "", {}))
    assert set(files) == set(FORMATS["mds"].companion_names)
    [train] = json.loads(files["index.json"])["shards"]
    assert train["raw_data"] == {
        "basename": "a.mds",
        "bytes": 90,
        "hashes": {"sha256": 64 * "1"},
    }
    assert train["samples"] == 7
    [validation] = json.loads(files["validation/index.json"])["shards"]
    assert validation["raw_data"]["basename"] == "../c.mds"


@pytest.mark.parametrize("objective", ["gpt_stream", "bert", "t5"])
def test_streaming_reads_every_row(objective: str, tmp_path: Path) -> None:
    streaming = pytest.importorskip("streaming", reason="mosaicml-streaming is not installed")
    manifest = write_dataset(tmp_path / "out", Recipe(OBJECTIVES[objective], OPTIONS))
    for split in manifest.splits:
        inner = {"split": split} if split != "train" else {}
        rows = streaming.StreamingDataset(
            local=str(tmp_path / "out"), batch_size=1, validate_hash="sha256", **inner
        )
        shards = [shard.file for shard in manifest.splits[split].shards]
        folder = locate(str(tmp_path / "out"))
        ours = [
            row
            for shard in shards
            for each in read_shard(folder, manifest, shard)
            for row in each.to_pylist()
        ]
        assert len(rows) == len(ours)
        for row, expected in zip(rows, ours, strict=True):
            for name, value in expected.items():
                assert np.array_equal(row[name], value)
