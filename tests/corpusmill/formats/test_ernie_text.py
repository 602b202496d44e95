import gzip
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.columns import Column, arrow_schema
from corpusmill.dataset.manifest import Shard
from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, DataSetContents, resolve
from corpusmill.objectives.bert import Bert, BertOptions
from tests.corpusmill.objectives.ernie_examples import ernie
from tests.tools.builders import SPECIAL
from tests.tools.knobs import knobs
from tests.tools.shard_samples import read_shard, write_shard

COLUMNS = ernie(max_seq_length=40).columns
OPTIONS = OutputOptions("ernie-text")
ERNIE_TEXT = FORMATS["ernie-text"]
ROW = {
    "input_ids": [1, 1010, 28, 2, 75, 2],
    "token_type_ids": [0, 0, 0, 0, 1, 1],
    "seg_labels": [-1, 0, 1, -1, 0, -1],
    "next_sentence_label": 0,
}
LINE = "1 1010 28 2 75 2;0 0 0 0 1 1;0 1 2 3 4 5;-1 0 1 -1 0 -1;1\n"


def batch(rows: list[dict[str, Any]], columns: tuple[Column, ...] = COLUMNS) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, arrow_schema(columns))


def write(groups: list[pa.RecordBatch], columns: tuple[Column, ...] = COLUMNS) -> bytes:
    return write_shard(groups, columns, resolve(OPTIONS, columns))


def read(
    content: bytes, batch_rows: int = 1000, columns: tuple[Column, ...] = COLUMNS
) -> list[dict[str, Any]]:
    table = read_shard(content, columns, resolve(OPTIONS, columns), batch_rows)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


@st.composite
def examples(draw: st.DrawFn) -> dict[str, Any]:
    length = draw(st.integers(1, 40))

    def values(least: int, most: int) -> list[int]:
        return draw(st.lists(st.integers(least, most), min_size=length, max_size=length))

    return {
        "input_ids": values(0, 32767),
        "token_type_ids": values(0, 1),
        "seg_labels": values(-1, 1),
        "next_sentence_label": draw(st.integers(0, 1)),
    }


def test_a_line_is_the_originals() -> None:
    # The label of the text is 1 where the column's is 0.
    assert gzip.decompress(write([batch([ROW])])).decode() == LINE
    other = {**ROW, "next_sentence_label": 1}
    assert gzip.decompress(write([batch([other])])).decode() == LINE[:-2] + "0\n"


@given(st.lists(examples(), max_size=30), st.integers(1, 7))
def test_rows_come_back(rows: list[dict[str, Any]], batch_rows: int) -> None:
    assert read(write([batch(rows)]), batch_rows) == rows


@pytest.mark.parametrize("dtype", ["int16", "uint16", "int32"])
def test_every_type_of_ids_comes_back(dtype: str) -> None:
    columns = (replace(COLUMNS[0], dtype=dtype), *COLUMNS[1:])
    largest = int(np.iinfo(dtype).max)
    row = {**ROW, "input_ids": [0, 9, 10, 99, largest, 1]}
    assert read(write([batch([row], columns)], columns), columns=columns) == [row]


def test_columns_in_another_order_and_a_slice() -> None:
    columns = tuple(reversed(COLUMNS))
    rows = [{**ROW, "next_sentence_label": i % 2} for i in range(5)]
    group = batch(rows, columns).slice(2, 2)
    assert read(write([group], columns), columns=columns) == rows[2:4]


def test_bytes_contain_neither_time_nor_name_nor_the_cuts_of_groups() -> None:
    rows = [{**ROW, "next_sentence_label": i % 2} for i in range(2000)]
    content = write([batch(rows)])
    assert content == write([batch(rows)])
    assert content[:4] == b"\x1f\x8b\x08\x00"  # no name
    assert content[4:8] == bytes(4)  # no time
    assert content == write([batch(rows[:700]), batch(rows[700:])])


MALFORMED = [
    ("1 2;0 0;0 1;0 0;1;9\n", "five fields"),
    ("1 2;0 0;0 1;1\n", "five fields"),
    ("1 2\n", "five fields"),
    ("1 2;0;0 1;0 0;1\n", "same number"),
    ("1 2;0 0 0;0 1;0 0;1\n", "same number"),
    ("1 2;0 0;0 1;0 0;1 1\n", "same number"),
    ("1 2;0 2;0 1;0 0;1\n", "sentence type"),
    ("1 2;0 -1;0 1;0 0;1\n", "sentence type"),
    ("1 2;0 0;0 2;0 0;1\n", "positions"),
    ("1 2;0 0;1 2;0 0;1\n", "positions"),
    ("1 2;0 0;0 1;0 2;1\n", "seg_label"),
    ("1 2;0 0;0 1;0 -2;1\n", "seg_label"),
    ("1 2;0 0;0 1;0 0;2\n", "label"),
    ("1 -2;0 0;0 1;0 0;1\n", "token id"),
    ("1 32768;0 0;0 1;0 0;1\n", "token id"),
    ("1 99999999999;0 0;0 1;0 0;1\n", "other than numbers"),
    ("1  2;0 0;0 1;0 0;1\n", "other than numbers"),
    ("1 x;0 0;0 1;0 0;1\n", "other than numbers"),
    ("1 --2;0 0;0 1;0 0;1\n", "other than numbers"),
    ("1 2;0 0;0 1;0 0;\n", "other than numbers"),
    ("1 2;0 0;0 1;0 0;1\r\n", "other than numbers"),
    ("\n", "other than numbers"),
]


def test_a_malformed_line_is_named() -> None:
    for line, message in MALFORMED:
        content = gzip.compress((LINE * 3 + line + LINE).encode())
        with pytest.raises(ValueError, match=rf"line 4: .*{message}"):
            read(content)


def test_a_damaged_shard_is_an_error_of_the_file() -> None:
    content = write([batch([ROW] * 5000)])
    with pytest.raises(OSError, match="end-of-stream"):
        read(content[: len(content) // 2])
    with pytest.raises(OSError, match="gzip"):
        read(b"no gzip at all")
    damaged = bytearray(content)
    damaged[len(content) // 2] ^= 0xFF
    with pytest.raises((OSError, ValueError)):
        read(bytes(damaged))


def test_a_last_line_without_its_end_is_read_but_no_endless_line() -> None:
    assert read(gzip.compress(LINE[:-1].encode())) == [ROW]
    with pytest.raises(ValueError, match="longer than"):
        read(gzip.compress(b"1 " * 2**24))


def test_other_columns_padding_and_codecs_are_refused() -> None:
    with pytest.raises(UserError, match="--mask static"):
        resolve(OPTIONS, ernie(mask="static").columns)
    bert = Bert(BertOptions(), SPECIAL, 1000, "int16")
    with pytest.raises(UserError, match="seg_labels"):
        resolve(OPTIONS, bert.columns)
    with pytest.raises(UserError, match="max_length"):
        resolve(replace(OPTIONS, padding="max_length"), COLUMNS)
    with pytest.raises(UserError, match="zstd"):
        resolve(replace(OPTIONS, compression="zstd"), COLUMNS)
    with pytest.raises(UserError, match="1 to 9"):
        resolve(replace(OPTIONS, compression_level=10), COLUMNS)


def describe(tokenizer_json: str, validation: bool = False, **options: Any) -> DataSetContents:
    """Two shards of the train split, and one of validation."""
    names = {"train": ["train-00000-of-00002.gz", "train-00001-of-00002.gz"]}
    names |= {"validation": ["validation-00000-of-00001.gz"]} if validation else {}
    shards = {split: [Shard(name, 1, 64 * "0", 1, 1) for name in names[split]] for split in names}
    return DataSetContents(shards, COLUMNS, tokenizer_json, options)


def test_lists_of_files_as_the_originals_trainer_reads_them(tokenizer_path: Path) -> None:
    tokenizer_json = tokenizer_path.read_text()
    files = ERNIE_TEXT.companion_files(describe(tokenizer_json, mask_word_prob=0.75))
    assert set(files) == {"train_filelist", "vocab.txt"}
    lines = files["train_filelist"].decode().splitlines()
    fields = [line.strip().split("\t") for line in lines]
    assert fields == [["train-00000-of-00002.gz", "0.75"], ["train-00001-of-00002.gz", "0.75"]]
    files = ERNIE_TEXT.companion_files(describe(tokenizer_json, validation=True))
    assert set(files) == {"train_filelist", "valid_filelist", "vocab.txt"}
    assert set(files) == set(ERNIE_TEXT.companion_names)
    assert files["valid_filelist"] == b"validation-00000-of-00001.gz\t1.0\n"


def test_a_vocabulary_as_the_originals_trainer_reads_it(tokenizer_path: Path) -> None:
    files = ERNIE_TEXT.companion_files(describe(tokenizer_path.read_text()))
    ids = dict(line.strip().split("\t") for line in io.StringIO(files["vocab.txt"].decode()))
    assert len(ids) == 600
    assert [ids[token] for token in ("[PAD]", "[CLS]", "[SEP]", "[MASK]")] == ["0", "2", "3", "4"]
    # Other tokenizers have none of this kind.
    tokenizer_json = '{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}'
    assert set(ERNIE_TEXT.companion_files(describe(tokenizer_json))) == {"train_filelist"}


def test_rows_become_text_512_at_a_time() -> None:
    for rows in (511, 512, 513, 1024, 1025):
        content = write([batch([ROW] * rows)])
        assert gzip.decompress(content).decode() == LINE * rows
        assert read(content) == [ROW] * rows


@pytest.mark.parametrize("text_bytes", [1, len(LINE) - 1, len(LINE), len(LINE) + 1, 2**20])
def test_text_is_parsed_in_blocks_of_any_size(text_bytes: int) -> None:
    columns = COLUMNS
    stream = io.BytesIO(write([batch([ROW] * 5)]))
    batches = ERNIE_TEXT.read([stream], columns, resolve(OPTIONS, columns), 1000)
    with knobs(text_bytes=text_bytes):
        assert pa.Table.from_batches(batches).to_pylist() == [ROW] * 5
