"""Data sets that a job has built, changed by a stranger who gives them the right digests again."""

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusmill.console.process import FAILURE, USER_ERROR
from corpusmill.errors import UserError
from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.data_set import DataSet
from tests.conftest import CHECKOUT
from tests.tools.data_files import find_file
from tests.tools.jobs import read_manifest_json, run_any
from tests.tools.small_datasets import write_entries

Entries = dict[str, Any]
Lie = Callable[[Path, Entries], object]
SPLIT = ("--validation-share", "0.2")
DATA_SETS = {
    "bert": ("bert", SPLIT),
    "electra": ("electra", SPLIT),
    "ernie": ("ernie", ()),
    "t5": ("t5", SPLIT),
    "gpt-pack": ("gpt", ("--mode", "pack", "--max-seq-length", "64", "--order", "corpus")),
}


@pytest.fixture(scope="module")
def text(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two fifths of the sample."""
    file = tmp_path_factory.mktemp("corpus") / "text"
    file.write_bytes(b"".join(sample.read_bytes().splitlines(keepends=True)[:230]))
    return file


@pytest.fixture(scope="module")
def made(text: Path, wordpiece: Path, build_once: Callable[..., Path]) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        objective, flags = DATA_SETS[name]
        return build_once(text, wordpiece, *flags, objective=objective)

    return make


def reseal(data: Path, entries: Entries) -> None:
    """Give a changed data set the digests, the sizes and the seal of an honest one."""
    shards = [shard for split in entries["splits"].values() for shard in split["shards"]]
    for entry in (*entries["files"], *shards):
        if (data / entry["file"]).exists():
            content = (data / entry["file"]).read_bytes()
            entry.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    write_entries(data, entries)


def name_of(kind: str) -> str:
    return f"provenance/{kind}-train-00000-of-00003.parquet"


def in_table(name: str, change: Callable[[pa.Table], pa.Table], **options: Any) -> Lie:
    def rewrite(data: Path, _: Entries) -> None:
        path = find_file(data, name)
        table = change(pq.read_table(path))
        pq.write_table(table, path, **{"store_schema": False, **options})

    return rewrite


def in_column(kind: str, column: str, change: Callable[[pa.ChunkedArray], pa.Array]) -> Lie:
    def set_column(table: pa.Table) -> pa.Table:
        number = table.schema.get_field_index(column)
        return table.set_column(number, column, change(table.column(column)))

    return in_table(name_of(kind), set_column)


def copy_file(source: str, target: str) -> Lie:
    return lambda data, _: shutil.copyfile(find_file(data, source), find_file(data, target))


TABLES: dict[str, Lie] = {
    "spans of text": in_column("spans", "document", lambda ids: ids.cast(pa.string())),
    "spans of doubles": in_column("spans", "tokens", lambda counts: counts.cast(pa.float64())),
    "spans of documents of no file": in_column(
        "spans", "document", lambda ids: pa.array(ids.to_numpy() + np.uint64(2**60))
    ),
    "a column of spans less": in_table(name_of("spans"), lambda table: table.drop(["repeat"])),
    "no spans": in_table(name_of("spans"), lambda table: table.slice(0, 0)),
    "rows that descend": in_table(name_of("spans"), lambda table: table.take(
        np.arange(table.num_rows)[::-1])),
    "spans without statistics": in_table(
        name_of("spans"), lambda table: table, write_statistics=False
    ),
    "spans that are no table": lambda data, _: find_file(
        data, name_of("spans")).write_bytes(b"PAR1" * 9),
    "documents in place of spans": copy_file(name_of("documents"), name_of("spans")),
    "documents without ids": in_column(
        "documents", "document", lambda ids: pa.nulls(len(ids), pa.uint64())
    ),
    "documents of no file": in_column(
        "documents", "document", lambda ids: pa.array(ids.to_numpy() + np.uint64(2**50))
    ),
    "documents of text": in_column("documents", "digest", lambda ids: ids.cast(pa.string())),
    "documents without statistics": in_table(
        name_of("documents"), lambda table: table, write_statistics=False
    ),
}  # fmt: skip


def test_tables_of_other_types_rows_or_files_are_refused_where_they_are_read(
    made: Callable[[str], Path], tmp_path: Path
) -> None:
    wrong = []
    table = pq.read_table(find_file(made("bert"), name_of("documents")))
    document = str(table["document"][0].as_py())
    for name, change in TABLES.items():
        data = Path(shutil.copytree(made("bert"), tmp_path / name))
        entries = read_manifest_json(data)
        change(data, entries)
        reseal(data, entries)
        is_about_rows = "documents" not in name.split()[0]
        commands: list[tuple[str | Path, ...]] = [
            ("trace", data, "--row", "0", "20", "--no-text"),
            ("trace", data, "--where", "tokens > 0"),
            ("drop", data, "--document", document, "--workers", "1"),
        ]
        for command in commands:
            outcome = run_any(*command)
            must_read = ("--where" in command) != is_about_rows or command[0] == "drop"
            if outcome.status not in ({USER_ERROR} if must_read else {0, USER_ERROR}):
                wrong.append((name, command, outcome.errors))
    assert not wrong


MUTANTS: tuple[Any, ...] = ("x", -1, 1.5, None, 2**62, [], {"a": {"b": 1}})


def list_places(entry: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where the values of a manifest are; of a list the first one."""
    if place:
        yield place
    keys = entry if isinstance(entry, dict) else range(isinstance(entry, list) and len(entry) > 0)
    for key in keys:
        yield from list_places(entry[key], (*place, key))


@pytest.mark.parametrize("name", ["bert", "electra", "ernie", "t5", "gpt-pack"])
def test_any_entry_of_any_type_is_refused_or_does_no_harm(
    name: str, made: Callable[[str], Path], text: Path, tmp_path: Path
) -> None:
    data, entries = tmp_path / "out", read_manifest_json(made(name))
    shutil.copytree(made(name), data)
    refused = accepted = 0
    # Each in its turn.
    others = (
        ("inspect", data), ("config", data), ("trace", data, "--row", "0", "--input", text),
        ("trace", data, "--where", "tokens > 0"),
    )  # fmt: skip
    # What all manifests have is changed in one of them.
    shared = {*list_places(read_manifest_json(made("bert")))} if name != "bert" else set()
    for place in [place for place in list_places(entries) if place not in shared]:
        *folders, last = place
        holder: Any = reduce(getitem, folders, entries)
        intact = holder[last]
        for value in (mutant for mutant in MUTANTS if mutant != intact):
            holder[last] = value
            write_entries(data, entries)
            holder[last] = intact
            try:
                opened = DataSet(data)
                opened[0]
                collator_for(opened)
                accepted += 1
            except UserError:
                refused += 1
                continue
            for command in (("verify", data), others[accepted % len(others)]):
                outcome = run_any(*command)
                assert outcome.status in {0, FAILURE, USER_ERROR}, (place, value, command)
                assert "unforeseen" not in outcome.errors, (place, value, command)
    assert refused > 4 * accepted
    assert accepted or shared


def test_every_path_that_is_listed_has_a_test() -> None:
    named = set(re.findall(r"`(test_\w+)`", (CHECKOUT / "SECURITY.md").read_text()))
    sources = "".join(path.read_text() for path in (CHECKOUT / "tests").rglob("test_*.py"))
    assert len(named) > 9
    assert not [name for name in named if f"def {name}(" not in sources]
