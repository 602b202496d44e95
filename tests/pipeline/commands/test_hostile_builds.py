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
from corpusmill.verification.check_data_set import verify
from tests.conftest import CHECKOUT
from tests.tools.data_files import find_file, find_files
from tests.tools.jobs import build, read_manifest_json, run_any, run_here
from tests.tools.small_datasets import write_entries

Entries = dict[str, Any]
Lie = Callable[[Path, Entries], object]
SPLIT = ("--validation-share", "0.2")
DATA_SETS = {
    "bert": ("bert", SPLIT),
    "bert-packed": ("bert", ("--segments", "packed", "--duplicates", "1", "--mask", "dynamic")),
    "electra": ("electra", SPLIT),
    "ernie": ("ernie", ()),
    "t5": ("t5", SPLIT),
    "gpt-pack": ("gpt", ("--mode", "pack", "--max-seq-length", "64", "--order", "corpus")),
    "gpt-joined": ("gpt", ("--mode", "stream", "--output-format", "nanogpt")),
}


@pytest.fixture(scope="module")
def text(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two fifths of the sample."""
    file = tmp_path_factory.mktemp("corpus") / "text"
    file.write_bytes(b"".join(sample.read_bytes().splitlines(keepends=True)[:230]))
    return file


@pytest.fixture(scope="module")
def made(
    text: Path, wordpiece: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("provenance")

    def make(name: str) -> Path:
        objective, flags = DATA_SETS[name]
        if not (folder / name).exists():
            build([text], wordpiece, folder / name, *flags, objective=objective)
        return folder / name

    return make


def reseal(data: Path, entries: Entries) -> None:
    """Give a changed data set the digests, the sizes and the seal of an honest one."""
    shards = [shard for split in entries["splits"].values() for shard in split["shards"]]
    for entry in (*entries["files"], *shards):
        if (data / entry["file"]).exists():
            content = (data / entry["file"]).read_bytes()
            entry.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    write_entries(data, entries)


def exchange(first: str, second: str) -> Lie:
    def swap(data: Path, _: Entries) -> None:
        paths = find_file(data, first), find_file(data, second)
        paths[0].rename(data / "z")
        paths[1].rename(paths[0])
        (data / "z").rename(paths[1])

    return swap


def name_of(kind: str, number: int = 0, split: str = "train", total: int = 3) -> str:
    return f"provenance/{kind}-{split}-{number:05d}-of-{total:05d}.parquet"


def in_table(name: str, change: Callable[[pa.Table], pa.Table], **options: Any) -> Lie:
    def rewrite(data: Path, _: Entries) -> None:
        path = find_file(data, name)
        table = change(pq.read_table(path))
        pq.write_table(table, path, **{"store_schema": False, **options})

    return rewrite


def in_column(kind: str, column: str, change: Callable[[np.ndarray], Any], number: int = 0) -> Lie:
    def set_column(table: pa.Table) -> pa.Table:
        place, field = table.schema.get_field_index(column), table.schema.field(column)
        values = change(table.column(column).to_numpy().copy())
        return table.set_column(place, field, pa.array(values, field.type))

    return in_table(name_of(kind, number), set_column)


def spans(column: str, change: Callable[[np.ndarray], Any]) -> Lie:
    return in_column("spans", column, change)


def documents(column: str, change: Callable[[np.ndarray], Any]) -> Lie:
    return in_column("documents", column, change)


def at(place: int, value: int) -> Callable[[np.ndarray], np.ndarray]:
    """Add a value, modulo the size of its type, to one line."""

    def add(values: np.ndarray) -> np.ndarray:
        values[place] += np.array(value).astype(values.dtype)
        return values

    return add


def reverse_rows(table: pa.Table) -> pa.Table:
    """Let the rows of a shard have one another's spans."""
    rows = table.column("row").to_numpy()
    order = np.lexsort((table.column("place").to_numpy(), -rows.astype(np.int64)))
    return table.take(order).set_column(
        0, table.schema.field(0), pa.array(rows.max() - rows[order])
    )


def exchange_two_rows_of_one_length(table: pa.Table) -> pa.Table:
    frame = table.to_pandas()
    sizes = frame.groupby("row")["tokens"].sum()
    of_row = frame.groupby("row")["document"].first()
    first = sizes.index[0]
    second = next(
        row for row in sizes.index
        if sizes[row] == sizes[first] and of_row[row] != of_row[first]
    )  # fmt: skip
    frame["row"] = frame["row"].replace({first: second, second: first})
    frame = frame.sort_values(["row", "place"])
    return pa.Table.from_pandas(frame, schema=table.schema, preserve_index=False)


def in_manifest(*path: str | int, **values: Any) -> Lie:
    def set_values(_: Path, entries: Any) -> None:
        for part in path:
            entries = entries[part]
        entries.update(values)

    return set_values


def drop_first_shard_row(data: Path, entries: Entries) -> None:
    """Take a row from a shard, and from all that the manifest says of it."""
    shard = entries["splits"]["train"]["shards"][0]
    table = pq.read_table(data / shard["file"])
    length = len(table.column("input_ids")[table.num_rows - 1])
    pq.write_table(table.slice(0, table.num_rows - 1), data / shard["file"], store_schema=False)
    for entry in (shard, entries["splits"]["train"]):
        entry["rows"] -= 1
        entry["tokens"] -= length
    entries["counts"]["write.rows"] -= 1
    for name, counts in entries["splits"]["train"]["distributions"].items():
        value = length if name == "length" else next(n for n, count in enumerate(counts) if count)
        counts[value] -= 1


def forget_file(name: str) -> Lie:
    def remove(data: Path, entries: Entries) -> None:
        path = find_file(data, name)
        entries["files"] = [each for each in entries["files"] if data / each["file"] != path]
        path.unlink()

    return remove


def copy_file(source: str, target: str) -> Lie:
    return lambda data, _: shutil.copyfile(find_file(data, source), find_file(data, target))


def rename_files(_: Path, entries: Entries) -> None:
    """Let the manifest list the files of spans in another order."""
    names = [f"v1/{name_of('spans', number)}" for number in (1, 0)]
    for entry in entries["files"]:
        if entry["file"] in names:
            entry["file"] = names[1 - names.index(entry["file"])]


LIES: dict[str, Lie] = {
    "spans of two shards exchanged": exchange(name_of("spans"), name_of("spans", 1)),
    "documents of two shards exchanged": exchange(name_of("documents"), name_of("documents", 1)),
    "spans of one shard twice": copy_file(name_of("spans"), name_of("spans", 1)),
    "spans of the other split": copy_file(name_of("spans", split="validation", total=1),
                                          name_of("spans")),
    "documents of the other split": copy_file(name_of("documents", split="validation", total=1),
                                              name_of("documents")),
    "documents in place of spans": copy_file(name_of("documents"), name_of("spans")),
    "no spans": in_table(name_of("spans"), lambda table: table.slice(0, 0)),
    "no documents": in_table(name_of("documents"), lambda table: table.slice(0, 0)),
    "no lines of the last row": in_table(
        name_of("spans"),
        lambda table: table.filter(pa.array(np.asarray(table["row"]) < table["row"][-1].as_py())),
    ),
    "a line of a row less": in_table(name_of("spans"), lambda table: table.slice(1)),
    "a line twice": in_table(
        name_of("spans"), lambda table: pa.concat_tables([table.slice(0, 1), table])
    ),
    "rows with one another's spans": in_table(name_of("spans"), reverse_rows),
    "two rows of one length exchanged": in_table(
        name_of("spans"), exchange_two_rows_of_one_length
    ),
    "rows that descend": in_table(name_of("spans"), lambda table: table.take(
        np.arange(table.num_rows)[::-1])),
    "rows numbered from 1": spans("row", lambda rows: rows + np.uint32(1)),
    "a row of 2**31": spans("row", at(-1, 2**31)),
    "places all 0": spans("place", np.zeros_like),
    "a token more in a row": spans("tokens", at(0, 1)),
    "a token less in a row": spans("tokens", at(0, -1)),
    "no tokens": spans("tokens", np.zeros_like),
    "tokens behind the end of a document": spans("first_token", at(0, 10**6)),
    "a token of 2**32 - 1": spans("first_token", at(0, -1 - 10**3)),
    "another repeat": spans("repeat", at(0, 1)),
    "a repeat that there is not": spans("repeat", lambda repeats: repeats + np.uint16(1000)),
    "a document that no table lists": spans("document", at(0, 1)),
    "a document of no file": spans("document", at(0, 2**60)),
    "all of one document": spans("document", lambda ids: np.full_like(ids, ids[0])),
    "spans of text": in_table(
        name_of("spans"),
        lambda table: table.set_column(2, "document", table["document"].cast(pa.string())),
    ),
    "spans of doubles": in_table(
        name_of("spans"),
        lambda table: table.set_column(4, "tokens", table["tokens"].cast(pa.float64())),
    ),
    "a column of spans less": in_table(name_of("spans"), lambda table: table.drop(["repeat"])),
    "spans without statistics": in_table(
        name_of("spans"), lambda table: table, write_statistics=False
    ),
    "spans that are no table": lambda data, _: find_file(
        data, name_of("spans")).write_bytes(b"PAR1" * 9),
    "a document less": in_table(name_of("documents"), lambda table: table.slice(1)),
    "a document more": in_table(
        name_of("documents"),
        lambda table: pa.concat_tables([table, table.slice(table.num_rows - 1).set_column(
            0, table.schema.field(0), pa.array([table["document"][-1].as_py() + 1], pa.uint64()))]),
    ),
    "documents that descend": in_table(name_of("documents"), lambda table: table.take(
        np.arange(table.num_rows)[::-1])),
    "documents of no file": documents("document", lambda ids: ids + np.uint64(2**50)),
    "a document of another place": documents("document", at(3, 1)),
    "documents with a token less": documents("tokens", at(0, -1)),
    "documents without tokens": documents("tokens", np.zeros_like),
    "documents without ids": in_table(
        name_of("documents"),
        lambda table: table.set_column(
            0, "document", pa.array([None] * table.num_rows, pa.uint64())
        ),
    ),
    "documents of text": in_table(
        name_of("documents"),
        lambda table: table.set_column(3, "digest", table["digest"].cast(pa.string())),
    ),
    "a field that was not kept": in_table(
        name_of("documents"),
        lambda table: table.append_column("url", pa.array(["x"] * table.num_rows)),
    ),
    "documents without statistics": in_table(
        name_of("documents"), lambda table: table, write_statistics=False
    ),
    "a row of a shard less": drop_first_shard_row,
    "spans that are not listed": forget_file(name_of("spans", 2)),
    "documents that are not listed": forget_file(name_of("documents", 2)),
    "spans in another order": rename_files,
    "no provenance": lambda _, entries: entries.pop("provenance"),
    "provenance without spans": in_manifest("provenance", has_spans=False),
    "another seed of the layout": in_manifest("provenance", "generations", 0, "layout", seed=9),
    "another seed": in_manifest(seed=9),
    "more shards": in_manifest("provenance", "generations", 0, "layout", train_shards=4),
    "no shards": in_manifest("provenance", "generations", 0, "layout", train_shards=0),
    "2**62 shards": in_manifest("provenance", "generations", 0, "layout", train_shards=2**62),
    "another order": in_manifest("provenance", "generations", 0, "layout", firsts=[0, 1, 2, 3]),
    "another share": in_manifest("output", validation_share=0.5),
    "other repeats": in_manifest("objective", repeats=1),
    "a first file": in_manifest("provenance", "generations", 0, first_file=1),
    "a tag": in_manifest("provenance", "generations", 0, tag="more1"),
    "no parts": in_manifest("provenance", generations=[]),
    "no files of the corpus": in_manifest("corpus", files=[]),
    "a removal": in_manifest(removals=[{"reason": "x", "documents": 1, "rows": 0, "tokens": 0,
                                        "segment_tokens": 0, "is_listed": False}]),
    "more documents": in_manifest("counts", **{"tokenize.documents": 10**6}),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_found_and_ends_in_no_other_error(
    name: str, made: Callable[[str], Path], tmp_path: Path
) -> None:
    data = Path(shutil.copytree(made("bert"), tmp_path / "out"))
    entries = read_manifest_json(data)
    LIES[name](data, entries)
    reseal(data, entries)
    found = run_any("verify", data)
    assert found.status in {FAILURE, USER_ERROR}
    assert "unforeseen" not in found.errors
    assert "Traceback" not in found.output + found.errors
    id_of = str(pq.read_table(find_file(made("bert"), name_of("documents")))["document"][0].as_py())
    commands: list[tuple[str | Path, ...]] = [
        ("trace", data, "--row", "0", "20", "--no-text"),
        ("trace", data, "--document", id_of),
        ("trace", data, "--where", "tokens > 0"),
        ("drop", data, "--document", id_of, "--workers", "1"),
    ]
    for command in commands:
        outcome = run_any(*command)
        is_lie_about_rows = name.startswith(("spans of", "rows", "two rows", "all of one"))
        # Spans that do not name the document are not compared with those of other shards.
        is_lie_about_rows &= name != "spans of the other split"
        assert outcome.status in ({USER_ERROR} if command[0] == "drop" and is_lie_about_rows else
                                  {0, USER_ERROR}), (command, outcome.errors)  # fmt: skip
        assert "unforeseen" not in outcome.errors


@pytest.mark.parametrize("name", DATA_SETS)
@pytest.mark.parametrize("edited", ["spans", "documents"])
def test_what_two_shards_have_exchanged_is_found_for_every_objective(
    name: str, edited: str, made: Callable[[str], Path], tmp_path: Path
) -> None:
    assert not verify(made(name))
    data = Path(shutil.copytree(made(name), tmp_path / "out"))
    files = find_files(data, f"provenance/{edited}-train-*")
    first, second = [path for path in files if pq.read_metadata(path).num_rows][:2]
    exchange(f"provenance/{first.name}", f"provenance/{second.name}")(data, {})
    reseal(data, read_manifest_json(data))
    assert verify(data)


def test_a_removal_must_list_its_documents(made: Callable[[str], Path], tmp_path: Path) -> None:
    data = Path(shutil.copytree(made("bert"), tmp_path / "out"))
    ids = pq.read_table(find_file(data, name_of("documents")))["document"].to_pylist()[:2]
    run_here("drop", data, "--document", *map(str, ids), "--workers", "1")
    assert not verify(data)
    entries = read_manifest_json(data)
    in_table("provenance/removed-00000.parquet", lambda table: table.slice(1))(data, entries)
    reseal(data, entries)
    [problem] = verify(data)
    assert "lists 1 documents, and 2 were removed" in str(problem)


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
