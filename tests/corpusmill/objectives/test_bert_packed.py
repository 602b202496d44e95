"""BERT's packed rows: documents between their own special tokens, as ModernBERT trains."""

from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.columns import arrow_schema
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.errors import UserError
from corpusmill.layout.sorting import add_keys, keyed_schema, sort_rows
from corpusmill.objectives.bert import Bert, BertOptions
from tests.corpusmill.objectives import bert_examples
from tests.corpusmill.objectives.bert_examples import unmask
from tests.corpusmill.objectives.reference_roberta import cut_document
from tests.tools.builders import (
    SPECIAL,
    Corpus,
    assert_measured,
    batch_of,
    build_pass,
    corpora,
    mark_corpus,
    numbered_corpus,
    seeds,
)
from tests.tools.knobs import knobs

LENGTH = 30
MASKS: dict[str, dict[str, Any]] = {
    "tokens": {},
    "words": {"whole_word_mask": True},
    "dynamic": {"mask": "dynamic"},
    "dynamic words": {"mask": "dynamic", "whole_word_mask": True},
}
EVERY_MASK = pytest.mark.parametrize("mask", MASKS)
CLS, SEP = SPECIAL.cls_id or 0, SPECIAL.sep_id or 0

bert = partial(
    bert_examples.bert,
    segments="packed",
    max_seq_length=LENGTH,
    masked_lm_prob=0.3,
    max_predictions_per_seq=None,
    duplicates=1,
)


def build(objective: Bert, corpus: Corpus, seed: int = 5) -> pa.RecordBatch:
    """Build a pass over a corpus; if the objective has a word rule, odd ids continue a word."""
    if objective.words:
        corpus = mark_corpus(corpus, lambda _, token: token % 2 == 1)
    return add_keys(build_pass(objective, corpus, seed=seed), seed)


def pack(
    objective: Bert,
    built: pa.RecordBatch,
    batch_rows: int = 8192,
) -> pa.RecordBatch:
    groups = objective.pack(sort_rows([built], batch_rows))
    return pa.concat_batches([*groups, built.slice(0, 0)])


def written(
    objective: Bert,
    corpus: Corpus,
    seed: int = 5,
    batch_rows: int = 8192,
) -> list[dict[str, Any]]:
    """Return the rows of a shard as readers see them."""
    packed = pack(objective, build(objective, corpus, seed), batch_rows)
    rows: list[dict[str, Any]] = objective.finish(packed, False).to_pylist()
    return rows


def pieces_of(row: dict[str, Any]) -> list[list[int]]:
    ids = unmask(row)
    return [ids[begin:end] for begin, end in pairwise(row["cu_seqlens"])]


@EVERY_MASK
@pytest.mark.parametrize("padded", [False, True])
def test_rows_have_the_schemas_before_and_after_they_are_packed(mask: str, padded: bool) -> None:
    objective = bert(**MASKS[mask])
    corpus = numbered_corpus([[5, 9, 3], [2], [12, 12, 12, 12]] * 5)
    built = build(objective, corpus)
    packed = pack(objective, built)
    assert built.schema == packed.schema == keyed_schema(objective.built_columns)
    finished = objective.finish(packed, padded)
    assert finished.schema == arrow_schema(objective.columns, padded)
    assert finished.validate(full=True) is None
    measured = assert_measured(objective, packed, finished)
    assert measured["pieces"] @ np.arange(len(measured["pieces"])) == built.num_rows


@given(corpora, seeds, st.sampled_from(sorted(MASKS)), st.integers(1, 9))
def test_a_row_is_whole_documents_between_special_tokens(
    corpus: Corpus, seed: int, mask: str, batch_rows: int
) -> None:
    """Only a document longer than a row is cut; batches, masks and neighbours change nothing."""
    objective = bert(**MASKS[mask])
    rows = written(objective, corpus, seed, batch_rows)
    assert rows == written(objective, corpus, seed)
    pieces = list(chain(*map(pieces_of, rows)))
    expected = [
        [CLS, *chain(*piece), SEP]
        for sentences in corpus.values()
        for piece in cut_document(list(map(list, sentences)), LENGTH - 2)
    ]
    assert sorted(pieces) == sorted(expected)
    assert all(row["cu_seqlens"][-1] == len(row["input_ids"]) <= LENGTH for row in rows)
    counts = objective.count(batch_of(corpus), build_pass(objective, corpus))
    tokens = sum(len(sentence) for sentences in corpus.values() for sentence in sentences)
    assert counts == {"trimmed_tokens": 0, "kept_tokens": tokens}


@pytest.mark.parametrize("whole_words", [False, True])
def test_a_share_of_the_documents_tokens_is_predicted(whole_words: bool) -> None:
    """Special tokens neither count nor are predicted; words stay whole inside a document."""
    corpus = {
        document: [[10 + (document * 13 + place) % 900 for place in range(1 + document * 7 % 11)]]
        for document in range(200)
    }
    objective = bert(whole_word_mask=whole_words, max_seq_length=60)
    rows = written(objective, corpus)
    assert sum(len(row["cu_seqlens"]) > 4 for row in rows) > 20
    for row in rows:
        text = len(row["input_ids"]) - 2 * (len(row["cu_seqlens"]) - 1)
        wanted, predictions = max(1, round(text * 0.3)), len(row["masked_lm_ids"])
        assert wanted - whole_words <= predictions <= wanted
        assert not {CLS, SEP} & set(row["masked_lm_ids"])
    # Another seed masks other places, and each row has its own.
    places = {tuple(row["masked_lm_positions"]) for row in rows}
    assert len(places) > len(rows) * 0.9
    again = written(objective, corpus, seed=6)
    assert places.isdisjoint(tuple(row["masked_lm_positions"]) for row in again)


def test_a_row_has_its_own_number_of_special_tokens_when_it_is_loaded() -> None:
    """A row of five documents and one of one document, each of 20 tokens of text in all."""
    masker = bert(mask="dynamic").masked_lm
    many, one = [CLS, 10, 11, 12, 13, SEP] * 5, [CLS, *range(10, 30), SEP]
    ids = np.array(many + one, np.int16)
    offsets = np.array([0, len(many), len(many) + len(one)])
    keys = np.array([1, 2], np.uint64)
    _, labels, ends = masker.mask(ids, np.empty(0, np.int8), offsets, keys)
    assert np.diff(ends).tolist() == [6, 6]
    assert not {CLS, SEP} & set(labels.tolist())


def test_words_begin_anew_after_special_tokens() -> None:
    corpus = numbered_corpus([[4], [5], [4], [7], [3], [6]])
    for row in written(bert(mask="dynamic", whole_word_mask=True), corpus):
        before = CLS
        for token, label in zip(row["input_ids"], row["seg_labels"], strict=True):
            is_special = token in {CLS, SEP}
            starts = before in {CLS, SEP} or token % 2 == 0
            assert label == (-1 if is_special else 0 if starts else 1)
            before = token


@pytest.mark.parametrize(("packed_tokens", "most_stocked_tokens"), [(600, 600), (600, 2), (2, 600)])
def test_a_long_shard_is_packed_from_a_stock(packed_tokens: int, most_stocked_tokens: int) -> None:
    """With little memory, rows are still those of any batches, and nearly as full."""
    corpus = numbered_corpus([[1 + document * 7 % 23] for document in range(400)])
    objective = bert()
    in_memory = written(objective, corpus)
    with knobs(packed_tokens=packed_tokens, most_stocked_tokens=most_stocked_tokens):
        rows = written(objective, corpus)
        assert rows == written(objective, corpus, batch_rows=7)
    assert sorted(map(sorted, map(unmask, rows))) != sorted(map(sorted, map(unmask, in_memory)))
    assert len(in_memory) <= len(rows) <= len(in_memory) * 1.05


@pytest.mark.parametrize(("length", "dtype"), [(128, "uint8"), (65535, "uint16")])
def test_the_longest_rows(length: int, dtype: str) -> None:
    columns = {column.name: column for column in bert(max_seq_length=length).columns}
    assert [*columns] == ["input_ids", "cu_seqlens", "masked_lm_positions", "masked_lm_ids"]
    assert columns["cu_seqlens"].dtype == dtype
    assert columns["cu_seqlens"].width == length // 3 + 1
    corpus = {0: [[11] * (length - 2)], 1: [[12] * 10], 2: [[13] * (length - 14)]}
    rows = written(bert(max_seq_length=length), corpus)
    assert [len(row["input_ids"]) for row in rows] == [length, length]
    assert sum(len(row["masked_lm_positions"]) for row in rows) == round(
        (length - 2) * 0.3
    ) + round((length - 4) * 0.3)
    assert max(row["masked_lm_positions"][-1] for row in rows) > length - 20


def test_documents_are_whole_articles_unless_sentences_are_asked_for() -> None:
    options = BertOptions("packed")
    chosen = options.choose_documents(DocumentOptions())
    assert (chosen.document_rule, chosen.sentence_rule) == ("wikitext-articles", "document")
    chosen = options.choose_documents(DocumentOptions(sentence_rule="line"))
    assert chosen.sentence_rule == "line"


@pytest.mark.parametrize("segments", ["packed", "full-sentences", "doc-sentences"])
def test_equal_rows_are_not_built_but_stay_readable(segments: Any) -> None:
    options = BertOptions(segments, mask="dynamic", duplicates=2)
    with pytest.raises(UserError, match="--duplicates 2") as error:
        options.check_build()
    assert segments in error.value.cause
    replace(options, mask="static").check_build()
    replace(options, duplicates=1).check_build()
    BertOptions("sentence-order", mask="dynamic").check_build()
