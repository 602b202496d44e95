import re
from dataclasses import replace
from typing import Any

import pytest

from corpusmill.arrays.columns import Column, Role
from corpusmill.dataset.manifest import Manifest, ObjectiveEntry, Shard, Split
from corpusmill.dataset.manifest_entries import SourceFile
from corpusmill.inspection.figures import summarize
from corpusmill.inspection.findings import USUAL, Finding, find
from corpusmill.objectives.columns import SENTENCE_ORDER_LABEL, segment_column
from tests.conftest import CHECKOUT
from tests.tools.manifests import INPUT_IDS, small_manifest, small_shard

GOOD = {
    "read.lines": 1200,
    "read.sentences": 1000,
    "tokenize.documents": 100,
    "tokenize.tokens": 30_000,
    "tokenize.text_bytes": 120_000,
    "build.trimmed_tokens": 3000,
    "tokenize.passages": 1000,
    "write.rows": 1000,
}
POSITIONS = Column("masked_lm_positions", "int8", "places", 8, role=Role.POSITIONS)
PAIRS = (INPUT_IDS, segment_column(64), SENTENCE_ORDER_LABEL, POSITIONS)
FULL = {64: 1000}
# The predictions go up to 8.
PREDICTIONS = {5: 250, 6: 250, 7: 250, 8: 250}
BALANCED = {
    "length": FULL, "sentence_order_label": {0: 520, 1: 480}, "predictions": PREDICTIONS,
}  # fmt: skip


def manifest_of(
    counts: dict[str, int] | None = None, distributions: Any = None, **changes: Any
) -> Manifest:
    """A data set of an objective that nobody has heard of, with pairs of two segments."""
    train = Split.from_shards(
        [small_shard("a", 1000, 64_000)], {**BALANCED, **(distributions or {})}
    )
    manifest = small_manifest(
        objective=ObjectiveEntry("new", {"max_seq_length": 64, "masked_lm_prob": 0.25}, 1),
        columns=PAIRS,
        counts={**GOOD, **(counts or {})},
        splits={"train": train},
    )
    return replace(manifest, **changes)


def names_of(manifest: Manifest) -> list[str]:
    return [finding.name for finding in find(manifest)]


def test_good_numbers_have_no_findings() -> None:
    assert find(manifest_of()) == ()
    assert find(small_manifest()) == ()
    assert summarize(manifest_of()).findings == ()


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("sentences per document", {"tokenize.documents": 900}),
        ("long sentences", {"build.long_sentences": 100}),
        ("coverage", {"build.trimmed_tokens": 20_000}),
        ("unknown tokens", {"tokenize.unknown_tokens": 500}),
        ("control characters", {"tokenize.control_characters": 60_000}),
        ("tokens per letter", {"tokenize.text_bytes": 40_000}),
        ("tokens per letter", {"tokenize.letter_bytes": 80_000}),
        ("rejects", {"read.rejected_lines": 30}),
        ("rejects", {"read.rejects": 8, "read.rejected_bytes": 500, "read.bytes": 1000}),
        ("cut documents", {"read.cut_documents": 64, "tokenize.text_bytes": 11 * 10**8}),
        ("copies", {"tokenize.distinct_passages": 500}),
        ("copies", {"tokenize.distinct_passages": 500, "write.distinct_rows": 500}),
        ("equal rows", {"write.distinct_rows": 105}),
        ("equal rows", {"write.distinct_rows": 750}),  # half of the rows, in pairs
        ("coverage", {"build.trimmed_tokens": 10_500}),
    ],
)
def test_counts_give_findings(name: str, counts: dict[str, int]) -> None:
    [finding] = find(manifest_of(counts))
    assert finding.name == name
    assert all((finding.cause, finding.cure, finding.usual))
    assert summarize(manifest_of(counts)).findings == (finding,)
    assert f"{100 * finding.value:.1f} %" in finding.what or f"{finding.value:.2f}" in finding.what


@pytest.mark.parametrize(
    ("counts", "files", "share"),
    [
        (
            {"read.rejects": 8, "read.rejected_bytes": 49, "read.bytes": 100},
            1,
            "49.0 % of the",
        ),
        (
            {"read.rejects": 1, "read.rejected_bytes": 99, "read.bytes": 100},
            2,
            "99.0 % of the",
        ),
        ({"read.rejects": 144, "read.lines": 0}, 9, "100.0 % of the files and blocks are rejects"),
        ({"read.rejects": 1, "read.rejected_bytes": 1, "read.bytes": 100}, 1, ""),
        (
            {"read.rejects": 1, "read.rejected_rows": 600, "read.rows": 1200},
            1,
            "25.0 % of the",
        ),
    ],
)
def test_rejects_are_found_by_records_or_bytes(
    counts: dict[str, int], files: int, share: str
) -> None:
    manifest = manifest_of(counts)
    entries = tuple(SourceFile(f"{number}.txt", 1) for number in range(files))
    found = find(replace(manifest, corpus=replace(manifest.corpus, files=entries)))
    assert [finding.what.startswith(share) for finding in found] == bool(share) * [True]


def test_each_file_that_ends_early_is_named_up_to_ten() -> None:
    def found(cut: int, files: int, unread: int = 50) -> Finding:
        manifest = manifest_of({"read.rejects": 1, "read.unfinished_files": cut})
        entries = [
            SourceFile(f"{n}.gz", 100, unread=unread if n < cut else None) for n in range(files)
        ]
        [finding] = find(replace(manifest, corpus=replace(manifest.corpus, files=tuple(entries))))
        assert finding.name == "unfinished files"
        assert "--max-rejects" in finding.cure
        return finding

    assert "1 of 200 files" in found(1, 200).what
    assert (
        "0.2 % of the stored bytes: 0.gz (100 bytes, 50 of them after the damage)"
        in found(1, 200).what
    )
    assert "0.5 % of the stored bytes: 0.gz (100 bytes)" in found(1, 200, 100).what
    assert "9.gz (100 bytes, 50 of them after the damage) and 5 more" in found(15, 200).what
    assert "10.gz" not in found(15, 200).what


@pytest.mark.parametrize("empty", [100, 200, 540])
def test_second_segments_that_are_mostly_empty(empty: int) -> None:
    distributions = {"second_segment_length": {0: empty, 30: 1000 - empty}}
    assert names_of(manifest_of(distributions=distributions)) == (empty > 250) * [
        "empty second segments"
    ]
    # Without a class about segments nothing is learned from it.
    columns = (INPUT_IDS, segment_column(64), POSITIONS)
    assert names_of(manifest_of(distributions=distributions, columns=columns)) == []


def test_classes_of_others_are_not_explained_by_segments() -> None:
    genre = Column(
        "genre", "int8", "the kind of text", 0, 0, Role.CLASS, 0, 1, ("prose", "verse"), "kind"
    )
    for columns in ((INPUT_IDS, genre), (*PAIRS, genre)):
        for rare, counts in (("verse", {0: 990, 1: 10}), ("prose", {1: 1000})):
            manifest = manifest_of(distributions={"genre": counts}, columns=columns)
            [finding] = find(manifest)
            assert finding.name == "verse kind"
            assert rare in finding.cause
            assert "segment" not in str(finding)
            assert "sentence" not in str(finding)


def test_real_sentences_in_short_rows_need_longer_rows() -> None:
    split = {"sentence_rule": "split", "input_format": "text", "document_rule": "wikitext"}
    for counts in ({}, {"tokenize.documents": 900}):
        for rules in (split, {**split, "sentence_rule": "line"}):
            corpus = replace(manifest_of().corpus, options=rules)
            manifest = manifest_of({"build.long_sentences": 100, **counts}, corpus=corpus)
            [finding] = [one for one in find(manifest) if one.name == "long sentences"]
            assert "--max-seq-length, such as 128" in finding.cure
            assert "whole-file" not in finding.cure
    # Lines of 100 tokens on average are paragraphs.
    long_lines = {
        "build.long_sentences": 100,
        "tokenize.tokens": 100_000,
        "tokenize.text_bytes": 4 * 10**5,
    }
    [finding] = find(manifest_of(long_lines))
    assert "--sentence-rule split" in finding.cure


def test_no_tokenizer_is_blamed_for_what_is_no_text() -> None:
    utf_16 = {
        "tokenize.control_characters": 60_000,
        "tokenize.unknown_tokens": 20_000,
        "tokenize.text_bytes": 60_000,
    }
    [finding] = find(manifest_of(utf_16))
    assert finding.name == "control characters"
    assert "UTF-16" in finding.cause
    assert names_of(manifest_of({"tokenize.control_characters": 3})) == []


def test_documents_that_are_cut_where_someone_chose_to_are_no_finding() -> None:
    cut = {"read.cut_documents": 64, "tokenize.text_bytes": 11 * 10**8, "tokenize.tokens": 10**8}
    manifest = manifest_of(cut)
    [finding] = find(manifest)
    assert "64 pieces" in finding.cause
    chosen = replace(manifest.corpus, options={"max_document_bytes": 2**20})
    assert find(replace(manifest, corpus=chosen)) == ()
    assert [figure.text for figure in summarize(manifest).figures][:1] == ["64"]
    parts = summarize(manifest_of({**cut, "tokenize.cut_texts": 2})).figures[1]
    assert (parts.name, parts.value) == ("tokenized in parts", 2)
    few = {**cut, "read.cut_documents": 1, "tokenize.text_bytes": 2**31}
    assert "cut documents" not in names_of(manifest_of(few))


def test_long_documents_of_which_a_piece_is_taken_are_named() -> None:
    manifest = manifest_of({"build.trimmed_tokens": 20_000}, columns=(INPUT_IDS,))
    corpus = replace(manifest.corpus, options={"sentence_rule": "document"})
    [finding] = find(replace(manifest, corpus=corpus))
    assert (finding.name, "--overflow keep" in finding.cure) == ("coverage", True)


@pytest.mark.parametrize(
    ("name", "distributions"),
    [
        ("switched segments", {"sentence_order_label": {0: 10, 1: 990}}),
        ("switched segments", {"sentence_order_label": {0: 1000}}),
        ("padding", {"length": {16: 1000}}),
    ],
)
def test_distributions_give_findings(name: str, distributions: dict[str, dict[int, int]]) -> None:
    assert names_of(manifest_of(distributions=distributions)) == [name]


def test_a_few_rows_may_be_far_from_half_by_chance() -> None:
    assert names_of(manifest_of(distributions={"sentence_order_label": {0: 1, 1: 9}})) == []


@pytest.mark.parametrize(
    ("length", "prob", "cap", "is_found"),
    [
        (128, 0.15, 20, False),
        (512, 0.15, 20, True),
        (2048, 0.15, 20, True),
        (512, 0.4, 20, True),
        (512, 0.15, 77, False),
        (512, 0.15, 5, True),
        (512, 0.15, None, False),
    ],
)
def test_a_cap_that_takes_most_of_the_predictions(
    length: int, prob: float, cap: int | None, is_found: bool
) -> None:
    options = {"max_seq_length": length, "masked_lm_prob": prob, "max_predictions_per_seq": cap}
    manifest = manifest_of(
        distributions={
            "length": {length: 1000},
            "predictions": {cap or round(length * prob): 1000},
        },
        objective=ObjectiveEntry("new", options, 1),
    )
    assert names_of(manifest) == is_found * ["capped predictions"]
    for finding in find(manifest):
        assert f"--max-predictions-per-seq {round(length * prob)}" in finding.cure
        assert "100.0 % of the examples have" in finding.cause


@pytest.mark.parametrize(
    ("passes", "columns", "cure"),
    [
        (10, (INPUT_IDS,), "such as 1"),
        (10, PAIRS, "Give fewer --duplicates"),
        (1, PAIRS, "Add --drop-duplicates, and remove these parts"),
    ],
)
def test_equal_rows_are_explained(passes: int, columns: Any, cure: str) -> None:
    objective = ObjectiveEntry("new", {"max_seq_length": 64}, passes)
    counts = {"write.distinct_rows": 105, "tokenize.distinct_passages": 600}
    copies, rows = find(manifest_of(counts, objective=objective, columns=columns))
    assert (copies.name, rows.name) == ("copies", "equal rows")
    assert rows.what == "89.5 % of the examples are equal to others"
    assert cure in rows.cure


def test_few_copies_and_equal_rows_are_no_finding() -> None:
    assert find(manifest_of()) == ()
    few = {"tokenize.distinct_passages": 950, "write.distinct_rows": 900}
    assert find(manifest_of(few)) == ()
    # The share of fewer than 50 rows may be chance.
    assert find(manifest_of({"write.rows": 49, "write.distinct_rows": 1})) == ()


def test_whole_texts_are_not_lacking_sentences() -> None:
    counts = {"tokenize.documents": 1000}
    assert names_of(manifest_of(counts)) == ["sentences per document"]
    whole = replace(manifest_of().corpus, options={"sentence_rule": "document"})
    assert names_of(manifest_of(counts, corpus=whole)) == []
    assert names_of(manifest_of(counts, columns=(INPUT_IDS,))) == []


def test_the_cure_depends_on_the_rules() -> None:
    def cure(**options: Any) -> str:
        corpus = replace(manifest_of().corpus, options=options)
        [finding] = find(manifest_of({"tokenize.documents": 1000}, corpus=corpus))
        return finding.cure

    both = cure(input_format="text", document_rule="wikitext", sentence_rule="line")
    assert "--sentence-rule split" in both
    assert "--document-rule whole-file" in both
    assert "--document-rule" not in cure(input_format="json-lines", sentence_rule="line")
    assert "split" not in cure(input_format="text", sentence_rule="split")


def test_one_shard_much_larger_than_the_others() -> None:
    def sizes(*sizes: int) -> list[str]:
        shards = [Shard(f"s{n}", size, "0" * 64, 1000, 64_000) for n, size in enumerate(sizes)]
        train = Split.from_shards(shards, BALANCED)
        return names_of(manifest_of(splits={"train": train}))

    assert sizes(2**30, 2**27, 2**27) == ["largest shard of train"]
    assert sizes(2**30, 2**29, 2**29) == []
    assert sizes(2**20, 2**10, 2**10) == []
    assert sizes(2**30) == []


def test_one_compressed_file_much_larger_than_the_others() -> None:
    def files(suffix: str, *sizes: int) -> list[str]:
        entries = tuple(SourceFile(f"{n}{suffix}", size) for n, size in enumerate(sizes))
        return names_of(manifest_of(corpus=replace(manifest_of().corpus, files=entries)))

    assert files(".txt.gz", 2**33, 2**28, 2**28) == ["largest file of the corpus"]
    assert files(".txt", 2**33, 2**28, 2**28) == []
    assert files(".txt.gz", 2**28, 2**28, 2**28) == []


@pytest.mark.parametrize("rows", [None, 0, 20])
def test_a_validation_split_with_few_rows(rows: int | None) -> None:
    manifest = manifest_of(output=replace(manifest_of().output, validation_share=0.1))
    few = {} if rows is None else {"validation": Split.from_shards([small_shard("v", rows)], {})}
    assert names_of(replace(manifest, splits={**manifest.splits, **few})) == ["validation rows"]
    enough = {"validation": Split.from_shards([small_shard("v", 200)], {})}
    assert names_of(replace(manifest, splits={**manifest.splits, **enough})) == []


@pytest.mark.parametrize(
    ("train", "validation", "name"), [(0, 94, "train rows"), (3, 300, "train rows"), (400, 300, "")]
)
def test_a_train_split_without_examples(train: int, validation: int, name: str) -> None:
    output = replace(manifest_of().output, validation_share=0.99)
    splits = {
        split: Split.from_shards([small_shard(split, rows)], {})
        for split, rows in (("train", train), ("validation", validation))
    }
    found = find(manifest_of(output=output, splits=splits))
    assert [finding.name for finding in found] == [name] * bool(name)
    for finding in found:
        assert f"The train split has {train} examples" in finding.what
        assert "a smaller --validation-share" in finding.cure


def test_a_larger_validation_split_is_advised_only_where_it_is_enough() -> None:
    def cure(share: float, rows: int) -> str:
        splits = {
            **manifest_of().splits,
            "validation": Split.from_shards([small_shard("v", rows)], {}),
        }
        output = replace(manifest_of().output, validation_share=share)
        [finding] = find(manifest_of(output=output, splits=splits))
        return finding.cure

    assert "a larger --validation-share, such as 0.15" in cure(0.01, 10)
    assert "a larger" not in cure(0.1, 10)


def test_a_kept_field_that_no_document_has() -> None:
    corpus = replace(manifest_of().corpus, options={"keep_fields": ["url", "meta.id", "day"]})

    def found(*values: int) -> list[Finding]:
        counts = {f"read.kept_values.{n}": number for n, number in enumerate(values)}
        return list(find(manifest_of(counts, corpus=corpus)))

    assert found(1, 100, 7) == []
    assert found() == []  # as of an estimate, which counts none
    [finding] = found(0, 3, 0)
    assert finding.what == "No document has a value in --keep-fields url day"


def test_every_threshold_has_its_reason() -> None:
    assert all(usual.shown and usual.reason and usual.low <= usual.high for usual in USUAL.values())


def test_the_reference_has_a_row_for_each_finding() -> None:
    page = (CHECKOUT / "docs" / "reference" / "findings.md").read_text()
    assert re.findall(r"^\| `([a-z ]+)` \|", page, re.MULTILINE) == list(USUAL)
    # Each is made by some check.
    checks = (CHECKOUT / "corpusmill" / "inspection" / "findings.py").read_text()
    assert set(re.findall(r'_find\(\s*"([a-z ]+)"', checks)) == set(USUAL)


def test_a_finding_reads_as_sentences() -> None:
    finding = Finding("x", "Half is missing", 0.5, "all", "It was lost", "Find it")
    assert str(finding) == "Half is missing (usually all). It was lost. Find it."


def test_special_tokens_in_the_text_that_became_their_ids() -> None:
    counts = {"tokenize.special_tokens_in_text": 3}
    manifest = manifest_of(counts)
    for in_text in (True, False):
        options = {"special_tokens_in_text": in_text}
        tokenizer = replace(manifest.tokenizer, options=options)
        data = replace(manifest, tokenizer=tokenizer)
        cures = [finding.cure for finding in find(data)]
        assert [cure[:31] for cure in cures] == ["Give --no-special-tokens-in-text"[:31]] * in_text
        figures = [figure.name for figure in summarize(data).figures]
        assert "special tokens in text" in figures
