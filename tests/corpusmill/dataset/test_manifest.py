"""The manifest's bytes and back, and those of the versions before and after."""

import json
import re
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from corpusmill.dataset.manifest import FileEntry, Manifest, Split
from corpusmill.dataset.manifest_entries import Source, SourceFile
from corpusmill.dataset.manifest_json import FORMAT_VERSION, decode, encode, seal, to_json
from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions
from corpusmill.inspection.figures import summarize
from tests.tools.manifests import small_manifest, small_shard

SHARD = "train-00000-of-00001.parquet"


def manifest_of(lengths: list[int]) -> Manifest:
    rows, tokens = sum(lengths), sum(length * number for length, number in enumerate(lengths))
    shard = small_shard(SHARD, rows, tokens)
    counts = {value: number for value, number in enumerate(lengths) if number}
    split = Split.from_shards([shard], {"length": counts, "pieces": {1: rows} if rows else {}})
    return small_manifest(splits={"train": split})


def test_a_manifest_is_read_as_it_was_written() -> None:
    plain = small_manifest()
    shard = small_shard("train-0.parquet")
    split = Split.from_shards([shard], {"length": {1: 1}, "pieces": {1: 1}})
    options = OutputOptions(padding="max_length", compression="zstd", shard_name="{shard}.parquet")
    files = (SourceFile("a.gz", 9, unread=9), SourceFile("b.gz", 9))
    rare = replace(
        plain,
        tokenizer=replace(plain.tokenizer, words="unicode", revision="main"),
        output=replace(plain.output, options=options),
        splits={"train": split},
        files=(FileEntry("rejects/rejects.jsonl", 0, "0" * 64),),
        corpus=replace(plain.corpus, files=files),
    )
    lengths = ([], [0, 0, 5], *([0] * most + [1] for most in (65_534, 65_535, 65_536)))
    for manifest in (rare, *map(manifest_of, lengths), manifest_of([0, 7] + [0] * 99_998 + [1])):
        decoded = decode(encode(manifest), "out")
        assert decoded == manifest
        assert encode(decoded) == encode(manifest)


def test_the_largest_value_of_a_distribution() -> None:
    for largest, is_refused in ((2**28, False), (2**28 + 1, True)):
        distributions = {"length": {1: 1, largest: 1}}
        split = replace(manifest_of([0, 1]).splits["train"], distributions=distributions)
        content = encode(small_manifest(splits={"train": split}))
        if is_refused:
            with pytest.raises(UserError, match=f"a distribution goes from 1 to {largest}"):
                decode(content, "out")
        else:
            assert decode(content, "out").splits["train"].longest == largest


def test_a_distribution_of_books_is_short() -> None:
    content = encode(manifest_of([0, 7] + [0] * 99_998 + [1])).decode()
    assert '"1": 7,' in content
    assert '"100000": 1' in content
    assert len(content) < len(encode(manifest_of([0, 0, 0, 0, 8]))) + 20


def refusal(**changes: Any) -> str:
    """Return the message that refuses a manifest with other entries."""
    entries = {**to_json(manifest_of([0, 0, 5])), **changes}
    with pytest.raises(UserError) as refused:
        decode(seal(json.dumps(entries).encode()), "out")
    assert refused.value.value == "out/dataset.json"
    return str(refused.value)


def _train(**changes: Any) -> dict[str, Any]:
    return {"train": {**to_json(manifest_of([0, 0, 5]))["splits"]["train"], **changes}}


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"seed": "1"}, r"Expected `int`, got `str` - at `\$.seed`"),
        ({"splits": _train(rows=9)}, "the rows of train, which are not those of its shards"),
        ({"splits": _train(distributions={"length": {"-5": 1}})}, "a distribution goes from -5"),
        ({"splits": _train(distributions={"length": {"1": 5, "-1": 1}})}, "goes from -1 to 1"),
        ({"splits": _train(distributions={"length": {str(2**29): 1}})}, "goes from 536870912"),
        ({"columns": []}, "not allowed"),
        ({"counts": None}, r"Expected `object`, got `null` - at `\$.counts`"),
    ],
    ids=str,
)
def test_entries_of_wrong_types_or_values_are_refused(
    changes: Mapping[str, Any], cause: str
) -> None:
    message = refusal(**changes)
    assert re.search(cause, message)
    assert "Copy or build the data set again" in message


def test_files_and_versions_that_no_run_has_are_refused() -> None:
    refusals = (
        (1, ("v1/a.parquet",), ("v1/root/_SUCCESS",), "the copy _SUCCESS, which no data set has"),
        (1, ("v1/b/a.parquet",), (), "matching regex"),
        (1, ("v1/../a.parquet",), (), "matching regex"),
        (0, ("a.parquet",), (), "`int` >= 1"),
        (10**9, ("a.parquet",), (), f"`int` <= {10**9 - 1}"),
    )
    for version, shards, files, cause in refusals:
        split = Split.from_shards(map(small_shard, shards), {"length": {1: len(shards)}})
        entries = tuple(FileEntry(name, 0, "0" * 64) for name in files)
        content = encode(small_manifest(version=version, splits={"train": split}, files=entries))
        with pytest.raises(UserError) as refused:
            decode(content, "out")
        assert cause in str(refused.value), (version, shards, files)


def test_files_are_found_by_their_names_without_the_version() -> None:
    names = ("v1/a.parquet", "v3/b.parquet", "c.parquet")
    split = Split.from_shards(map(small_shard, names), {"length": {1: 3}})
    files = (FileEntry("v2/root/README.md", 0, "0" * 64),)
    content = encode(small_manifest(version=3, splits={"train": split}, files=files))
    manifest = decode(content, "out")
    assert [manifest.path_of(f"{name}.parquet") for name in "abcd"] == [*names, "d.parquet"]
    assert manifest.copies == {"README.md": files[0]}


def _corpus(**options: Any) -> dict[str, Any]:
    """A corpus of two sources, of which one has options of its own."""
    sources = (
        Source("books", 1.0, 0, 0),
        Source("web", 1.0, 1, 1, options={"input_format": "json-lines", **options}),
    )
    corpus = replace(
        small_manifest().corpus, files=(SourceFile("web/a.jsonl", 1),), sources=sources
    )
    entries: dict[str, Any] = to_json(replace(small_manifest(), corpus=corpus))["corpus"]
    return entries


def test_sources_have_only_options_that_there_are() -> None:
    [books, web] = _corpus(text_field="body")["sources"]
    assert "options" not in books
    assert web["options"] == {"input_format": "json-lines", "text_field": "body"}
    entries = {**to_json(small_manifest()), "splits": {}, "corpus": _corpus(text_field="body")}
    corpus = decode(seal(json.dumps(entries).encode()), "out").corpus
    assert corpus.reading.of_file(0).text_field == "body"
    for wrong, cause in (
        (_corpus(text_feild="body"), "unknown: text_feild"),
        (_corpus(text_field=5), "Expected `str`, got `int`"),
        (_corpus(max_line_bytes=2**40), "the value is out of range"),
    ):
        assert cause in refusal(corpus=wrong, splits={})


@pytest.mark.parametrize(
    ("version", "cause", "cure"),
    [
        (0, "it has no format version", "Use the version of corpusmill that"),
        (1, "it has format version 1; this", "Use the version of corpusmill that wrote it"),
        (-1, "it has format version -1; this", "Use the version of corpusmill that wrote it"),
        (FORMAT_VERSION + 1, "it has format version 3; this reads version 2", "Update corpusmill"),
        (None, "it has no format version", "build it again"),
        ([2], "it has format version [2]", "Use the version of corpusmill that wrote it"),
    ],
)
def test_other_versions_are_refused(version: object, cause: str, cure: str) -> None:
    message = refusal(format_version=version)
    assert cause in message
    assert cure in message


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"{", b"[" * 100_000, b"[]", b"7", b'{"format": "other"}']
)
def test_what_is_not_a_manifest_is_refused(content: bytes) -> None:
    with pytest.raises(UserError, match=r"^out/dataset\.json: it is not "):
        decode(content, "out")


def test_a_manifest_of_few_bytes_takes_little_memory() -> None:
    largest, size = {str(2**28): 1}, 2**28
    shard = {**to_json(manifest_of([0, 0, 5]))["splits"]["train"]["shards"][0]}
    train = _train(
        rows=1, tokens=size, shards=[{**shard, "rows": 1, "tokens": size}],
        distributions={"length": largest, "pieces": [0, 1]},
    )  # fmt: skip
    entries = {**to_json(manifest_of([0, 0, 5])), "splits": train}
    content = seal(json.dumps(entries).encode())
    tracemalloc.start()
    manifest = decode(content, "out")
    report = summarize(manifest)
    assert json.loads(encode(manifest))["splits"] == train
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert manifest.splits["train"].longest == size
    assert report.splits[0].distributions[0].percentile(50) == size
    assert peak < 2**22
