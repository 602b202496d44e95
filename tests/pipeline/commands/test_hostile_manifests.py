"""Manifests from anywhere, refused alike by readers, `verify` and `inspect`."""

import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
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


def in_entry(*path: str | int, **values: Any) -> Change:
    """Let the entry at a path have other values."""

    def set_values(entries: Any) -> None:
        for part in path:
            entries = entries[part]
        entries.update(values)

    return set_values


SHARD = ("splits", "train", "shards", 0)


def in_shard(**values: Any) -> Change:
    return in_entry(*SHARD, **values)


def in_column(column: int, **values: Any) -> Change:
    return in_entry("columns", column, **values)


def in_output(**values: Any) -> Change:
    return in_entry("output", "options", **values)


def in_special(**values: Any) -> Change:
    return in_entry("tokenizer", "special", **values)


def in_objective(**values: Any) -> Change:
    return in_entry("objective", "options", **values)


def in_train(**values: Any) -> Change:
    return in_entry("splits", "train", **values)


def in_distributions(**values: Any) -> Change:
    return in_entry("splits", "train", "distributions", **values)


NAMES = [
    "../x", "../../x", "/etc/passwd", "a/../../x", "a\\b", "..\\x", "C:x", "C:\\x", "..", ".",
    ".hidden", "a\nb", "a\0b", "\x1b[2Jx", "\x7f", "", 7, None,
]  # fmt: skip
NUMBERS = (-1, "1", None, 1.5, True, 2**62, 2**70, 10**400)
SPECIAL_IDS = ("cls_id", "sep_id", "mask_id", "pad_id", "unk_id", "eos_id", "bos_id")
# Columns of the data set: tokens, segments, class, positions, predicted ids.
CHANGES: dict[str, Change] = {
    **{f"shard {name!r}": in_shard(file=name) for name in [*NAMES, "a/b"]},
    **{f"file {name!r}": in_entry("files", 0, file=name) for name in NAMES},
    **{f"tokenizer {name!r}": in_entry("tokenizer", file=name) for name in NAMES},
    **{
        f"{key}={value!r:.9}": in_shard(**{key: value})
        for key in ("rows", "tokens", "bytes")
        for value in NUMBERS
    },
    **{
        f"{name}={value}": in_special(**{name: value})
        for name in SPECIAL_IDS
        for value in (-1, 600, 2**40, "0", 1.5, True)
    },
    **{
        f"all_ids={ids}": in_special(all_ids=ids)
        for ids in ([600], [-1], "01234", None, [0, 1, 2, 3, "4"])
    },
    **{
        f"{side}={ids}": in_special(**{side: ids})
        for side in ("before", "after")
        for ids in ([600], [-1], "0", 5, [0, "1"])
    },
    **{
        f"begin_of_text={ids}": in_entry(
            "objective", facts={"begin_of_text": ids, "end_of_text": []}
        )
        for ids in ([-1], "0", 5, [0, "1"], None)
    },
    "only special tokens": in_special(all_ids=[*range(600)]),
    **{
        f"vocabulary of {size}": in_entry("tokenizer", vocab_size=size)
        for size in ("600", 0, -1, 4, 40_000, 2**33, None)
    },
    "tokenizer": lambda entries: entries.pop("tokenizer"),
    "digest": in_shard(sha256="../../../../tmp/x"),
    "no digest": lambda entries: entries["splits"]["train"]["shards"][0].pop("sha256"),
    "unknown key": in_shard(__class__="os.system"),
    "a long name of a format": in_entry("corpus", "files", 0, resembles="x" * 100),
    "a long reject": lambda entries: entries.update(first_reject="x" * 2**15),
    "one shard twice": lambda entries: entries["splits"]["train"]["shards"].append(
        entries["splits"]["train"]["shards"][0]
    ),
    **{
        f"column {name!r}": in_column(1, name=name)
        for name in ("../x", "/x", "a.b", "", "input_ids", "_x", "__class__ ", "a\0", "\xe4", 7)
    },
    **{
        f"type {name!r}": in_column(0, dtype=name)
        for name in ("O", "object", "V8", "U9", "float64", "int16,int16", "bool", "", None, ["i1"])
    },
    "a type that lacks ids": in_column(0, dtype="int8", type="list<element: int8 not null>"),
    **{
        f"width {width}": in_column(0, width=width)
        for width in ("64", -2, 2**28 + 1, 2**31, 2**63, 1.5, None)
    },
    "tokens that are no lists": in_column(0, width=0, type="int16"),
    "a class that is a list": in_column(2, width=2, type="list<element: int8 not null>"),
    "a width of its own": in_column(1, width=16),
    **{f"pad {pad}": in_column(0, pad=pad) for pad in (2**15, -(2**15) - 1, 2**70, "0", None)},
    "smallest above largest": in_column(1, smallest=2),
    "smallest beside its type": in_column(1, smallest=-129),
    "largest beside its type": in_column(1, largest=128),
    "a class without a largest value": in_column(2, largest=None),
    "a class with a million values": in_column(
        2, largest=10**6, dtype="int32", type="int32"
    ),
    "a class with negative values": in_column(2, smallest=-1),
    "names of values that cannot be": in_column(2, value_names=["a", "b", "c"]),
    "role": in_column(1, role="code"),
    "a window": in_column(0, role="window"),
    "a role twice": in_column(1, role="token_ids"),
    "tokens that are not first": lambda entries: entries["columns"].reverse(),
    "positions without ids": lambda entries: entries["columns"].pop(),
    "ids without positions": lambda entries: entries["columns"].pop(3),
    "a text that steers a terminal": in_column(1, meaning="\x1b[2J"),
    "no columns": lambda entries: entries.update(columns=[]),
    "format": in_output(output_format="pickle"),
    "another format": in_output(output_format="avro"),
    "an option of code": in_output(loader="os.system"),
    "pattern": in_output(shard_name="../{shard}"),
    "attribute": in_output(shard_name="{shard.__class__}"),
    **{
        f"{name}={value}": in_output(**{name: value})
        for name, value in (
            ("padding", "none"), ("compression", "lzma"), ("compression", "deflate"),
            ("compression_level", 99), ("compression_level", "1"),
        )
    },
    **{
        f"validation share {share}": in_entry("output", validation_share=share)
        for share in (-0.5, 1, 7.5, float("nan"), float("inf"), "0.2", None)
    },
    **{
        f"objective {name!r}": in_entry("objective", name=name)
        for name in (7, None)
    },
    **{
        f"objective's {name}={value}": in_objective(**{name: value})
        for name, value in (
            ("max_seq_length", "64"), ("max_seq_length", -1), ("max_seq_length", None),
            ("max_seq_length", 1.5), ("duplicates", []), ("masked_lm_prob", "often"),
            ("masked_lm_prob", -1), ("masked_lm_prob", float("nan")), ("short_seq_prob", [0.1]),
            ("max_predictions_per_seq", 0), ("max_predictions_per_seq", {}), ("mask", "never"),
            ("whole_word_mask", 1), ("segments", "none"), ("words", 7), ("ngram", 10**9),
            ("pool_tokens", None), ("loader", "os.system"),
        )
    },
    "objective without options": in_entry("objective", options=None),
    "repeats": in_entry("objective", repeats=-1),
    **{f"seed {seed!r:.9}": in_entry(seed=seed) for seed in (-1, 2**64, "1", 1.5, None, 10**400)},
    "no splits": lambda entries: entries.pop("splits"),
    "splits": in_entry(splits=["train"]),
    "split": lambda entries: entries["splits"].update({"../x": entries["splits"].pop("train")}),
    "no shards": in_train(shards=[]),
    "rows of the split": in_train(rows=10**15),
    **{
        f"lengths {counts!s:.20}": in_distributions(length=counts)
        for counts in (
            [-1], ["1"], None, 7, {"9" * 15: 1}, {"-1": 1}, {"x": 1}, {"64": -1}, {"64": 2**70},
            {"64": None},
        )
    },
    "a distribution of fewer rows than none": in_distributions(predictions=[-3]),
    "negative counts": in_entry("counts", **{"read.lines": -1}),
    "huge counts": in_entry("counts", **{"read.lines": 10**400}),
    "counts of 2**62": in_entry("counts", **{"read.lines": 2**62}),
    "counts that are texts": in_entry("counts", **{"read.lines": "9"}),
    "half of a character": in_entry("tokenizer", name="\ud800"),
    "corpus": in_entry(corpus=[]),
    "bytes of the corpus": in_entry("corpus", bytes=-1),
    **{
        f"file of the corpus {name!r}": in_entry("corpus", "files", 0, path=name)
        for name in ("../x", "a/../../x", "/etc/passwd", "a\0b", "..", 7, None)
    },
    **{
        f"corpus {name}={value!r}": in_entry("corpus", "options", **{name: value})
        for name, value in (
            ("max_line_bytes", 2**62), ("max_line_bytes", "1"), ("max_document_bytes", -1),
            ("document_rule", "none"), ("sentence_rule", 7), ("language", "en"),
            ("keep_fields", "url"), ("keep_fields", ["digest"]), ("suffixes", [""]),
            ("text_field", None), ("loader", "os.system"),
        )
    },
    **{
        f"tokenizer {name}={value!r}": in_entry("tokenizer", "options", **{name: value})
        for name, value in (
            ("lowercase", "yes"), ("role_tokens", ["x"]), ("tiktoken_pattern", " "),
            ("special_tokens_in_text", None), ("loader", "os.system"),
        )
    },
    **{
        f"filtering {name}={value!r:.40}": in_entry("corpus", filtering={name: value})
        for name, value in (
            ("filters", [{"name": 7}]), ("filters", [{"name": "a"}, {"name": "a"}]),
            ("filters", "x"), ("drop_duplicates", "yes"),
            ("evaluation", {"files": [], "passages": -1}),
        )
    },
    "filtering": in_entry("corpus", filtering=[]),
    **{
        f"layout {entries!s:.40}": in_entry(provenance={"version": 1, "generations": [
            {"first_file": 0, "layout": {
                "seed": 1, "train_shards": 2, "validation_shards": 1, **entries}}]})
        for entries in (
            {"seed": -1}, {"seed": 2**64}, {"train_shards": 0}, {"train_shards": 100_000},
            {"validation_shards": -1}, {"firsts": [-1]}, {"firsts": [2**64]},
            {"sources": [{"first_document": 9 << 40, "repeat": 1, "train_shards": 2,
                          "validation_shards": 1}]},
        )
    },
    "no parts": in_entry(provenance={"version": 1, "generations": []}),
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


@pytest.mark.parametrize("name", CHANGES)
def test_a_manifest_that_must_not_be_believed_is_refused_by_all(
    name: str, data: Path, tmp_path: Path
) -> None:
    change(data, CHANGES[name])
    before = sorted(tmp_path.rglob("*"))
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


def test_there_are_as_many_hostile_manifests_as_one_can_think_of() -> None:
    assert len(CHANGES) >= 40


def remove_last_column(rows: Entries) -> None:
    rows["columns"] = rows["columns"][:3]


def pad_rows(entries: Entries) -> None:
    in_output(padding="max_length")(entries)
    for column in entries["columns"]:
        if column["width"]:
            kind = column["type"].replace("list", "fixed_size_list")
            column.update(type=f"{kind}[{column['width']}]")


# What only the files can tell.
LIES: dict[str, Change] = {
    "fewer columns": remove_last_column,
    "a wider type": in_column(0, dtype="int64", type="list<element: int64 not null>"),
    "another role": in_column(1, role="token_values"),
    "another name": in_column(1, name="segment_ids"),
    "another digest": in_shard(sha256="0" * 64),
    "another size": in_shard(bytes=7),
    "no such shard": in_shard(file="train-00009-of-00009.parquet"),
    "another tokenizer": in_entry("tokenizer", sha256="0" * 64),
    "no such tokenizer": lambda entries: entries["files"].pop(0),
    "padded": pad_rows,
    "another objective": in_entry(objective={"name": "ernie", "options": {}, "repeats": 1}),
    "more counts": in_entry("counts", **{"read.lines": 2**56}),
    "another file of the tokenizer": in_entry("tokenizer", file="README.md"),
    "fewer special tokens": in_special(all_ids=[0, 1, 2]),
    "two entries": lambda entries: entries["files"].append(entries["files"][0]),
    "no padding": in_output(padding=None),
    "no compression": in_output(compression=None),
    "tokens of the split": in_train(tokens=9),
    "no lengths": lambda entries: entries["splits"]["train"]["distributions"].pop("length"),
    "no lengths that occur": in_distributions(length=[]),
    "a length of 0": in_distributions(length=[1]),
    "no length": in_distributions(length={}),
    "a distribution of other rows": in_distributions(predictions=[3]),
    "another distribution": in_distributions(other=[0, 7]),
    "provenance that is not there": in_entry(provenance={
        "version": 1, "generations": [{"first_file": 0, "layout": {
            "seed": 1, "train_shards": 2, "validation_shards": 1}}]}),
}  # fmt: skip

# What neither the digests nor the rows of a data set tell.
UNSEEN = {
    "another role", "another objective", "fewer special tokens", "two entries",
    "no padding", "no compression", "tokens of the split", "another distribution",
    "provenance that is not there",
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_a_manifest_that_lies_ends_in_no_other_error(name: str, data: Path, tmp_path: Path) -> None:
    change(data, LIES[name])
    problems = verify(data)
    assert all(str(problem).isprintable() for problem in problems)
    for read in (lambda: take_all(data, tmp_path / "cache"), lambda: show(data)):
        with suppress(UserError):
            read()
    assert problems or name in UNSEEN


def take_all(data: Path, cache_folder: Path) -> None:
    opened = DataSet(data, cache_folder=cache_folder)
    collate = collator_for(opened)
    collate(collate.prepare(opened.take(np.arange(len(opened)))))


@pytest.mark.parametrize("name", ["tokenizer.json", "train-00000-of-00002.parquet"])
@pytest.mark.parametrize("content", [None, b"", b"PAR1 but not really", b"{}"])
def test_a_damaged_data_set_is_not_shown(name: str, content: bytes | None, data: Path) -> None:
    if content is None:
        (data / name).unlink()
    else:
        (data / name).write_bytes(content)
    with pytest.raises(UserError, match="Find out with `verify` what is damaged") as refused:
        show(data)
    assert refused.value.value == f"{data}/{name}"


def test_rows_that_are_masked_whole_need_their_words(tmp_path: Path) -> None:
    data = tmp_path / "out"
    write_dataset(data, Recipe(OBJECTIVES["bert_dynamic"], OutputOptions(), shards=1))
    change(data, lambda entries: entries["columns"].pop())
    with pytest.raises(UserError, match="the rows lack the words that are masked whole"):
        collator_for(DataSet(data, cache_folder=tmp_path / "cache"))
