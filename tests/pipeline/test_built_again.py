"""A data set is built again from the options that `config` prints; nothing else in it is run."""

import gzip
import shutil
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.data_set import DataSet
from corpusmill.verification.check_data_set import verify
from tests.tools.growing import Growing
from tests.tools.jobs import (
    TWO_WORKERS,
    build,
    build_again,
    digests,
    list_text_objectives,
    read_manifest_json,
    run_any,
)
from tests.tools.knobs import SMALL_SIZES, knobs
from tests.tools.origins import check_provenance
from tests.tools.small_datasets import write_entries
from tests.tools.table_rows import for_rows

FLAGS = ("--validation-share", "0.4")
_MOVED = ("--fim-rate", "0.7", "--fim-cut", "tokens")
# Each way in which rows are made, joined or written, and whether two processes make them again:
# these start for seconds, and so are behind the second door.
WAYS: list[tuple[str, bool, tuple[str, ...]]] = [
    ("bert", False, ()),
    ("bert", False, ("--segments", "packed", "--duplicates", "1", "--mask", "dynamic")),
    ("bert", True, ("--segments", "full-sentences", "--whole-word-mask", "--ngram", "3")),
    ("bert", True, ("--segments", "sentence-order", "--whole-word-mask", "--mask", "dynamic")),
    ("bert", False, ("--pairs", "google", "--output-format", "tfrecord", "--compression", "gzip")),
    ("bert", False, ("--output-format", "avro", "--compression", "zstd")),
    ("electra", True, ("--overflow", "keep")),
    ("electra", False, ("--merge-documents",)),
    ("ernie", False, ("--mask", "static", "--words", "jieba")),
    ("ernie", True, ("--mask", "dynamic", "--output-format", "ernie-text")),
    ("gpt", False, ()),
    ("gpt", True, ("--document-rule", "wikitext", "--sentence-rule", "line")),
    ("gpt", True, ("--mode", "pack", "--max-seq-length", "64", "--order", "corpus")),
    ("gpt", False, ("--mode", "pack", "--max-seq-length", "64", *_MOVED)),
    ("gpt", False, ("--mode", "windows", "--max-seq-length", "40", "--overlap", "10")),
    ("gpt", False, ("--output-format", "megatron")),
    ("gpt", False, ("--output-format", "nanogpt")),
    ("gpt", False, ("--output-format", "mds")),
    ("t5", False, ()),
    ("t5", True, ("--output-format", "tfrecord", "--no-merge-documents", "--overflow", "keep")),
    ("t5", False, ("--preset", "ul2", "--mask", "dynamic")),
]  # fmt: skip


@pytest.fixture(scope="module")
def corpus(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A part of the sample in two files, one of them compressed, and with a reject."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = sample.read_bytes().splitlines(keepends=True)
    (folder / "a.txt").write_bytes(b"".join(lines[:120]))
    (folder / "b.txt.gz").write_bytes(
        gzip.compress(b"".join(lines[120:220]) + b"Not \xff text .\n")
    )
    return folder


@pytest.mark.parametrize(
    ("objective", "in_processes", "flags"), WAYS, ids=[" ".join((way[0], *way[2])) for way in WAYS]
)
def test_every_objective_gives_the_same_bytes_again_however_it_is_run(
    objective: str, in_processes: bool, flags: tuple[str, ...], corpus: Path,
    any_tokenizer: Path, tmp_path: Path,
) -> None:  # fmt: skip
    first, again = tmp_path / "first", tmp_path / "again"
    build([corpus], any_tokenizer, first, *FLAGS, *flags, objective=objective)
    assert verify(first) == []
    if objective != "gpt":  # whose rows may begin and end within a character's tokens
        assert check_provenance(first, corpus)
    moved = shutil.copytree(corpus, tmp_path / "moved")
    # Through all levels of files, on which no byte depends.
    way = TWO_WORKERS if in_processes else ("--range-bytes", "9999", *SMALL_SIZES)
    arguments = (first / "dataset.json", any_tokenizer, again, "--input", moved)
    with knobs(small=not in_processes):
        build_again(*arguments, *way, objective=objective)
    assert digests(again) == digests(first)


def test_every_objective_is_tried() -> None:
    assert {objective for objective, *_ in WAYS} == {*list_text_objectives()}


def keep_all(_text: str, _metadata: object) -> None:
    """A filter without an entry point."""


def one_word(text: str) -> list[tuple[int, int]]:
    """A rule of words without an entry point."""
    return [(0, len(text))] if text.strip() else []


def test_a_filtered_data_set_and_one_whose_shards_are_one_file(
    corpus: Path, wordpiece: Path, tmp_path: Path
) -> None:
    compared = ("--drop-overlap-with", corpus / "a.txt")
    joined = ("--mode", "stream", "--output-format", "nanogpt", "--num-shards", "4")
    functions = ("--filter", f"{__name__}:keep_all", "--words", f"{__name__}:one_word")
    cases: list[tuple[str, tuple[str | Path, ...], tuple[str | Path, ...]]] = [
        ("gpt", (*joined, "--drop-duplicates", *compared), compared),
        ("bert", (*functions, "--whole-word-mask"), ()),
    ]
    for objective, flags, again in cases:
        first, second = tmp_path / objective, tmp_path / f"{objective}-again"
        build([corpus], wordpiece, first, *flags, objective=objective)
        build_again(first, wordpiece, second, "--input", corpus, *again, objective=objective)
        assert digests(second) == digests(first)


@for_rows(
    ("entry", "values"),
    [
        ("filter", {"filters": [{"name": "builtins:exec", "package": None}]}),
        ("filter", {"filters": [{"name": "builtins:exec", "package": "corpusmill 1.0"}]}),
        ("filter", {"filters": [{"name": "no.such.module:f", "package": None}]}),
        ("words", {"whole_word_mask": True, "words": "os:system"}),
        ("words", {"whole_word_mask": True, "words": "subprocess:run"}),
    ],
)
def test_nothing_that_a_stranger_names_is_imported_or_called(
    entry: str, values: dict[str, Any], first: Growing, halves: tuple[Path, Path],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    shutil.copytree(first.output, folder)
    manifest = read_manifest_json(folder)
    if entry == "filter":
        manifest["corpus"]["filtering"] = {"drop_duplicates": False, "evaluation": None, **values}
    else:
        manifest["objective"]["options"].update(values)
    write_entries(folder, manifest)

    def refuse(*arguments: object) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr(EntryPoint, "load", refuse)
    for command in (
        ("verify", folder), ("inspect", folder), ("config", folder),
        ("trace", folder, "--row", "0", "--input", halves[0]),
        ("drop", folder, "--document", "0", "--workers", "1"),
    ):  # fmt: skip
        assert run_any(*command).status in {0, 1, 2}
    DataSet(folder)[0]
    collator_for(DataSet(folder))
