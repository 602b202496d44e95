"""Manifests from anywhere, refused alike by readers, `verify` and `inspect`."""

import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from corpusmill.commands.command import Call
from corpusmill.commands.inspect import Inspect
from corpusmill.commands.inspection import inspect
from corpusmill.dataset.manifest_json import seal
from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions
from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.data_set import DataSet
from corpusmill.verification.check_data_set import verify
from tests.tools.small_datasets import OBJECTIVES, Recipe, write_dataset
from tests.tools.table_rows import check_rows

Entries = dict[str, Any]
Change = Callable[[Entries], object]


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "out"
    write_dataset(folder, Recipe(shards=2))
    return folder


@pytest.fixture
def data(intact: Path, tmp_path: Path) -> Path:
    """A copy, beside files that are not its own."""
    copy = Path(shutil.copytree(intact, tmp_path / "in" / "out"))
    for place in (tmp_path / "x", tmp_path / "in" / "x", tmp_path / "in" / "tokenizer.json"):
        place.write_bytes(b"not of the data set")
    return copy


def change(data: Path, by: Change) -> None:
    entries = json.loads((data / "dataset.json").read_text())
    by(entries)
    (data / "dataset.json").write_bytes(seal(json.dumps(entries).encode()))


def at(*path: str | int, **values: Any) -> Change:
    """Let the entry at a path have other values."""

    def set_values(entries: Any) -> None:
        reduce(getitem, path, entries).update(values)

    return set_values


SHARD, TRAIN = ("splits", "train", "shards", 0), ("splits", "train")
SPECIAL, OUTPUT = ("tokenizer", "special"), ("output", "options")
OBJECTIVE = ("objective", "options")
NAMES = ("../x", "/etc/passwd", "a/../../x", "..\\x", "C:x", ".hidden", "a\nb", "a\0b", "", 7, None)
NUMBERS = (-1, "1", None, 1.5, 2**62, 10**400)
IDS = ([600], [-1], "0", 5, [0, "1"])


def layouts(*changes: Entries) -> list[Entries]:
    """Provenance of one run, with other entries in its layout."""
    sound = {"seed": 1, "train_shards": 2, "validation_shards": 1}
    return [
        {"version": 1, "generations": [{"first_file": 0, "layout": {**sound, **entries}}]}
        for entries in changes
    ]


# Where an entry stands, its name, and what it must not be. The columns of the data set are tokens,
# segments, a class, positions and predicted ids.
WRONG: list[tuple[tuple[str | int, ...], str, Sequence[Any]]] = [
    # Paths
    (SHARD, "file", (*NAMES, "a/b")),
    (("files", 0), "file", NAMES),
    (("tokenizer",), "file", NAMES),
    (("corpus", "files", 0), "path", ("../x", "/etc/passwd", "a\0b", 7)),
    (SHARD, "sha256", ("../../../../tmp/x",)),
    (OUTPUT, "shard_name", ("../{shard}", "{shard.__class__}")),
    # Code
    (SHARD, "__class__", ("os.system",)),
    (OUTPUT, "loader", ("os.system",)),
    (OBJECTIVE, "loader", ("os.system",)),
    (("corpus", "options"), "loader", ("os.system",)),
    (("tokenizer", "options"), "loader", ("os.system",)),
    # Texts
    (("tokenizer",), "name", ("\ud800",)),
    (("columns", 1), "meaning", ("\x1b[2J",)),
    (("corpus", "files", 0), "resembles", ("x" * 100,)),
    ((), "first_reject", ("x" * 2**15,)),
    # Numbers
    *((SHARD, name, NUMBERS) for name in ("rows", "tokens", "bytes")),
    ((), "seed", (-1, 2**64, "1", 10**400)),
    (("objective",), "repeats", (-1,)),
    (("corpus",), "bytes", (-1,)),
    (("counts",), "read.lines", (-1, 2**62, 10**400, "9")),
    (("output",), "validation_share", (-0.5, 1, float("nan"), "0.2")),
    (TRAIN, "rows", (10**15,)),
    (TRAIN, "shards", ([],)),
    ((*TRAIN, "distributions"), "length", (
        [-1], ["1"], 7, {"9" * 15: 1}, {"-1": 1}, {"x": 1}, {"64": -1}, {"64": 2**70},
    )),
    ((*TRAIN, "distributions"), "predictions", ([-3],)),
    # The tokenizer
    *((SPECIAL, f"{role}_id", (-1, 600, "0", 1.5))
      for role in ("cls", "sep", "mask", "pad", "unk", "eos", "bos")),
    *((SPECIAL, name, IDS) for name in ("all_ids", "before", "after")),
    (SPECIAL, "all_ids", ([*range(600)],)),
    (("objective",), "facts", tuple(
        {"begin_of_text": ids, "end_of_text": []} for ids in ([-1], "0", None))),
    (("tokenizer",), "vocab_size", ("600", -1, 4, 2**33)),
    # Columns
    ((), "columns", ([],)),
    (("columns", 1), "name", ("../x", "a.b", "", "input_ids", "_x", "a\0", "\xe4", 7)),
    (("columns", 0), "dtype", ("object", "V8", "float64", "int16,int16", "", None, ["i1"])),
    (("columns", 0), "width", ("64", -2, 2**28 + 1, 2**63)),
    (("columns", 1), "width", (16,)),
    (("columns", 0), "pad", (2**15, 2**70, "0")),
    (("columns", 1), "smallest", (2, -129)),
    (("columns", 1), "largest", (128,)),
    (("columns", 2), "largest", (None,)),
    (("columns", 2), "smallest", (-1,)),
    (("columns", 2), "value_names", (["a", "b", "c"],)),
    (("columns", 1), "role", ("code", "token_ids")),
    (("columns", 0), "role", ("window",)),
    # Options
    (OUTPUT, "output_format", ("pickle", "avro")),
    (OUTPUT, "padding", ("none",)),
    (OUTPUT, "compression", ("lzma", "deflate")),
    (OUTPUT, "compression_level", (99, "1")),
    (("objective",), "name", (7,)),
    (("objective",), "options", (None,)),
    (OBJECTIVE, "max_seq_length", ("64", -1)),
    (OBJECTIVE, "duplicates", ([],)),
    (OBJECTIVE, "masked_lm_prob", (float("nan"),)),
    (OBJECTIVE, "mask", ("never",)),
    (OBJECTIVE, "ngram", (10**9,)),
    ((), "corpus", ([],)),
    (("corpus", "options"), "max_line_bytes", (2**62,)),
    (("corpus", "options"), "document_rule", ("none",)),
    (("corpus", "options"), "language", ("en",)),
    (("corpus", "options"), "keep_fields", (["digest"],)),
    (("corpus", "options"), "suffixes", ([""],)),
    (("tokenizer", "options"), "lowercase", ("yes",)),
    (("tokenizer", "options"), "role_tokens", (["x"],)),
    (("tokenizer", "options"), "tiktoken_pattern", (" ",)),
    (("tokenizer", "options"), "special_tokens_in_text", (None,)),
    (("corpus",), "filtering", (
        [], {"filters": [{"name": 7}]}, {"filters": [{"name": "a"}, {"name": "a"}]},
        {"filters": "x"}, {"drop_duplicates": "yes"},
        {"evaluation": {"files": [], "passages": -1}},
    )),
    ((), "splits", (["train"],)),
    ((), "provenance", (
        {"version": 1, "generations": []},
        *layouts(
            {"seed": -1}, {"seed": 2**64}, {"train_shards": 0}, {"train_shards": 100_000},
            {"validation_shards": -1}, {"firsts": [-1]}, {"firsts": [2**64]},
            {"sources": [{"first_document": 9 << 40, "repeat": 1, "train_shards": 2,
                          "validation_shards": 1}]},
        ),
    )),
]  # fmt: skip
CHANGES: dict[str, Change] = {
    **{
        f"{path} {name} = {value!r:.60}": at(*path, **{name: value})
        for path, name, values in WRONG
        for value in values
    },
    "a type that lacks ids": at("columns", 0, dtype="int8", type="list<element: int8 not null>"),
    "tokens that are no lists": at("columns", 0, width=0, type="int16"),
    "a class that is a list": at("columns", 2, width=2, type="list<element: int8 not null>"),
    "a class with many values": at("columns", 2, largest=10**6, dtype="int32", type="int32"),
    "tokens that are not first": lambda entries: entries["columns"].reverse(),
    "positions without ids": lambda entries: entries["columns"].pop(),
    "ids without positions": lambda entries: entries["columns"].pop(3),
    "no tokenizer": lambda entries: entries.pop("tokenizer"),
    "no splits": lambda entries: entries.pop("splits"),
    "split": lambda entries: entries["splits"].update({"../x": entries["splits"].pop("train")}),
    "no digest": lambda entries: entries["splits"]["train"]["shards"][0].pop("sha256"),
    "one shard twice": lambda entries: entries["splits"]["train"]["shards"].append(
        entries["splits"]["train"]["shards"][0]
    ),
}  # fmt: skip


_WATCHERS = list[list[str]]()


@cache
def watch_files() -> None:
    """Note the files that are opened, by one hook for all tests: no hook can be removed."""

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if _WATCHERS and event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            _WATCHERS[-1].append(os.fsdecode(arguments[0]))

    sys.addaudithook(note)


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """Yield a list of the files that are opened from now on."""
    watch_files()
    opened = list[str]()
    _WATCHERS.append(opened)
    try:
        yield opened
    finally:
        _WATCHERS.pop()


def show(data: Path) -> int:
    return inspect(Inspect(str(data), examples=20), Call(Console(file=io.StringIO())))


def test_a_manifest_that_must_not_be_believed_is_refused_by_all(data: Path, tmp_path: Path) -> None:
    sound = (data / "dataset.json").read_bytes()
    before = sorted(tmp_path.rglob("*"))

    def check(name: str) -> None:
        (data / "dataset.json").write_bytes(sound)
        change(data, CHANGES[name])
        messages = set()
        with opened_files() as opened:
            for read in (
                lambda: DataSet(data, cache_folder=tmp_path / "cache"),
                lambda: verify(data),
                lambda: show(data),
            ):
                with pytest.raises(UserError) as refused:
                    read()
                messages.add(str(refused.value))
        [message] = messages
        assert message.startswith(f"{data}/dataset.json: ")
        assert message.isprintable()
        assert sorted(tmp_path.rglob("*")) == before
        own = {str(data / "dataset.json")}
        assert {path for path in opened if path.startswith(str(tmp_path))} <= own

    check_rows(CHANGES, check)


def remove_last_column(rows: Entries) -> None:
    rows["columns"] = rows["columns"][:3]


def pad_rows(entries: Entries) -> None:
    at(*OUTPUT, padding="max_length")(entries)
    for column in entries["columns"]:
        if column["width"]:
            kind = column["type"].replace("list", "fixed_size_list")
            column.update(type=f"{kind}[{column['width']}]")


# What only the files can tell.
LIES: dict[str, Change] = {
    "fewer columns": remove_last_column,
    "a wider type": at("columns", 0, dtype="int64", type="list<element: int64 not null>"),
    "another role": at("columns", 1, role="token_values"),
    "another name": at("columns", 1, name="segment_ids"),
    "another digest": at(*SHARD, sha256="0" * 64),
    "another size": at(*SHARD, bytes=7),
    "no such shard": at(*SHARD, file="train-00009-of-00009.parquet"),
    "another tokenizer": at("tokenizer", sha256="0" * 64),
    "no such tokenizer": lambda entries: entries["files"].pop(0),
    "padded": pad_rows,
    "another objective": at(objective={"name": "ernie", "options": {}, "repeats": 1}),
    "more counts": at("counts", **{"read.lines": 2**56}),
    "another file of the tokenizer": at("tokenizer", file="README.md"),
    "fewer special tokens": at(*SPECIAL, all_ids=[0, 1, 2]),
    "two entries": lambda entries: entries["files"].append(entries["files"][0]),
    "no padding": at(*OUTPUT, padding=None),
    "no compression": at(*OUTPUT, compression=None),
    "tokens of the split": at(*TRAIN, tokens=9),
    "no lengths": lambda entries: entries["splits"]["train"]["distributions"].pop("length"),
    "no lengths that occur": at(*TRAIN, "distributions", length=[]),
    "a length of 0": at(*TRAIN, "distributions", length=[1]),
    "no length": at(*TRAIN, "distributions", length={}),
    "a distribution of other rows": at(*TRAIN, "distributions", predictions=[3]),
    "another distribution": at(*TRAIN, "distributions", other=[0, 7]),
    "provenance that is not there": at(provenance=layouts({})[0]),
}  # fmt: skip

# What neither the digests nor the rows of a data set tell.
UNSEEN = {
    "another role", "another objective", "fewer special tokens", "two entries",
    "no padding", "no compression", "tokens of the split", "another distribution",
    "provenance that is not there",
}  # fmt: skip


def test_a_manifest_that_lies_ends_in_no_other_error(data: Path, tmp_path: Path) -> None:
    sound = (data / "dataset.json").read_bytes()

    def check(name: str) -> None:
        (data / "dataset.json").write_bytes(sound)
        change(data, LIES[name])
        problems = verify(data)
        assert all(str(problem).isprintable() for problem in problems)
        for read in (lambda: take_all(data, tmp_path / name), lambda: show(data)):
            with suppress(UserError):
                read()
        assert problems or name in UNSEEN

    check_rows(LIES, check)


def take_all(data: Path, cache_folder: Path) -> None:
    opened = DataSet(data, cache_folder=cache_folder)
    collate = collator_for(opened)
    collate(collate.prepare(opened.take(np.arange(len(opened)))))


def test_a_damaged_data_set_is_not_shown(data: Path) -> None:
    for name in ("tokenizer.json", "train-00000-of-00002.parquet"):
        sound = (data / name).read_bytes()
        for content in (None, b"", b"PAR1 but not really", b"{}"):
            if content is None:
                (data / name).unlink()
            else:
                (data / name).write_bytes(content)
            with pytest.raises(UserError, match="Find out with `verify` what is damaged") as error:
                show(data)
            assert error.value.value == f"{data}/{name}"
        (data / name).write_bytes(sound)


def test_rows_that_are_masked_whole_need_their_words(tmp_path: Path) -> None:
    data = tmp_path / "out"
    write_dataset(data, Recipe(OBJECTIVES["bert_dynamic"], OutputOptions(), shards=1))
    change(data, lambda entries: entries["columns"].pop())
    with pytest.raises(UserError, match="the rows lack the words that are masked whole"):
        collator_for(DataSet(data, cache_folder=tmp_path / "cache"))
