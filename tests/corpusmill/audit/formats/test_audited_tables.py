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
from tests.tools.table_rows import for_rows
from tests.tools.token_folders import read_file, read_files

ROWS = [[7, 8, 9, 70000], [], [5], [6, 2]]
LABELS = [[-100, 8, 9, 70000], [], [-100], [-100, 2]]


def table_of(**columns: Any) -> pa.Table:
    return pa.table({"text": ["a"] * len(ROWS), "input_ids": ROWS, "labels": LABELS} | columns)


def write_parquet(path: Path, table: pa.Table) -> None:
    pq.write_table(table, path, row_group_size=3)


def write_file(path: Path, table: pa.Table) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


def write_stream(path: Path, table: pa.Table) -> None:
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


def to_lines(table: pa.Table) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in table.to_pylist())


WRITERS: dict[str, Callable[[Path, pa.Table], object]] = {
    "a.parquet": write_parquet,
    "file.arrow": write_file,
    "stream.arrow": write_stream,
    "a.jsonl": lambda path, table: path.write_bytes(to_lines(table)),
    "a.ndjson.gz": lambda path, table: path.write_bytes(gzip.compress(to_lines(table))),
    "a.jsonl.zst": lambda path, table: path.write_bytes(zstandard.compress(to_lines(table))),
}


@pytest.fixture(autouse=True)
def few_lines_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_LINES", 250)


def test_all_formats_are_read_alike(tmp_path: Path) -> None:
    for name, write in WRITERS.items():
        folder = tmp_path / f"of-{name}"
        folder.mkdir()
        write(folder / name, table_of())
        file = read_file(folder, "table")
        assert file.rows == ROWS, name
        assert file.columns == {"labels": LABELS}
        assert file.numbers == [0, 1, 2, 3]
        assert not file.faults
        assert file.file
        assert (file.file.label_names, file.file.dtype) == (("labels",), "int64")


@for_rows(
    ("name", "values", "column", "seen"),
    [
        ("attention_mask", [[1, 1, 1, 0], [], [1], [1, 1]], "attended", None),
        ("assistant_masks", [[0, 1, 1, 0], [], [1], [0, 1]], "learned", None),
        ("completion_mask", [[0, 1, 1, 0], [], [1], [0, 1]], "learned", None),
        ("loss_mask", [[0, 1, 1, 0], [], [1], [0, 1]], "learned", None),
        ("position_ids", [[0, 1, 0, 1], [], [0], [0, 1]], "positions", None),
        (
            "document_ids",
            [[0, 0, 1, 1], [], [2], [3, 3]],
            "segments",
            [[0, 0, 1, 1], [], [0], [0, 0]],
        ),
        ("seq_idx", [[0, 0, 1, 1], [], [2], [3, 3]], "segments", [[0, 0, 1, 1], [], [0], [0, 0]]),
        ("seq_lengths", [[3, 1], [], [1], [1, 1]], "segments", [[0, 0, 0, 1], [], [0], [0, 1]]),
        ("seq_lens", [[4], [], [1], [2]], "segments", [[0, 0, 0, 0], [], [0], [0, 0]]),
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
    ],
)
def test_columns_have_their_meaning_by_their_names(
    tmp_path: Path, name: str, values: list[Any], column: str, seen: list[list[int]] | None
) -> None:
    for suffix in ("a.parquet", "stream.arrow", "a.jsonl"):
        folder = tmp_path / f"{name}-{suffix}"
        folder.mkdir()
        WRITERS[suffix](folder / suffix, table_of(**{name: values}))
        file = read_file(folder, "table")
        assert not file.faults
        wanted = {column: seen or values} if column else {}
        assert file.columns == {"labels": LABELS} | wanted


def test_lists_of_each_type_are_read(tmp_path: Path) -> None:
    rows = [[7, 8], [5, 9], [6, 2]]
    for number, kind in enumerate(
        [
            pa.list_(pa.uint16()),
            pa.large_list(pa.int32()),
            pa.list_(pa.uint32(), 2),
            pa.list_view(pa.int16()),
        ]
    ):
        for suffix in ("a.parquet", "file.arrow"):
            if number == 3 and suffix == "a.parquet":
                continue
            folder = tmp_path / f"{number}-{suffix}"
            folder.mkdir()
            mask = pa.array([[True, False], [True, True], [False, True]])
            table = pa.table({"tokens": pa.array(rows, kind), "loss_mask": mask})
            WRITERS[suffix](folder / suffix, table)
            file = read_file(folder, "table")
            assert (file.rows, file.faults) == (rows, [])
            assert file.columns == {"learned": [[1, 0], [1, 1], [0, 1]]}


def test_bert_segments_are_no_documents(tmp_path: Path) -> None:
    segments = [[0, 0, 1, 1], [], [0], [0, 1]]
    write_parquet(tmp_path / "a.parquet", table_of(segment_ids=segments, masked_lm_positions=ROWS))
    assert "segments" not in read_file(tmp_path, "table").columns


def test_labels_of_a_decoder_are_left_out(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", table_of(labels=[[1], [2], [1, 2], []]))
    file = read_file(tmp_path, "table")
    assert (file.columns, file.faults) == ({}, [])


def test_one_row_group_of_two_is_a_sample(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", table_of())
    file = read_file(tmp_path, "table", every=2)
    assert (file.rows, file.faults) == (ROWS[:3], [])


def test_rows_beyond_a_batch_come_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corpusmill.audit.formats.flat.BATCH_TOKENS", 3)
    for name, write in WRITERS.items():
        folder = tmp_path / f"of-{name}"
        folder.mkdir()
        write(folder / name, table_of())
        file = read_file(folder, "table")
        assert (file.rows, file.columns, file.numbers) == (ROWS, {"labels": LABELS}, [0, 1, 2, 3])


@for_rows(
    ("columns", "fault"),
    [
        ({"input_ids": [[7, None], [], None, [6, 2]]}, "2 values of input_ids are null"),
        ({"labels": [[7, 8, 9], [], [5], [6, 2]]}, "1 rows have fewer or more labels than ids"),
        (
            {"attention_mask": [[1], [], [1], [1, 1]]},
            "1 rows have fewer or more attention_mask than ids",
        ),
        ({"seq_lengths": [[3, 2], [], [1], [2]]}, "1 rows have seq_lengths that do not fit"),
        ({"seq_lengths": [[6, -2], [], [1], [1]]}, "2 rows have seq_lengths that do not fit"),
        ({"cu_seqlens": [[0, 5], [0], [0, 1], [0, 2]]}, "1 rows have cu_seqlens that do not fit"),
        ({"indices": [[[0, 4]], [], [[-1, 1]], [[0, 2]]]}, "1 rows have indices that do not fit"),
    ],
)
def test_rows_that_contradict_themselves_are_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any], fault: str
) -> None:
    monkeypatch.setattr(tables, "_LINES", 4000)
    for name, write in WRITERS.items():
        folder = tmp_path / f"{name}-{json.dumps(columns)[:60]}"
        folder.mkdir()
        write(folder / name, table_of(**columns))
        file = read_file(folder, "table")
        assert len(file.rows) == len(ROWS)
        assert any(fault in text for text in file.faults), (name, file.faults)


Edit = Callable[[bytes], bytes]
DAMAGES: list[tuple[str, str, Edit, list[list[int]], str]] = [
    ("a.parquet", "cut", lambda c: c[:-9], [], ""),
    (
        "a.parquet",
        "a page",
        lambda c: c[:30] + bytes(60) + c[90:],
        [],
        "it cannot be read after 0 rows",
    ),
    ("a.parquet", "empty", lambda _: b"", [], ""),
    ("file.arrow", "cut footer", lambda c: c[:-20], [], ""),
    ("file.arrow", "cut batch", lambda c: c[: len(c) // 3], [], ""),
    ("stream.arrow", "cut batch", lambda c: c[: len(c) * 3 // 4], ROWS[:3], ""),
    ("stream.arrow", "cut schema", lambda c: c[:50], [], ""),
    (
        "stream.arrow",
        "an offset",
        lambda c: c.replace(
            np.array([0, 4, 4, 5], "<i4").tobytes(), np.array([0, 4, 4, 2**30], "<i4").tobytes()
        ),
        [],
        "it cannot be read after 0 rows",
    ),
    (
        "stream.arrow",
        "a negative offset",
        lambda c: c.replace(
            np.array([0, 4, 4, 5], "<i4").tobytes(), np.array([0, 4, -4, 5], "<i4").tobytes()
        ),
        [],
        "it cannot be read after 0 rows",
    ),
    ("a.jsonl", "a line", lambda c: c.replace(b"{", b"[", 1), [], ""),
    ("a.jsonl", "half a line", lambda c: c[:-40], [], ""),
    ("a.jsonl", "text for a number", lambda c: c.replace(b"[5]", b'["5"]'), [], ""),
    ("a.jsonl", "no JSON", lambda c: b"ab\n" + c, [], ""),
    ("a.ndjson.gz", "cut", lambda c: c[:-20], [], ""),
    ("a.jsonl.zst", "cut", lambda c: c[:-6], [], ""),
]


@for_rows(("name", "damage", "edit", "rows", "fault"), DAMAGES)
def test_damage_is_a_fault_and_the_rest_is_read(
    tmp_path: Path, name: str, damage: str, edit: Edit, rows: list[list[int]], fault: str
) -> None:
    folder = tmp_path / f"{name} {damage}"
    folder.mkdir()
    WRITERS[name](folder / name, table_of())
    before = (folder / name).read_bytes()
    (folder / name).write_bytes(edit(before))
    assert edit(before) != before
    file = read_file(folder, "table")
    assert file.rows[: len(rows)] == rows
    assert any(fault in text for text in file.faults), file.faults


def test_a_line_longer_than_a_block_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(to_lines(table_of()) + b'{"input_ids": [' + b"7," * 2000)
    assert read_file(tmp_path, "table").faults


def test_tables_without_ids_are_refused(tmp_path: Path) -> None:
    for name, write in WRITERS.items():
        write(tmp_path / name, pa.table({"text": ["a"], "ids": ["x"], "labels": [[1]]}))
    for name, file in read_files(tmp_path, "table").items():
        assert file.faults == ["it has no lists of ids by a name such as input_ids"], name


def test_what_map_leaves_beside_a_saved_data_set_is_passed_over(tmp_path: Path) -> None:
    for name in ("data-00000-of-00001.arrow", "cache-0123.arrow"):
        write_stream(tmp_path / name, table_of())
    assert [*read_files(tmp_path, "table")] == ["data-00000-of-00001.arrow"]


def test_what_the_library_writes_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_LINES", 2**20)
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    rows = [[*range(i, 3 * i + 2)] for i in range(40)]
    made = datasets.Dataset.from_dict({"input_ids": rows, "labels": rows, "text": ["a"] * 40})
    made.save_to_disk(str(tmp_path / "saved"), num_shards=3)
    made.to_parquet(str(tmp_path / "a.parquet"))
    made.to_json(str(tmp_path / "a.jsonl"))
    files = read_files(tmp_path, "table")
    saved = [f"saved/data-0000{i}-of-00003.arrow" for i in range(3)]
    assert sorted(files) == ["a.jsonl", "a.parquet", *saved]
    assert [row for name in saved for row in files[name].rows] == rows
    for file in (files["a.jsonl"], files["a.parquet"]):
        assert (file.rows, file.columns, file.faults) == (rows, {"labels": rows}, [])
