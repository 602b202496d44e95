"""The words by which BERT's examples are masked, and the columns for masking them later."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays import ragged
from corpusmill.objectives.bert import Bert, BertOptions
from corpusmill.objectives.masking.tokens import row_keys
from tests.corpusmill.objectives.bert_examples import VOCAB_SIZE, bert, unmask
from tests.tools.builders import (
    SPECIAL,
    Corpus,
    build_pass,
    corpora,
    mark_corpus,
    seeds,
)

SEED, LENGTH = 5, 30

TOKENS: dict[str, Any] = {"max_seq_length": LENGTH, "masked_lm_prob": 0.3}
WORDS = {**TOKENS, "whole_word_mask": True}
NGRAMS = {**WORDS, "ngram": 3}
RULES = pytest.mark.parametrize("rule", [TOKENS, WORDS, NGRAMS], ids=["tokens", "words", "ngrams"])


def begins_word(token: int) -> bool:
    """Return whether a token begins a word wherever it is: every third one does."""
    return token % 3 == 0


def marked(corpus: Corpus) -> Corpus:
    return mark_corpus(corpus, lambda place, token: place > 0 and not begins_word(token))


def build(corpus: Corpus, repeat: int = 0, seed: int = SEED, **options: Any) -> pa.RecordBatch:
    objective = bert(**options)
    return build_pass(objective, marked(corpus) if objective.words else corpus, repeat, seed)


def words_of(row: list[int], corpus: Corpus) -> list[list[int]]:
    """Return the places of each word of an unmasked row."""
    firsts = {sentence[0] for document in corpus.values() for sentence in document}
    words: list[list[int]] = []
    inside = False
    for place, token in enumerate(row):
        special = token in {SPECIAL.cls_id, SPECIAL.sep_id}
        if inside and not (special or begins_word(token) or token in firsts):
            words[-1].append(place)
        elif not special:
            words.append([place])
        inside = not special
    return words


@given(corpora, seeds, st.sampled_from([1, 3]))
def test_whole_words_are_masked(corpus: Corpus, seed: int, ngram: int) -> None:
    examples = build(corpus, seed=seed, **{**WORDS, "ngram": ngram})
    for example in examples.to_pylist():
        original = unmask(example)
        positions = set(example["masked_lm_positions"])
        for word in words_of(original, corpus):
            assert positions.isdisjoint(word) or positions.issuperset(word)
        assert len(positions) <= max(1, round((len(original) - 3) * 0.3))


@RULES
def test_what_a_dynamic_data_set_stores(rule: dict[str, Any]) -> None:
    objective = bert(**rule, mask="dynamic")
    names = [column.name for column in objective.columns]
    words = ["seg_labels"] if objective.words else []
    assert names == ["input_ids", "token_type_ids", "next_sentence_label", *words]
    assert "masked" not in objective.columns[0].meaning
    assert "masked" in bert(**rule).columns[0].meaning


@RULES
@given(corpus=corpora, seed=seeds, repeat=st.integers(0, 3))
def test_dynamic_rows_can_be_masked_to_the_static_ones(
    rule: dict[str, Any], corpus: Corpus, seed: int, repeat: int
) -> None:
    static = build(corpus, repeat, seed, **rule)
    dynamic = build(corpus, repeat, seed, **rule, mask="dynamic")
    assert dynamic.column("input_ids").to_pylist() == [unmask(row) for row in static.to_pylist()]
    masked_lm = bert(**rule, mask="dynamic").masked_lm
    input_ids, offsets = ragged.from_arrow(dynamic.column("input_ids"))
    seg_labels = np.empty(0, np.int8)
    if masked_lm.whole_words:
        seg_labels, _ = ragged.from_arrow(dynamic.column("seg_labels"))
    keys = row_keys(
        np.uint64(seed), dynamic.column("document").to_numpy(), repeat,
        dynamic.column("index").to_numpy(),
    )  # fmt: skip
    masked = input_ids.copy()
    positions, labels, ends = masked_lm.mask(masked, seg_labels, offsets, keys)
    for name, values, starts in (
        ("input_ids", masked, offsets),
        ("masked_lm_positions", positions, ends),
        ("masked_lm_ids", labels, ends),
    ):
        assert ragged.to_arrow(values, starts).to_pylist() == static.column(name).to_pylist()


@given(corpora, seeds)
def test_stored_labels_tell_the_words(corpus: Corpus, seed: int) -> None:
    for example in build(corpus, seed=seed, **WORDS, mask="dynamic").to_pylist():
        labels = [-1] * len(example["input_ids"])
        for word in words_of(example["input_ids"], corpus):
            labels[word[0] : word[-1] + 1] = [0] + [1] * (len(word) - 1)
        assert example["seg_labels"] == labels


def test_ids_have_the_tokenizers_type_whatever_type_marks_have() -> None:
    for dtype in ("int16", "uint16", "int32"):
        objective = Bert(BertOptions(**WORDS), SPECIAL, VOCAB_SIZE, dtype)
        built = build_pass(objective, marked({1: [[10, 11], [12]], 2: [[13]]}))
        assert built.column("input_ids").type.value_type == pa.from_numpy_dtype(np.dtype(dtype))
        tokens = {token for row in built.to_pylist() for token in unmask(row)}
        assert tokens <= {2, 3, *range(10, 14)}


def test_marks_are_asked_for_where_words_are_masked() -> None:
    assert bert(whole_word_mask=True).words == "unicode"
    assert bert(whole_word_mask=True, words="jieba").words == "jieba"
    assert bert().words == ""
