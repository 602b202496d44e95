"""Near-duplicates that are left out of a data set, through the whole job."""

import json
import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import transforms.build
from corpusmill.commands.build_command import commands_of
from corpusmill.console.process import FAILURE
from corpusmill.corpus.batches import document_id
from corpusmill.verification.check_data_set import verify
from tests.tools.data_files import manifest_of
from tests.tools.jobs import (
    SMALL,
    WORKERS,
    assert_same_bytes,
    build,
    digests,
    read_manifest_json,
    run_here,
)
from tests.tools.knobs import SMALL_SIZES, knobs
from tests.tools.near_duplicates import list_pairs, plant_edits, runs_of
from tests.tools.real_corpora import paragraphs
from transforms.corpus.near_duplicates import NearSearch

NEAR = ("--input-format", "lines", "--drop-near-duplicates", "0.8")
TABLE = "v1/provenance/near-duplicates.parquet"


def texts_by_id(paths: list[Path]) -> dict[int, str]:
    """Return the lines of files by the ids of their documents."""
    by_id = dict[int, str]()
    for number, path in enumerate(paths):
        offset = 0
        for line in path.read_bytes().splitlines(keepends=True):
            by_id[document_id(number, offset)] = line.decode()
            offset += len(line)
    return by_id


def check_table(folder: Path, texts: dict[int, str], least: float) -> dict[int, int]:
    """Compute each row of the table anew from the input, and return the keepers."""
    rows = pq.read_table(folder / TABLE).to_pydict()
    keepers = dict(zip(rows["document"], rows["keeper"], strict=True))
    assert rows["document"] == sorted(keepers)
    for document, keeper, similarity in zip(*rows.values(), strict=True):
        one, other = runs_of(texts[document]), runs_of(texts[keeper])
        assert similarity == len(one & other) / len(one | other) >= least
        assert keeper < document
        assert keeper not in keepers
    return keepers


@pytest.fixture
def edited(sample: Path, tmp_path: Path) -> list[Path]:
    """Two files of documents, half of which are others with a few other words."""
    texts = plant_edits(paragraphs(sample), 600)
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, part in zip(paths, (texts[:350], texts[350:]), strict=True):
        path.write_text("".join(f"{text}\n" for text in part))
    return paths


def test_a_stranger_can_compute_each_removal_from_the_input(
    edited: list[Path], tokenizer_path: Path, output: Path
) -> None:
    outcome = build(edited, tokenizer_path, output, *NEAR)
    texts = texts_by_id(edited)
    removed = check_table(output, texts, 0.8)
    counts = read_manifest_json(output)["counts"]
    assert len(removed) == counts["near.found"] == counts["filter.dropped.near-duplicate"] > 100
    assert f"near-duplicate {len(removed)}" in outcome.output
    assert counts["near.documents"] == counts["read.documents"] == 600
    assert TABLE in {file.file for file in manifest_of(output).files}
    assert verify(output) == []
    # What has a document that stays and is like it by .85 or more is removed.
    like = list_pairs(texts, 0.85)
    due = {one for one, others in like.items() if any(two not in removed for two, _ in others)}
    assert len(due) > 100
    assert due <= removed.keys()
    entry = read_manifest_json(output)["corpus"]["filtering"]["near_duplicates"]
    assert entry == {
        "drop_near_duplicates": 0.8, "near_duplicate_ngram": 5, "near_duplicate_bands": 10,
        "near_duplicate_rows": 6,
    }  # fmt: skip
    assert "--drop-near-duplicates 0.8" in commands_of(manifest_of(output))[0]


def test_all_pairs_of_20_000_documents(
    wikitext: Path, gpt_tokenizer: Path, output: Path, tmp_path: Path
) -> None:
    """Of the documents with one that stays and is like them by .85, 95 % or more are removed."""
    texts = plant_edits(paragraphs(wikitext / "wiki.train.tokens"), 20_000)
    corpus = tmp_path / "corpus"
    corpus.write_text("".join(f"{text}\n" for text in texts))
    build([corpus], gpt_tokenizer, output, *NEAR, objective="gpt")
    by_id = texts_by_id([corpus])
    removed = check_table(output, by_id, 0.8)
    like = list_pairs(by_id, 0.85)
    due = {one for one, others in like.items() if any(two not in removed for two, _ in others)}
    assert len(due) > 2000
    assert len(due & removed.keys()) >= 0.95 * len(due)


def test_any_workers_ranges_and_thresholds_give_the_same_bytes(
    sample: Path, tokenizer_path: Path, output: Path, tmp_path: Path
) -> None:
    edited = [tmp_path / "a", tmp_path / "b"]
    for seed, path in enumerate(edited):
        path.write_text("\n".join(plant_edits(paragraphs(sample)[:30], 50, seed)))
    flags = (*NEAR, "--drop-duplicates")
    build(edited, tokenizer_path, output, *flags)
    assert read_manifest_json(output)["counts"]["near.found"] > 5
    small = ("--range-bytes", "5000")
    assert_same_bytes(output, edited, tokenizer_path, *flags, *WORKERS, *small)
    with knobs(pairs_at_once=7, hash_bucket_bytes=3000):
        assert_same_bytes(output, edited, tokenizer_path, *flags, *small, *SMALL_SIZES)


def test_a_run_that_stops_does_not_compare_again(
    edited: list[Path], tokenizer_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("stopped")

    steps = ("list_keys", "pair", "write_sets", "compare", "decide")
    for step in steps:
        with monkeypatch.context() as patch:
            patch.setattr(NearSearch, step, fail)
            flags = ("--resume",) if step != steps[0] else ()
            build(edited, tokenizer_path, output, *NEAR, *flags, status=FAILURE)
    with monkeypatch.context() as patch:
        patch.setattr(transforms.build.ShardDoFn, "_make", fail)
        build(edited, tokenizer_path, output, *NEAR, "--resume", status=FAILURE)
    with monkeypatch.context() as patch:
        for step in steps:
            patch.setattr(NearSearch, step, fail)
        resumed = build(edited, tokenizer_path, output, *NEAR, "--resume")
    assert "1 decision, " in resumed.output
    assert_same_bytes(output, edited, tokenizer_path, *NEAR)


def test_text_that_is_added_is_compared_with_files_that_are_given_once_more(
    edited: list[Path], tokenizer_path: Path, tmp_path: Path
) -> None:
    together, growing = tmp_path / "together", tmp_path / "growing"
    build(edited, tokenizer_path, together, *NEAR)
    build(edited[:1], tokenizer_path, growing, *NEAR)
    added = build(edited, tokenizer_path, growing, *NEAR, "--append", "--existing", "skip")
    assert "compare new text with that of the data set" in " ".join(added.output.split())
    verify(str(growing))
    kept = [
        sorted(
            digest
            for path in folder.rglob("documents-*")
            for digest in pq.read_table(path).column("digest").to_pylist()
        )
        for folder in (together, growing)
    ]
    assert kept[0] == kept[1]
    assert len(kept[0]) < 600
    tables = [pq.read_table(path).num_rows for path in sorted(growing.rglob("near-*.parquet"))]
    counts = read_manifest_json(growing)["counts"]
    assert sum(tables) == counts["filter.dropped.near-duplicate"]
    assert len(tables) == 2


def test_rows_of_one_template_stay_unless_they_are_like_each_other(
    tokenizer_path: Path, output: Path, tmp_path: Path
) -> None:
    """Each shares most bands with thousands of others, and is compared with the first ones."""
    draw = random.Random(0)  # noqa: S311
    template = " ".join(f"v{number}" for number in range(40))
    rows = [
        " ".join([template, *(f"w{draw.randrange(10**6)}" for _ in range(14))]) for _ in range(3000)
    ]
    corpus = tmp_path / "corpus"
    corpus.write_text("".join(f"{row}\n" for row in [*rows, *rows[:40]]))
    build([corpus], tokenizer_path, output, *NEAR)
    texts = texts_by_id([corpus])
    removed = check_table(output, texts, 0.8)
    counts = read_manifest_json(output)["counts"]
    assert counts["near.crowded"] > 3000
    assert counts["near.compared"] < 3040 * 17 * 8
    # Copies of rows have bands that no other row has.
    assert [*removed] == [*texts][-40:]


def test_sources_are_compared_and_filters_come_first(
    edited: list[Path], tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_a.py").write_text(
        "def f(text, metadata):\n    return 'a' if metadata['file'].startswith('a/') else None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    sources = [flag for path in edited for flag in ("--source", f"{path.name}={path}")]
    found = []
    for number, flags in enumerate(((), ("--filter", "of_a:f"))):
        output = tmp_path / f"out{number}"
        place = ("--tokenizer", tokenizer_path, "--output", output)
        run_here("bert", *sources, *place, *SMALL, *NEAR, *flags)
        counts = read_manifest_json(output)["counts"]
        found.append(counts["filter.dropped.near-duplicate"])
        entries = read_manifest_json(output)["corpus"]["sources"]
        own = (entry["counts"].get("filter.dropped.near-duplicate", 0) for entry in entries)
        assert sum(own) == found[-1] > 0
        assert counts["near.documents"] == 600 - counts.get("filter.dropped.a", 0)
    assert found[0] > found[1] + 50 > 50


def test_what_would_be_left_out_is_shown_by_source_with_some_pairs(
    edited: list[Path], tokenizer_path: Path, output: Path, tmp_path: Path
) -> None:
    sources = [flag for path in edited for flag in ("--source", f"{path.name}={path}")]
    flags: list[str | Path] = [*sources, "--tokenizer", tokenizer_path, *map(str, SMALL), *NEAR]
    run_here("bert", *flags, "--output", output)
    numbers = tmp_path / "numbers.json"
    report = run_here("inspect-corpus", *flags, "--json", numbers, "bert").output
    inspected, built = json.loads(numbers.read_text()), read_manifest_json(output)
    texts, removed = texts_by_id(edited), pq.read_table(output / TABLE).to_pydict()
    keepers = dict(zip(removed["document"], removed["keeper"], strict=True))
    pairs = built["near_pairs"]
    assert inspected["near_pairs"] == pairs
    assert [pair["source"] for pair in pairs] == [*"aaabbb"]
    for pair in pairs:
        assert keepers[pair["document"]] == pair["keeper"]
        for name, place in (("text", "document"), ("other", "keeper")):
            whole = texts[pair[place]].encode()[:96].decode(errors="ignore")
            assert pair[name] == " ".join(whole.split())
        assert pair["text"] in report
    sizes = {document: len(text.rstrip("\n").encode()) for document, text in texts.items()}
    for number, source in ((None, built), *enumerate(built["corpus"]["sources"])):
        own = [document for document in sizes if number in (None, document >> 40)]
        dropped = sum(sizes[document] for document in keepers if document in own)
        counts = source["counts"]
        assert counts["near.documents"] == len(own)
        assert counts["near.bytes"] == sum(sizes[document] for document in own)
        assert counts["near.dropped_bytes"] == dropped
        assert f"{dropped:,} of {counts['near.bytes']:,} bytes, would be left out" in report
        assert f"{len(own):,}, with" in report


def test_a_data_set_without_near_duplicates_has_a_table_without_rows(
    sample: Path, tokenizer_path: Path, output: Path
) -> None:
    flags = ("--drop-near-duplicates",)
    build([sample], tokenizer_path, output, *flags)
    assert pq.read_metadata(output / TABLE).num_rows == 0
    options = read_manifest_json(output)["corpus"]["filtering"]["near_duplicates"]
    assert options["drop_near_duplicates"] == 0.8
    plain = output.with_name("plain")
    build([sample], tokenizer_path, plain)
    own = {name: digest for name, digest in digests(plain).items() if "v1/" in name}
    differs = {name for name, digest in own.items() if digests(output).get(name) != digest}
    assert not {name for name in differs if name.endswith(".parquet")}


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("--drop-near-duplicates", "80"), ("--drop-near-duplicates 80", "Give 0.5 to 1")),
        (("--near-duplicate-ngram", "3"), ("it needs --drop-near-duplicates",)),
        (
            ("--drop-near-duplicates", "yes"),
            ("--drop-near-duplicates yes", "Give a number or None"),
        ),
    ],
)
def test_mistakes(
    flags: tuple[str, ...], parts: tuple[str, ...], sample: Path, tokenizer_path: Path, output: Path
) -> None:
    build([sample], tokenizer_path, output, *flags, refused=parts)
    assert not output.exists()
