"""A corpus in numbers: equal to those of a build, and the same however the job is run."""

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from corpusmill.console.process import FAILURE, INTERRUPTED
from corpusmill.dataset.manifest_entries import base_name
from tests.tools.jobs import (
    PAIRS,
    SPREAD,
    WORKERS,
    Outcome,
    build,
    last_wins,
    leftovers,
    read_manifest_json,
    run_here,
)
from tests.tools.table_rows import for_rows

Inspect = Callable[..., Outcome]
Numbers = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def corpus(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample in two files, with rejects and a document without any token."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = sample.read_text().splitlines(keepends=True)
    (folder / "a.txt").write_text("".join(lines[:300]) + "\n[MASK] \u4e00\n\n")
    bad = b"Not \xff text .\nnor \xfe\n" * 3
    (folder / "b.txt").write_bytes("".join(lines[300:]).encode() + bad)
    return folder


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The system's folder of temporary files, which each command must leave as it was."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert [name for name in leftovers(folder) if not name.endswith(".log")] == []


@pytest.fixture
def inspect(corpus: Path, tokenizer_path: Path, temporary: Path) -> Inspect:  # noqa: ARG001
    def run(*flags: str | Path, inputs: Path = corpus, **end: Any) -> Outcome:
        arguments = ("--input", inputs, "--tokenizer", tokenizer_path)
        own = () if {"bert", "electra", "ernie", "gpt"} & set(flags) else ("bert", *PAIRS)
        return run_here("inspect-corpus", *last_wins(*arguments, *SPREAD, *flags, *own), **end)

    return run


@pytest.fixture
def numbers_of(inspect: Inspect, tmp_path: Path) -> Numbers:
    def run(*flags: str | Path, **inputs: Path) -> dict[str, Any]:
        path = tmp_path / "numbers.json"
        inspect("--json", path, *flags, **inputs)
        content: dict[str, Any] = json.loads(path.read_text())
        return content

    return run


@pytest.mark.parametrize(
    ("objective", "flags"),
    [
        ("bert", ("--validation-share", "0.3", "--padding", "max_length", "--compression", "gzip")),
        ("bert", ("--segments", "full-sentences", "--output-format", "avro")),
        ("electra", ("--max-seq-length", "32", "--output-format", "tfrecord")),
        ("ernie", ()),
        ("gpt", ("--mode", "windows", "--max-seq-length", "40", "--overlap", "8")),
    ],
)
def test_a_build_gives_what_was_said(
    objective: str, flags: tuple[str, ...], numbers_of: Numbers, corpus: Path,
    tokenizer_path: Path, output: Path,
) -> None:  # fmt: skip
    rows = () if objective == "gpt" else PAIRS
    numbers = numbers_of(objective, *last_wins(*rows, *flags))
    build([corpus], tokenizer_path, output, *flags, objective=objective)
    manifest = read_manifest_json(output)
    assert numbers["build"]["exact"]
    assert set(numbers["build"]["splits"]) == set(manifest["splits"])
    for name, split in manifest["splits"].items():
        estimate = numbers["build"]["splits"][name]
        for entry in ("rows", "tokens"):
            assert estimate[entry] == dict.fromkeys(("value", "low", "high"), split[entry])
        assert estimate["bytes"]["value"] == sum(shard["bytes"] for shard in split["shards"])
        assert estimate["shards"] == len(split["shards"])
        assert estimate["distributions"] == split["distributions"]
    shared = [name for name in numbers["counts"] if name.startswith(("read.", "tokenize."))]
    assert {name: manifest["counts"].get(name) for name in shared} == {
        name: numbers["counts"][name] for name in shared
    }
    assert manifest["counts"]["read.rejects.invalid-utf-8"] == 6
    # Only a build computes the checksums of its files, and has a version with a tokenizer.
    for file in manifest["corpus"]["files"]:
        del file["crc32c"]
    manifest["tokenizer"]["file"] = base_name(manifest["tokenizer"]["file"]).removeprefix("root/")
    for part in ("objective", "seed", "tokenizer", "output", "corpus"):
        assert numbers[part] == manifest[part]


def test_sources_are_estimated_as_they_are_taken(
    corpus: Path, tokenizer_path: Path, output: Path, tmp_path: Path
) -> None:
    sources = ("--source", f"a={corpus / 'a.txt'}", "--source", f"b={corpus / 'b.txt'}@2.5")
    flags = (*sources, "--tokenizer", tokenizer_path, *PAIRS, *SPREAD, "--validation-share", "0.3")
    run_here("bert", *flags, "--output", output)
    manifest = read_manifest_json(output)
    for sample, least in (((), 0.0), (("--sample-tokens", "8000"), 0.3)):
        path = tmp_path / "numbers.json"
        run_here("inspect-corpus", *flags, *sample, "--json", path, "bert")
        numbers = json.loads(path.read_text())
        assert numbers["build"]["exact"] is not bool(sample)
        for name, split in manifest["splits"].items():
            rows = numbers["build"]["splits"][name]["rows"]["value"]
            assert rows == pytest.approx(split["rows"], rel=least)
        for own, built in zip(
            numbers["corpus"]["sources"], manifest["corpus"]["sources"], strict=True
        ):
            counts = {name: built["counts"].get(name) for name in own["counts"]}
            assert own["counts"] == counts
            assert own["counts"]["read.documents"] > 5
            measured = numbers["sources"][own["name"]]
            assert measured["tokens"] == own["counts"]["tokenize.tokens"]
        sums = {
            name: sum(counts[name] for counts in numbers["sources"].values())
            for name in ("bytes", "words")
        }
        assert sums == {name: numbers["text"][name] for name in sums}
        assert not [name for name in numbers["counts"] if name.startswith("source.")]


@pytest.mark.parametrize(
    ("flags", "error"),
    [((), 0.05), (("--input-format", "lines", "--drop-near-duplicates"), 0.35)],
    ids=["plain", "near-duplicates"],
)
def test_the_temporary_files_of_a_build_are_as_large_as_was_said(
    flags: tuple[str, ...], error: float, numbers_of: Numbers, sample: Path, tokenizer_path: Path,
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    # So much text that the headers of messages do not count; kept, so that it can be measured.
    large = tmp_path / "large.txt"
    large.write_text(sample.read_text() * 20)
    estimate = numbers_of(*flags, inputs=large)["work"]["temporary_bytes"]
    kept = tmp_path / "kept"
    kept.mkdir()
    monkeypatch.setattr("corpusmill.location.LocalPath.remove", lambda *_: None)
    build([large], tokenizer_path, output, "--temp-location", kept, *flags)
    files = [path for path in kept.rglob("*") if path.suffix in {".arrow", ".npy"}]
    assert estimate == pytest.approx(sum(path.stat().st_size for path in files), rel=error)


def test_a_build_is_estimated_with_the_workers_that_the_machine_can_hold(
    numbers_of: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.runners.local.engine.most_workers", lambda: 2)
    # The numbers are those of workers, and this process counts them.
    monkeypatch.setattr("pipeline.runners.local.engine.start_workers", lambda _: [])
    little = ("--min-bytes-per-worker", "0", "--sort-bytes", "1000")
    wanted = [numbers_of("--workers", number, *little)["work"] for number in ("2", "1000", "1")]
    assert wanted[0]["temporary_bytes"] == wanted[1]["temporary_bytes"]
    assert wanted[0]["temporary_bytes"] > wanted[2]["temporary_bytes"]


def test_the_text_and_its_tokens_are_counted(numbers_of: Numbers, corpus: Path) -> None:
    numbers = numbers_of()
    lines = [
        line.decode().strip()
        for path in corpus.iterdir()
        for line in path.read_bytes().split(b"\n")
        if b"\xff" not in line and b"\xfe" not in line
    ]
    sentences = [line for line in lines if line and not line.startswith("=")]
    assert numbers["text"] == {
        "bytes": sum(len(line.encode()) for line in sentences),
        "characters": sum(map(len, sentences)),
        "words": sum(len(line.split()) for line in sentences),
    }
    tokens = numbers["tokens"]
    assert tokens["tokens"] == numbers["counts"]["tokenize.tokens"]
    assert tokens["per_word"] == tokens["tokens"] / numbers["text"]["words"]
    assert tokens["bytes_per_token"] == numbers["text"]["bytes"] / tokens["tokens"]
    assert tokens["special_share"] == 1 / tokens["tokens"]
    # The brackets of the mask, which is plain text, and the ideograph.
    assert tokens["unknown_share"] == 3 / tokens["tokens"]
    assert 0 < tokens["character_share"] < 1
    assert tokens["part_share"] == 0
    counts = [*numbers["scripts"].values()]
    assert sum(each["tokens"] for each in counts) == tokens["tokens"]
    assert sum(each["words"] for each in counts) == numbers["text"]["words"]
    assert numbers["scripts"]["Latin"]["bytes"] > 0.9 * numbers["text"]["bytes"]
    assert 0 < numbers["build"]["sample"]["used_ids"] < numbers["tokenizer"]["vocab_size"]
    for name, distribution in numbers["distributions"].items():
        assert sum(each[2] for each in distribution["bins"]) == distribution["count"]
        assert (
            distribution["median"]
            <= distribution["p90"]
            <= distribution["p99"]
            <= distribution["max"]
        )
        assert distribution["count"] == numbers["counts"][f"measure.{name.split('_')[-1]}s"]


def test_rejects_are_told_by_reason_and_place(numbers_of: Numbers) -> None:
    rejects = numbers_of()["rejects"]
    assert rejects["number"] == 6
    assert rejects["reasons"] == {"invalid-utf-8": 6}
    assert len(rejects["examples"]) == 3
    assert {example["file"] for example in rejects["examples"]} == {"b.txt"}
    assert rejects["examples"][0]["offset"] < rejects["examples"][1]["offset"]


@pytest.mark.parametrize(
    ("flags", "sample_tokens"),
    [
        (("--range-bytes", "999"), "4000000"),
        ((*WORKERS, "--range-bytes", "7777"), "6000"),
    ],
)
def test_the_numbers_are_the_same_however_the_job_is_run(
    flags: tuple[str, ...], sample_tokens: str, numbers_of: Numbers
) -> None:
    of_sample = ("--sample-tokens", sample_tokens)
    both = [numbers_of(*of_sample, *flags), numbers_of(*of_sample)]
    # The work alone differs, by tasks, workers and time.
    assert [numbers.pop("work").pop("bytes") for numbers in both] == [
        sum(split["bytes"]["value"] for split in numbers["build"]["splits"].values())
        for numbers in both
    ]
    assert both[0] == both[1]


def test_a_sample_comes_near(numbers_of: Numbers) -> None:
    exact, near = numbers_of(), numbers_of("--sample-tokens", "9000")
    assert not near["build"]["exact"]
    assert 0.4 < near["build"]["sample"]["share"] < 0.6
    differing = dict.fromkeys(("build", "work", "findings"))
    assert {**near, **differing} == {**exact, **differing}
    names = [[finding["name"] for finding in entry["findings"]] for entry in (exact, near)]
    assert names[0] == names[1]
    truth, estimate = (entry["build"]["splits"]["train"] for entry in (exact, near))
    for name in ("rows", "tokens"):
        assert estimate[name]["low"] <= truth[name]["value"] <= estimate[name]["high"]
        assert estimate[name]["value"] == pytest.approx(truth[name]["value"], rel=0.1)


def test_a_sample_without_any_document_gives_no_estimate(inspect: Inspect) -> None:
    outcome = inspect("--sample-tokens", "1")
    assert "train examples" not in outcome.output
    assert "--sample-tokens" in outcome.output


def test_the_report_and_the_page_hold_the_numbers(inspect: Inspect, tmp_path: Path) -> None:
    page, file = tmp_path / "page.html", tmp_path / "numbers.json"
    outcome = inspect("--html", page, "--json", file)
    numbers, html = json.loads(file.read_text()), page.read_text()
    build_of = numbers["build"]["splits"]["train"]
    shown = [
        build_of["rows"]["value"], build_of["bytes"]["value"], numbers["text"]["words"],
        numbers["tokens"]["tokens"], numbers["counts"]["read.documents"],
        numbers["distributions"]["tokens_per_document"]["max"],
        numbers["work"]["temporary_bytes"], numbers["rejects"]["examples"][0]["offset"],
    ]  # fmt: skip
    for number in shown:
        assert f"{number:,}" in html
        assert f"{number:,}" in outcome.output
    assert re.search(r"invalid-utf-8 +6 +such as b.txt at byte", outcome.output)
    assert html.count("<figure") == 3 + len(build_of["distributions"])
    assert "tokens per sentence" in html
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_a_report_of_a_build_tells_rejects_by_reason(
    corpus: Path, tokenizer_path: Path, output: Path
) -> None:
    outcome = build([corpus], tokenizer_path, output)
    assert re.search(
        r"rejects   6 \(.*% of the lines and rows\): invalid-utf-8 6\n", outcome.output
    )


@for_rows(
    ("flags", "parts"),
    [
        (("--sample-tokens", "0"), ("--sample-tokens 0", "1 to 1000000000")),
        (("--sample-tokens", "1000000001"), ("--sample-tokens 1000000001", "1 to 1000000000")),
        (("--scale-to", "5 XB"), ("--scale-to 5 XB", "not a size", "5TB")),
        (("--scale-to", "17PB"), ("--scale-to 17PB", "up to 16PB")),
        (("--validation-share", "1"), ("--validation-share 1",)),
        (("--tokenizer", "nowhere.json"), ("--tokenizer nowhere.json", "no such file")),
        (("--input", "nowhere.txt"), ("--input nowhere.txt",)),
        (("--html", "nowhere/page.html"), ("nowhere/page.html", "an existing folder")),
        (
            ("--runner", "my.own.Runner", "bert", "--", "--environment_config=image"),
            ("--runner my.own.Runner", "--temp-location"),
        ),
        (("--no-wait",), ("inspect-corpus --no-wait", "Leave it out")),
        (("bert", "--max-seq-length", "4"), ("--max-seq-length 4",)),
    ],
)
def test_a_mistake_is_refused_before_any_work(
    flags: tuple[str, ...], parts: tuple[str, ...], inspect: Inspect
) -> None:
    inspect(*flags, refused=parts)


def test_a_field_that_is_not_there_is_refused(inspect: Inspect, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"body": "text"}')
    inspect(inputs=path, refused=("--text-field text", "its fields are body"))


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt, INTERRUPTED), (RuntimeError, FAILURE)]
)
def test_nothing_is_left_when_it_ends_early(
    error: type[BaseException], status: int, inspect: Inspect, monkeypatch: pytest.MonkeyPatch,
    temporary: Path,
) -> None:  # fmt: skip
    def fail(*_: object) -> None:
        assert [path for path in temporary.rglob("*") if path.name == "tokenizer.json"]
        raise error

    monkeypatch.setattr("pipeline.runners.launch.Launch.run", fail)
    inspect(status=status)
