import re
import tomllib
from dataclasses import replace
from typing import Any

from corpusmill.arrays.columns import Column, Role
from corpusmill.corpus.filters.functions import NearPair
from corpusmill.dataset.manifest import Manifest, ObjectiveEntry, Shard, Split
from corpusmill.dataset.manifest_entries import Filtering, Source, SourceFile
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


def corpus_of(**changes: Any) -> Any:
    return replace(manifest_of().corpus, **changes)


def files_of(*sizes: int, suffix: str = ".txt", **changes: Any) -> Any:
    return corpus_of(
        files=tuple(SourceFile(f"{n}{suffix}", size, **changes) for n, size in enumerate(sizes))
    )


def shards_of(*sizes: int) -> dict[str, Split]:
    shards = [Shard(f"s{n}", size, "0" * 64, 1000, 64_000) for n, size in enumerate(sizes)]
    return {"train": Split.from_shards(shards, BALANCED)}


def splits_of(**rows: int) -> dict[str, Split]:
    return {
        name: Split.from_shards([small_shard(name, number)], {}) for name, number in rows.items()
    }


def holding_back(share: float) -> Any:
    return replace(manifest_of().output, validation_share=share)


def names_of(manifest: Manifest) -> list[str]:
    return [finding.name for finding in find(manifest)]


def find_one(*given: Any, **changes: Any) -> Finding:
    [finding] = find(manifest_of(*given, **changes))
    return finding


SECONDS = "second_segment_length"
# Without a class about segments nothing is learned from a second one.
NO_CLASS = (INPUT_IDS, segment_column(64), POSITIONS)
CUT = {"read.cut_documents": 64, "tokenize.text_bytes": 11 * 10**8, "tokenize.tokens": 10**8}
LARGE = 2**30
SHORT = {"tokenize.documents": 1000}
TABLE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("", {}),
    # The counts of stages.
    ("sentences per document", {"counts": {"tokenize.documents": 900}}),
    ("", {"counts": SHORT, "corpus": corpus_of(options={"sentence_rule": "document"})}),
    ("", {"counts": SHORT, "columns": (INPUT_IDS,)}),
    ("long sentences", {"counts": {"build.long_sentences": 100}}),
    ("coverage", {"counts": {"build.trimmed_tokens": 20_000}}),
    ("coverage", {"counts": {"build.trimmed_tokens": 10_500}}),
    ("unknown tokens", {"counts": {"tokenize.unknown_tokens": 500}}),
    ("control characters", {"counts": {"tokenize.control_characters": 60_000}}),
    ("", {"counts": {"tokenize.control_characters": 3}}),
    ("tokens per letter", {"counts": {"tokenize.text_bytes": 40_000}}),
    ("tokens per letter", {"counts": {"tokenize.letter_bytes": 80_000}}),
    ("rejects", {"counts": {"read.rejected_lines": 30}}),
    ("rejects", {"counts": {"read.rejects": 8, "read.rejected_bytes": 500, "read.bytes": 1000}}),
    ("cut documents", {"counts": CUT}),
    ("", {"counts": CUT, "corpus": corpus_of(options={"max_document_bytes": 2**20})}),
    ("", {"counts": {**CUT, "read.cut_documents": 1, "tokenize.text_bytes": 2**31}}),
    ("copies", {"counts": {"tokenize.distinct_passages": 500}}),
    ("copies", {"counts": {"tokenize.distinct_passages": 500, "write.distinct_rows": 500}}),
    ("equal rows", {"counts": {"write.distinct_rows": 105}}),
    ("equal rows", {"counts": {"write.distinct_rows": 750}}),  # half of the rows, in pairs
    ("", {"counts": {"tokenize.distinct_passages": 950, "write.distinct_rows": 900}}),
    # The share of fewer than 50 rows may be chance.
    ("", {"counts": {"write.rows": 49, "write.distinct_rows": 1}}),
    # The distributions of rows.
    ("switched segments", {"distributions": {"sentence_order_label": {0: 10, 1: 990}}}),
    ("switched segments", {"distributions": {"sentence_order_label": {0: 1000}}}),
    ("", {"distributions": {"sentence_order_label": {0: 1, 1: 9}}}),  # few may be so by chance
    ("padding", {"distributions": {"length": {16: 1000}}}),
    ("", {"distributions": {"length": {640: 1000}}}),
    ("", {"distributions": {SECONDS: {0: 200, 30: 800}}}),
    ("empty second segments", {"distributions": {SECONDS: {0: 540, 30: 460}}}),
    ("", {"distributions": {SECONDS: {0: 540, 30: 460}}, "columns": NO_CLASS}),
    # The sizes of shards and files.
    ("largest shard of train", {"splits": shards_of(LARGE, 2**27, 2**27)}),
    ("", {"splits": shards_of(LARGE, 2**29, 2**29)}),
    ("", {"splits": shards_of(2**20, 2**10, 2**10)}),
    ("", {"splits": shards_of(LARGE)}),
    ("largest file of the corpus", {"corpus": files_of(2**33, 2**28, 2**28, suffix=".gz")}),
    ("", {"corpus": files_of(2**33, 2**28, 2**28)}),
    ("", {"corpus": files_of(2**28, 2**28, 2**28, suffix=".gz")}),
    # The rows of splits.
    ("validation rows", {"output": holding_back(0.1)}),
    ("validation rows", {"output": holding_back(0.1), "splits": splits_of(train=9, validation=0)}),
    (
        "validation rows",
        {"output": holding_back(0.1), "splits": splits_of(train=99, validation=20)},
    ),
    ("", {"output": holding_back(0.1), "splits": splits_of(train=900, validation=200)}),
    ("train rows", {"output": holding_back(0.99), "splits": splits_of(train=0, validation=94)}),
    ("train rows", {"output": holding_back(0.99), "splits": splits_of(train=3, validation=300)}),
    ("", {"output": holding_back(0.99), "splits": splits_of(train=400, validation=300)}),
)


def test_numbers_out_of_their_usual_ranges_are_found() -> None:
    wrong = {
        (name, str(changes)): found
        for name, changes in TABLE
        if (found := names_of(manifest_of(**changes))) != [name] * bool(name)
    }
    assert not wrong
    for _, changes in TABLE:
        findings = find(manifest_of(**changes))
        assert summarize(manifest_of(**changes)).findings == findings
        assert all(one.cause and one.cure and one.usual for one in findings)
    assert find(small_manifest()) == ()
    shares = find_one({"build.trimmed_tokens": 20_000}), find_one({"tokenize.unknown_tokens": 500})
    assert [one.what[:6] for one in shares] == ["33.3 %", "1.7 % "]


def test_rejects_are_found_by_records_or_bytes() -> None:
    blocks = "100.0 % of the files and blocks are rejects"
    for rejects, files, share in (
        ({"read.rejects": 8, "read.rejected_bytes": 49, "read.bytes": 100}, 1, "49.0 % of the"),
        ({"read.rejects": 1, "read.rejected_bytes": 99, "read.bytes": 100}, 2, "99.0 % of the"),
        ({"read.rejects": 144, "read.lines": 0}, 9, blocks),
        ({"read.rejects": 1, "read.rejected_bytes": 1, "read.bytes": 100}, 1, ""),
        ({"read.rejects": 1, "read.rejected_rows": 600, "read.rows": 1200}, 1, "25.0 % of the"),
    ):
        found = find(manifest_of(rejects, corpus=files_of(*[1] * files)))
        assert [finding.what.startswith(share) for finding in found] == bool(share) * [True]


def test_each_file_that_ends_early_is_named_up_to_ten() -> None:
    def found(cut: int, files: int, unread: int = 50) -> Finding:
        entries = [
            SourceFile(f"{n}.gz", 100, unread=unread if n < cut else None) for n in range(files)
        ]
        counts = {"read.rejects": 1, "read.unfinished_files": cut}
        finding = find_one(counts, corpus=corpus_of(files=tuple(entries)))
        assert finding.name == "unfinished files"
        assert "--max-rejects" in finding.cure
        return finding

    damage = "0.2 % of the stored bytes: 0.gz (100 bytes, 50 of them after the damage)"
    assert "1 of 200 files" in found(1, 200).what
    assert damage in found(1, 200).what
    assert "0.5 % of the stored bytes: 0.gz (100 bytes)" in found(1, 200, 100).what
    assert "9.gz (100 bytes, 50 of them after the damage) and 5 more" in found(15, 200).what
    assert "10.gz" not in found(15, 200).what


def test_classes_of_others_are_not_explained_by_segments() -> None:
    genre = Column(
        "genre", "int8", "the kind of text", 0, 0, Role.CLASS, 0, 1, ("prose", "verse"), "kind"
    )
    for columns in ((INPUT_IDS, genre), (*PAIRS, genre)):
        for rare, counts in (("verse", {0: 990, 1: 10}), ("prose", {1: 1000})):
            finding = find_one(distributions={"genre": counts}, columns=columns)
            assert finding.name == "verse kind"
            assert rare in finding.cause
            assert "segment" not in str(finding)
            assert "sentence" not in str(finding)


def test_real_sentences_in_short_rows_need_longer_rows() -> None:
    split = {"sentence_rule": "split", "input_format": "text", "document_rule": "wikitext"}
    for counts in ({}, {"tokenize.documents": 900}):
        for rules in (split, {**split, "sentence_rule": "line"}):
            corpus = corpus_of(options=rules)
            manifest = manifest_of({"build.long_sentences": 100, **counts}, corpus=corpus)
            [finding] = [one for one in find(manifest) if one.name == "long sentences"]
            assert "--max-seq-length, such as 128" in finding.cure
            assert "whole-file" not in finding.cure
    # Lines of 100 tokens on average are paragraphs.
    lines = {
        "build.long_sentences": 100,
        "tokenize.tokens": 10**5,
        "tokenize.text_bytes": 4 * 10**5,
    }
    assert "--sentence-rule split" in find_one(lines).cure


def test_causes_and_cures_fit_the_data() -> None:
    # No tokenizer is blamed for what is no text.
    utf_16 = {"control_characters": 60_000, "unknown_tokens": 20_000, "text_bytes": 60_000}
    finding = find_one({f"tokenize.{name}": number for name, number in utf_16.items()})
    assert (finding.name, "UTF-16" in finding.cause) == ("control characters", True)
    assert "64 pieces" in find_one(CUT).cause
    figures = summarize(manifest_of({**CUT, "tokenize.cut_texts": 2})).figures
    assert [(one.name, one.value) for one in figures[:2]] == [
        ("pieces", 64), ("tokenized in parts", 2),
    ]  # fmt: skip
    whole = corpus_of(options={"sentence_rule": "document"})
    trimmed = find_one({"build.trimmed_tokens": 20_000}, columns=(INPUT_IDS,), corpus=whole)
    assert "--overflow keep" in trimmed.cure
    for share, is_advised in ((0.01, True), (0.1, False)):  # half of all are not kept back
        splits = {**manifest_of().splits, **splits_of(validation=10)}
        cure = find_one(output=holding_back(share), splits=splits).cure
        assert ("a larger --validation-share, such as 0.15" in cure) is is_advised
    finding = find_one(output=holding_back(0.99), splits=splits_of(train=3, validation=300))
    assert "The train split has 3 examples" in finding.what
    assert "a smaller --validation-share" in finding.cure

    def cure_of(**options: Any) -> str:
        return find_one(SHORT, corpus=corpus_of(options=options)).cure

    both = cure_of(input_format="text", document_rule="wikitext", sentence_rule="line")
    assert "--sentence-rule split" in both
    assert "--document-rule whole-file" in both
    assert "--document-rule" not in cure_of(input_format="json-lines", sentence_rule="line")
    assert "split" not in cure_of(input_format="text", sentence_rule="split")


def test_a_cap_that_takes_most_of_the_predictions() -> None:
    for length, prob, cap, is_found in (
        (128, 0.15, 20, False), (512, 0.15, 20, True), (2048, 0.15, 20, True),
        (512, 0.4, 20, True), (512, 0.15, 77, False), (512, 0.15, 5, True),
        (512, 0.15, None, False),
    ):  # fmt: skip
        options = {"max_seq_length": length, "masked_lm_prob": prob, "max_predictions_per_seq": cap}
        predictions = {cap or round(length * prob): 1000}
        manifest = manifest_of(
            distributions={"length": {length: 1000}, "predictions": predictions},
            objective=ObjectiveEntry("new", options, 1),
        )
        assert names_of(manifest) == is_found * ["capped predictions"]
        for finding in find(manifest):
            assert f"--max-predictions-per-seq {round(length * prob)}" in finding.cure
            assert "100.0 % of the examples have" in finding.cause


def test_near_duplicates_of_all_text_or_of_a_source() -> None:
    options = {"drop_near_duplicates": 0.8, "near_duplicate_bands": 10}
    corpus = replace(corpus_of(), filtering=Filtering(near_duplicates=options))
    reason = "filter.dropped.near-duplicate"
    for number, crowded, of_source, parts in (
        (290, 90, 20, []),
        (
            310,
            90,
            20,
            ["31.0 % of the documents that are compared are near-duplicates, with 20.0 %"],
        ),
        (290, 110, 40, ["40.0 % of the documents of web that are", "In 1.1 % of their bands"]),
    ):
        counts = {"read.documents": 1000, "near.documents": 1000, "near.crowded": crowded}
        counts |= {"near.bytes": 50, "near.dropped_bytes": 10}
        own = {"near.documents": 100, reason: of_source}
        sources = (Source("web", 1.0, 1, 1, own),)
        manifest = manifest_of({**counts, reason: number}, corpus=replace(corpus, sources=sources))
        pairs = (NearPair("books", 7, 3, 0.9, "a b", "a c"), NearPair("web", 8, 3, 0.8, "d", "e"))
        findings = find(replace(manifest, near_pairs=pairs))
        for finding in findings:
            if finding.name == "near duplicates":
                assert '0.80: "d" and "e"' in finding.cause
                assert ('0.90: "a b" and "a c"' in finding.cause) == ("of web" not in finding.what)
        found = [finding.what for finding in findings]
        assert [what[: len(part)] for what, part in zip(found, parts, strict=True)] == parts


def test_equal_rows_are_explained() -> None:
    for passes, columns, cure in (
        (10, (INPUT_IDS,), "such as 1"),
        (10, PAIRS, "Give fewer --duplicates"),
        (1, PAIRS, "Add --drop-duplicates, and remove these parts"),
    ):
        objective = ObjectiveEntry("new", {"max_seq_length": 64}, passes)
        counts = {"write.distinct_rows": 105, "tokenize.distinct_passages": 600}
        copies, rows = find(manifest_of(counts, objective=objective, columns=columns))
        assert (copies.name, rows.name) == ("copies", "equal rows")
        assert rows.what == "89.5 % of the examples are equal to others"
        assert cure in rows.cure


def test_a_kept_field_that_no_document_has() -> None:
    corpus = corpus_of(options={"keep_fields": ["url", "meta.id", "day"]})
    for values, fields in (((1, 100, 7), ""), ((), ""), ((0, 3, 0), "url day")):
        counts = {f"read.kept_values.{n}": number for n, number in enumerate(values)}
        found = [finding.what for finding in find(manifest_of(counts, corpus=corpus))]
        assert found == [f"No document has a value in --keep-fields {fields}"] * bool(fields)


def test_the_reference_has_a_row_for_each_finding() -> None:
    page = (CHECKOUT / "docs" / "reference" / "findings.md").read_text()
    assert re.findall(r"^\| `([a-z ]+)` \|", page, re.MULTILINE) == list(USUAL)
    # Each is made by some check.
    checks = (CHECKOUT / "corpusmill" / "inspection" / "findings.py").read_text()
    sentences = tomllib.loads((CHECKOUT / "corpusmill" / "audit" / "findings.toml").read_text())
    of_audits = {name.partition(".")[0] for name in sentences.keys() - {"ways"}}
    of_builds = {*re.findall(r'judge\(\s*"([a-z ]+)"', checks), "end of text"}
    assert of_builds | of_audits == set(USUAL)
    finding = Finding("x", "Half is missing", 0.5, "all", "It was lost", "Find it")
    assert str(finding) == "Half is missing (usually all). It was lost. Find it."


def test_special_tokens_in_the_text_that_became_their_ids() -> None:
    manifest = manifest_of({"tokenize.special_tokens_in_text": 3})
    for in_text in (True, False):
        tokenizer = replace(manifest.tokenizer, options={"special_tokens_in_text": in_text})
        data = replace(manifest, tokenizer=tokenizer)
        cures = [finding.cure for finding in find(data)]
        assert [cure[:31] for cure in cures] == ["Give --no-special-tokens-in-text"[:31]] * in_text
        assert "special tokens in text" in [figure.name for figure in summarize(data).figures]
