"""Parquet, Arrow and JSON lines with columns of ids."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from corpusmill.audit.formats import tables
from tests.tools.table_rows import check_rows, for_rows
from tests.tools.token_folders import (
    Damage,
    Edit,
    ReadFile,
    check_damages,
    cut,
    empty,
    read_file,
    read_files,
    swap,
)

ROWS = [[7, 8, 9, 70000], [], [5], [6, 2]]
LABELS = [[-100, 8, 9, 70000], [], [-100], [-100, 2]]


def table_of(**columns: Any) -> pa.Table:
    return pa.table({"text": ["a"] * len(ROWS), "input_ids": ROWS, "labels": LABELS} | columns)


def write_arrow(path: Path, table: pa.Table) -> None:
    create = pa.ipc.new_file if path.stem == "file" else pa.ipc.new_stream
    with create(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


def to_lines(table: pa.Table) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in table.to_pylist())


WRITERS: dict[str, Callable[[Path, pa.Table], object]] = {
    "a.parquet": lambda path, table: pq.write_table(table, path, row_group_size=3),
    "file.arrow": write_arrow,
    "stream.arrow": write_arrow,
    "a.jsonl": lambda path, table: path.write_bytes(to_lines(table)),
    "a.ndjson.gz": lambda path, table: path.write_bytes(gzip.compress(to_lines(table))),
    "a.jsonl.zst": lambda path, table: path.write_bytes(zstandard.compress(to_lines(table))),
}


def write_all(folder: Path, table: pa.Table) -> dict[str, ReadFile]:
    """Write a table in each format, and read it."""
    folder.mkdir(parents=True)
    for name, write in WRITERS.items():
        write(folder / name, table)
    files = read_files(folder, "table")
    assert {*files} == {*WRITERS}
    return files


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_LINES", 150)


@pytest.mark.parametrize("step", [3, 2**20])
def test_all_formats_are_read_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr("corpusmill.audit.formats.flat.BATCH_TOKENS", step)
    for name, file in write_all(tmp_path / "a", table_of()).items():
        assert (file.rows, file.columns, file.faults) == (ROWS, {"labels": LABELS}, []), name
        assert file.numbers == [0, 1, 2, 3]
        assert [(one.label_names, one.dtype) for one in file.files] == [(("labels",), "int64")]


@for_rows(
    ("name", "values", "column", "seen"),
    [
        ("attention_mask", [[1, 1, 1, 0], [], [1], [1, 1]], "attended", None),
        ("assistant_masks", [[0, 1, 1, 0], [], [1], [0, 1]], "learned", None),
        ("loss_mask", [[False, True, True, True], [], [True], [True, True]], "learned", None),
        ("position_ids", [[0, 1, 0, 1], [], [0], [0, 1]], "positions", None),
        ("seq_idx", [[0, 0, 1, 1], [], [2], [3, 3]], "segments", [[0, 0, 1, 1], [], [0], [0, 0]]),
        ("seq_lengths", [[3, 1], [], [1], [1, 1]], "segments", [[0, 0, 0, 1], [], [0], [0, 1]]),
        (
            "cu_seqlens",
            [[0, 3, 4], [0], [0, 1], [0, 2]],
            "segments",
            [[0, 0, 0, 1], [], [0], [0, 0]],
        ),
        (
            "indices",
            [[[0, 1], [1, 4]], [], [[0, 1]], [[0, 2]]],
            "segments",
            [[0, 1, 1, 1], [], [0], [0, 0]],
        ),
        ("token_type_ids", [[0, 0, 1, 1], [], [0], [0, 1]], "", None),
        ("length", [4, 0, 1, 2], "", None),
        # Other columns change their types between blocks of lines, and are not read.
        ("meta", ["2020-01-01", None, "a", "b"], "", None),
        ("meta", [None, None, 1, 0.5], "", None),
    ],
)
def test_columns_have_their_meaning_by_their_names(
    tmp_path: Path, name: str, values: list[Any], column: str, seen: list[list[int]] | None
) -> None:
    wanted = {column: seen or values} if column else {}
    folder = tmp_path / f"{name}-{values[-1]}"
    for form, file in write_all(folder, table_of(**{name: values})).items():
        assert (file.columns, file.faults) == ({"labels": LABELS} | wanted, []), form


def test_lists_of_each_type_are_read(tmp_path: Path) -> None:
    rows, masks = [[7, 8], [5, 9], [6, 2]], [[1, 0], [1, 1], [0, 1]]
    for number, kind in enumerate((
        pa.list_(pa.uint16()),
        pa.large_list(pa.int32()),
        pa.list_(pa.uint32(), 2),
        pa.list_view(pa.int16()),
    )):  # fmt: skip
        table = pa.table({"tokens": pa.array(rows, kind), "loss_mask": masks})
        for name in ("file.arrow", "a.parquet")[: 1 if number == 3 else 2]:
            folder = tmp_path / f"{number}-{name}"
            folder.mkdir()
            WRITERS[name](folder / name, table)
            file = read_file(folder, "table")
            assert (file.rows, file.columns, file.faults) == (rows, {"learned": masks}, [])


def test_columns_that_mean_something_else_are_left_out(tmp_path: Path) -> None:
    segments = [[0, 0, 1, 1], [], [0], [0, 1]]
    bert = table_of(segment_ids=segments, masked_lm_positions=ROWS)
    decoder = table_of(labels=[[1], [2], [1, 2], []])
    for name, table in (("bert", bert), ("decoder", decoder)):
        for file in write_all(tmp_path / name, table).values():
            assert "segments" not in file.columns
            assert ("labels" in file.columns, file.faults) == (name == "bert", [])


def test_one_row_group_of_two_is_a_sample(tmp_path: Path) -> None:
    WRITERS["a.parquet"](tmp_path / "a.parquet", table_of())
    file = read_file(tmp_path, "table", every=2)
    assert (file.rows, file.faults) == (ROWS[:3], [])


@for_rows(
    ("columns", "fault"),
    [
        ({"input_ids": [[7, None], [], None, [6, 2]]}, "2 values of input_ids are null"),
        ({"labels": [[7, 8, 9], [], [5], [6, 2]]}, "1 rows have fewer or more labels than ids"),
        ({"attention_mask": [[1], [], [1], [1, 1]]}, "1 rows have fewer or more attention_mask"),
        ({"seq_lengths": [[6, -2], [], [1], [1]]}, "2 rows have seq_lengths that do not fit"),
        ({"cu_seqlens": [[0, 5], [0], [0, 1], [0, 2]]}, "1 rows have cu_seqlens that do not fit"),
        ({"indices": [[[0, 4]], [], [[-1, 1]], [[0, 2]]]}, "1 rows have indices that do not fit"),
    ],
)
def test_rows_that_contradict_themselves_are_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any], fault: str
) -> None:
    monkeypatch.setattr(tables, "_LINES", 4000)
    for name, file in write_all(tmp_path / str([*columns]), table_of(**columns)).items():
        assert len(file.rows) == len(ROWS)
        assert any(fault in text for text in file.faults), (name, file.faults)


def offset(number: int) -> Edit:
    ends = [np.array([0, 4, end, 5], "<i4").tobytes() for end in (4, number)]
    return swap(*ends)


LINE = b'{"input_ids": [' + b"7," * 2000 + b"7]}\n"
DAMAGES: list[Damage] = [
    ("a.parquet", cut(9), [], "magic bytes"),
    ("a.parquet", lambda c: c[:30] + bytes(60) + c[90:], [], "after 0 rows"),
    ("a.parquet", empty, [], "Parquet file size is 0"),
    ("file.arrow", cut(20), [], "ends without its footer"),
    ("file.arrow", lambda content: content[: len(content) // 3], [], "without its footer"),
    ("stream.arrow", lambda content: content[: len(content) * 3 // 4], ROWS[:3], "but only read"),
    ("stream.arrow", lambda content: content[:50], [], "but only read"),
    ("stream.arrow", empty, [], "schema message"),
    ("stream.arrow", offset(2**30), [], "after 0 rows"),
    ("stream.arrow", offset(-4), [], "after 0 rows"),
    ("a.jsonl", swap("{", "["), [], "JSON parse error"),
    ("a.jsonl", cut(40), ROWS[:2], "JSON parse error"),
    ("a.jsonl", swap("[5]", '["5"]'), ROWS[:2], "JSON parse error"),
    ("a.jsonl", lambda content: b"ab\n" + content, [], "JSON parse error"),
    ("a.jsonl", lambda content: content + LINE, ROWS, "block"),
    ("a.jsonl", lambda _: LINE, [], "block"),
    ("a.jsonl", empty, [], "Empty JSON stream"),
    ("a.ndjson.gz", cut(20), [], "ends before its compressed data does"),
    ("a.jsonl.zst", cut(6), [], "Truncated compressed stream"),
]


def test_damage_is_a_fault_and_what_lies_before_is_read(tmp_path: Path) -> None:
    def check(row: tuple[int, Damage]) -> None:
        number, damage = row
        (tmp_path / str(number)).mkdir()
        name = damage[0]
        check_damages(
            tmp_path / str(number),
            "table",
            lambda folder: WRITERS[name](folder / name, table_of()),
            [damage],
        )

    check_rows(enumerate(DAMAGES), check)


def test_tables_without_ids_are_refused(tmp_path: Path) -> None:
    table = pa.table({"text": ["a"], "ids": ["x"], "labels": [[1]]})
    for name, file in write_all(tmp_path / "a", table).items():
        assert file.faults == ["it has no lists of ids by a name such as input_ids"], name


def test_what_the_library_writes_is_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    rows = [[*range(i, i + 2 + i % 5)] for i in range(40)]
    made = datasets.Dataset.from_dict({"input_ids": rows, "labels": rows, "text": ["a"] * 40})
    made.save_to_disk(str(tmp_path / "saved"), num_shards=2)
    saved = datasets.load_from_disk(str(tmp_path / "saved"))
    saved.map(lambda row: {"input_ids": row["input_ids"][:1]})  # its result is kept beside them
    assert [*(tmp_path / "saved").glob("cache-*")]
    made.to_parquet(str(tmp_path / "a.parquet"))
    made.to_json(str(tmp_path / "a.jsonl"))
    files = read_files(tmp_path, "table")
    shards = [f"saved/data-0000{number}-of-00002.arrow" for number in range(2)]
    assert sorted(files) == ["a.jsonl", "a.parquet", *shards]
    assert files[shards[0]].rows + files[shards[1]].rows == rows
    for name in ("a.jsonl", "a.parquet"):
        assert (files[name].rows, files[name].columns) == (rows, {"labels": rows})
    assert not any(file.faults for file in files.values())
