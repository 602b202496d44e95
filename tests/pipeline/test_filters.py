"""Documents that are left out of a data set, through the whole job."""

import json
import os
import re
from pathlib import Path

import pytest

import transforms.build
import transforms.corpus.duplicates
import transforms.corpus.prepare
from corpusmill import plugins
from corpusmill.commands.build_command import commands_of
from corpusmill.console.process import FAILURE
from tests.conftest import CHECKOUT
from tests.tools.data_files import manifest_of
from tests.tools.jobs import (
    TWO_WORKERS,
    assert_same_bytes,
    build,
    digests,
    read_manifest_json,
    run_here,
    shards_of,
)

FILTERS = """
def keep_long(text, metadata):
    assert metadata["file"] == "wiki.sample.tokens", metadata
    return None if len(text) > 300 else "too-short"

def drop_odd(text, metadata):
    return "odd" if metadata["offset"] % 2 else True

def fail(text, metadata):
    raise LookupError("no such list")
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with two filters, which workers find as well."""
    installed = tmp_path / "site"
    information = installed / "strict_filters-2.5.dist-info"
    information.mkdir(parents=True)
    (installed / "strict_filters.py").write_text(FILTERS)
    (information / "METADATA").write_text("Name: strict-filters\nVersion: 2.5\n")
    (information / "top_level.txt").write_text("strict_filters\n")
    (information / "entry_points.txt").write_text(
        "[corpusmill.filters]\nlong = strict_filters:keep_long\nfail = strict_filters:fail\n"
    )
    monkeypatch.syspath_prepend(installed)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(installed), str(CHECKOUT))))
    plugins.installed_entries.cache_clear()
    return installed


@pytest.mark.usefixtures("package")
def test_filters_of_an_installed_package_give_the_same_bytes_for_any_workers(
    sample: Path, tokenizer_path: Path, output: Path
) -> None:
    filters = ("--filter", "strict_filters:drop_odd", "long")
    printed = build([sample], tokenizer_path, output, *filters)
    manifest = read_manifest_json(output)
    counts = manifest["counts"]
    reasons = {"odd": 55, "too-short": counts["filter.dropped.too-short"]}
    assert reasons["too-short"] > 0
    assert counts["filter.documents"] == counts["read.documents"] == 105
    assert counts["filter.dropped"] == sum(reasons.values())
    assert counts["tokenize.documents"] == 105 - counts["filter.dropped"]
    listed = ", ".join(f"{name} {number}" for name, number in reasons.items())
    assert f"of the documents, {counts['filter.dropped']} of 105: {listed}" in printed.output
    assert manifest["corpus"]["filtering"]["filters"] == [
        {"name": "strict_filters:drop_odd", "package": "strict-filters 2.5"},
        {"name": "long", "package": "strict-filters 2.5"},
    ]
    assert " ".join(filters) in commands_of(manifest_of(output))[0]
    assert_same_bytes(output, [sample], tokenizer_path, *filters, *TWO_WORKERS)

    report = run_here(
        "inspect-corpus", "--input", sample, "--tokenizer", tokenizer_path, *filters, "bert"
    )
    assert f"{counts['filter.dropped']} of 105: {listed}" in report.output


@pytest.mark.usefixtures("package")
def test_a_filter_that_fails_ends_the_run_with_one_message(
    sample: Path, tokenizer_path: Path, output: Path
) -> None:
    refused = ("--filter fail", "the document of wiki.sample.tokens at ", "LookupError: no such")
    build([sample], tokenizer_path, output, "--filter", "fail", *TWO_WORKERS, refused=refused)


def test_filters_are_loaded_before_any_work(
    sample: Path, tokenizer_path: Path, output: Path
) -> None:
    refused = ("--filter none.such:thing", "No module named 'none'")
    build([sample], tokenizer_path, output, "--filter", "none.such:thing", refused=refused)
    assert not output.exists()


@pytest.fixture
def repeated(sample: Path, tmp_path: Path) -> Path:
    """The sample, and files after it with some of its documents, and a reject."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    lines = sample.read_bytes().splitlines(keepends=True)
    blank = [number for number, line in enumerate(lines) if not line.strip()]
    (corpus / "a").write_bytes(b"".join(lines))
    (corpus / "b").write_bytes(b"".join(lines[: blank[50]]) + b"\nNot \xff text .\n")
    (corpus / "c").write_bytes(b"".join(lines[blank[30] : blank[90]]))
    return corpus


WITHOUT = ("--drop-duplicates", "--validation-share", "0.3", "--range-bytes", "7777")


def test_a_build_without_duplicates_is_that_of_the_distinct_documents(
    repeated: Path, tokenizer_path: Path, output: Path, tmp_path: Path
) -> None:
    build([repeated], tokenizer_path, output, *WITHOUT)
    counts = read_manifest_json(output)["counts"]
    build([repeated / "a"], tokenizer_path, tmp_path / "distinct", *WITHOUT[1:])
    distinct = read_manifest_json(tmp_path / "distinct")["counts"]
    assert counts["tokenize.documents"] == distinct["tokenize.documents"] == 105
    dropped = counts["filter.dropped.duplicate"]
    assert dropped == counts["read.documents"] - 105 == counts["duplicates.found"] > 50
    assert counts["read.rejects"] == 1
    assert shards_of(digests(output)) == shards_of(digests(tmp_path / "distinct"))
    assert "--drop-duplicates" in commands_of(manifest_of(output))[0]
    assert_same_bytes(output, [repeated], tokenizer_path, *WITHOUT, *TWO_WORKERS)


def test_a_run_that_stops_does_not_compare_again(
    repeated: Path, tokenizer_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(transforms.build.ShardDoFn, "_make", fail)
        build([repeated], tokenizer_path, output, *WITHOUT, status=FAILURE)
    with monkeypatch.context() as patch:
        patch.setattr(transforms.corpus.duplicates._HashTask, "_hash", fail)
        patch.setattr(transforms.corpus.duplicates._FindRepeats, "_find", fail)
        patch.setattr(transforms.corpus.prepare._PrepareTask, "_spill", fail)
        resumed = build([repeated], tokenizer_path, output, *WITHOUT, "--resume")
    assert re.search(r"[1-9]\d* comparisons?, .*1 pool, 11 scans and", resumed.output)
    assert_same_bytes(output, [repeated], tokenizer_path, *WITHOUT)


def test_filters_come_before_duplicates(
    repeated: Path, tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document that a filter drops does not stand for those that repeat it."""
    (tmp_path / "without_a.py").write_text(
        "def f(text, metadata):\n    return 'in-a' if metadata['file'] == 'a' else None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    flags = ("--filter", "without_a:f", "--drop-duplicates", "bert")
    corpus = ("--input", repeated, "--tokenizer", tokenizer_path)
    numbers = tmp_path / "numbers.json"
    run_here("inspect-corpus", *corpus, "--json", numbers, *flags)
    counts = json.loads(numbers.read_text())["counts"]
    assert counts["filter.dropped.in-a"] == 105
    assert 0 < counts["filter.dropped.duplicate"] < counts["read.documents"] - 105
    assert counts["tokenize.documents"] == 45


def test_documents_that_overlap_with_an_evaluation_set_are_dropped(
    sample: Path, tokenizer_path: Path, output: Path, tmp_path: Path
) -> None:
    lines = [line for line in sample.read_text().splitlines() if len(line.split()) > 20]
    planted = [" ".join(lines[place].upper().split()[2:18]) for place in (3, 40)]
    (tmp_path / "a.txt").write_text(f"{planted[0]}\n\ntoo short\n")
    record = {"question": "?", "answer": planted[1]}
    (tmp_path / "b.jsonl").write_text(json.dumps(record) + "\n")
    flags = (
        "--drop-overlap-with", tmp_path / "a.txt", tmp_path / "b.jsonl", "--text-field", "answer",
    )  # fmt: skip
    build([sample], tokenizer_path, output, *flags)
    manifest = read_manifest_json(output)
    assert manifest["counts"]["filter.dropped"] == manifest["counts"]["filter.dropped.overlap"] == 2
    evaluation = manifest["corpus"]["filtering"]["evaluation"]
    assert (evaluation["passages"], evaluation["ignored"]) == (2, 1)
    assert [file["path"] for file in evaluation["files"]] == ["a.txt", "b.jsonl"]
    [printed] = commands_of(manifest_of(output))
    assert "--drop-overlap-with a.txt b.jsonl" in printed
    assert_same_bytes(output, [sample], tokenizer_path, *flags, *TWO_WORKERS)

    (tmp_path / "a.txt").write_text(" ".join(lines[7].split()))
    refused = ("--resume", "corpus.filtering.evaluation")
    build([sample], tokenizer_path, output, *flags, "--resume", refused=refused)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (None, "no such file"), (b"", "all files are empty"), (b"too short", "none of its 1 pass"),
        (b"Not \xff text", "byte 0 begins what cannot be read (invalid-utf-8)"),
    ],
)  # fmt: skip
def test_an_evaluation_set_without_passages_is_refused(
    content: bytes | None, part: str, sample: Path, tokenizer_path: Path, output: Path
) -> None:
    path = output.parent.parent / "set.txt"
    if content is not None:
        path.write_bytes(content)
    refused = ("--drop-overlap-with", "set.txt", part)
    build([sample], tokenizer_path, output, "--drop-overlap-with", path, refused=refused)
