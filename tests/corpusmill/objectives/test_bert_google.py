"""BERT's and ALBERT's examples by the rule of Google's programs: columns, predictions, words."""

from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.arrays.columns import Role
from corpusmill.objectives.bert import Segments
from corpusmill.objectives.objective import Repeat
from tests.corpusmill.objectives.bert_examples import bert, build, segments, unmask
from tests.corpusmill.objectives.reference_word_masking import find_words
from tests.tools.builders import (
    Corpus,
    assert_measured,
    batch_of,
    build_pass,
    corpora,
    numbered_corpus,
    seeds,
)
from tests.tools.lazily import LazyModule

stats = LazyModule("scipy.stats")

GOOGLE: dict[str, Any] = {"pairs": "google", "max_seq_length": 30}
ALBERT: dict[str, Any] = {**GOOGLE, "segments": "sentence-order", "whole_word_mask": True}
KINDS: tuple[Segments, Segments] = ("next-sentence", "sentence-order")
both_segments = pytest.mark.parametrize("kind", KINDS)
EDGES = {2, 3}  # [CLS] and [SEP]
# Odd ids continue a word.
PIECES = [token % 2 for token in range(1000)]


def build_words(corpus: Corpus, seed: int = 1, **options: Any) -> pa.RecordBatch:
    """Build one pass with words of pieces."""
    marked = {
        document: [[2 * token + PIECES[token] for token in ids] for ids in sentences]
        for document, sentences in corpus.items()
    }
    return build_pass(bert(**options), marked, seed=seed)


@both_segments
@given(corpora, seeds, st.sampled_from([0.05, 0.15, 0.5]), st.sampled_from([3, 20, None]))
@settings(max_examples=30, deadline=None)
def test_special_tokens_count_when_predictions_are_counted(
    kind: Segments, corpus: Corpus, seed: int, prob: float, cap: int | None
) -> None:
    options: dict[str, Any] = {
        "masked_lm_prob": prob,
        "max_predictions_per_seq": cap,
        "segments": kind,
    }
    for row in build(corpus, seed=seed, **GOOGLE, **options).to_pylist():
        length = len(row["input_ids"])
        wanted = max(1, round(length * prob))
        texts = sum(map(len, segments(row)))
        assert len(row["masked_lm_positions"]) == min(wanted, cap or wanted, texts)
    most = bert(**GOOGLE, **options).options.most_predictions
    assert most == min(cap or 99, max(1, round(30 * prob)))


@both_segments
@given(corpora, seeds)
@settings(max_examples=30, deadline=None)
def test_tokens_of_other_documents_are_counted(kind: Segments, corpus: Corpus, seed: int) -> None:
    objective = bert(segments=kind, **GOOGLE)
    rows = build_pass(objective, corpus, seed=seed)
    own = {document: set(chain(*ids)) for document, ids in corpus.items()}
    strange = sum(
        token not in own[row["document"]] | EDGES
        for row in rows.to_pylist()
        for token in unmask(row)
    )
    sizes = sum(len(row) - 3 for row in rows.column("input_ids").to_pylist())
    counts = objective.count(batch_of(corpus), rows)
    assert counts["random_tokens"] == strange
    tokens = sum(map(len, own.values()))
    assert sizes - strange + counts["trimmed_tokens"] == tokens
    assert_measured(objective, rows, objective.finish(rows, False))


@pytest.mark.parametrize("padded", [False, True])
def test_alberts_rows_tell_where_words_begin(padded: bool) -> None:
    corpus = numbered_corpus([[4, 7, 3], [9], [1], [40, 2, 2]])
    for mask in ("static", "dynamic"):
        objective = bert(**ALBERT, mask=mask)
        assert [column.name for column in objective.columns[:4]] == [
            "input_ids", "token_type_ids", "sentence_order_label", "token_boundary",
        ]  # fmt: skip
        built = build_words(corpus, **ALBERT, mask=mask)
        rows = objective.finish(built, padded).to_pylist()
        for row, whole in zip(rows, built.to_pylist(), strict=True):
            ids = unmask(whole)
            expected = [int(token in EDGES or not PIECES[token]) for token in ids]
            width = 30 if padded else len(ids)
            assert row["token_boundary"] == expected + [0] * (width - len(ids))
    assert bert(**ALBERT).columns[3].role is Role.WORD_STARTS


def test_other_rows_do_not_tell_it() -> None:
    others: list[dict[str, Any]] = [
        {**ALBERT, "pairs": "article"},
        {**ALBERT, "segments": "next-sentence"},
        {**GOOGLE, "segments": "sentence-order"},
    ]
    for options in others:
        names = [column.name for column in bert(**options).columns]
        assert "token_boundary" not in names
        assert "random_length" not in names


@pytest.mark.parametrize("ngram", [1, 3])
def test_words_continue_after_a_sep_and_are_masked_whole(ngram: int) -> None:
    corpus = dict.fromkeys(range(40), [[10, 11, 12, 13, 15, 17, 18, 20, 21]] * 4)
    options = {**ALBERT, "max_seq_length": 20, "ngram": ngram, "masked_lm_prob": 0.3}
    rows = build_words(corpus, **options).to_pylist()
    unmasked = build_words(corpus, **options, mask="dynamic").to_pylist()
    across = 0
    for row, plain in zip(rows, unmasked, strict=True):
        ids = unmask(row)
        assert ids == plain["input_ids"]
        [words] = find_words(ids, [PIECES[token] for token in ids], EDGES, google=True)
        labels = [-1] * len(ids)
        for word in words:
            for place in word:
                labels[place] = int(place != word[0])
            chosen = {place in row["masked_lm_positions"] for place in word}
            assert len(chosen) == 1
            across += word[-1] - word[0] >= len(word) and chosen == {True}
        assert labels == plain["seg_labels"]
    assert across > 5


def test_labels_of_both_programs_have_their_names() -> None:
    of_bert, of_albert = (bert(segments=kind, **GOOGLE).columns[2] for kind in KINDS)
    assert of_bert.value_names == ("next", "random")
    assert of_albert.value_names == ("in order", "switched or random")
    assert of_albert.feature == "next_sentence_labels"


def test_the_pool_is_used_where_documents_are_drawn_at_random() -> None:
    assert bert(segments="sentence-order").pool_tokens == 0
    assert bert(segments="sentence-order", pairs="google", pool_tokens=7).pool_tokens == 7
    with pytest.raises(ValueError, match="pool of random documents"):
        bert(**GOOGLE).build(batch_of({1: [[10]]}), Repeat(0, None, np.zeros(1, np.uint8), 1))
