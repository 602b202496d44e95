"""BERT's other examples: pairs in order or switched, whole sentences of documents."""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.columns import IDENTITY_SCHEMA, arrow_schema
from corpusmill.dataset.manifest_entries import recount
from corpusmill.layout.sorting import add_keys, keyed_schema, sort_rows
from corpusmill.objectives.bert import Bert
from tests.corpusmill.objectives import bert_examples
from tests.corpusmill.objectives.bert_examples import unmask
from tests.corpusmill.objectives.reference_roberta import Piece, cut_document, join
from tests.tools.builders import (
    SPECIAL,
    Corpus,
    build_pass,
    corpora,
    mark_corpus,
    numbered_corpus,
    seeds,
)

SEED, LENGTH = 5, 30
KINDS = ("sentence-order", "full-sentences", "doc-sentences")
MASKS: dict[str, dict[str, Any]] = {
    "tokens": {},
    "words": {"whole_word_mask": True},
    "dynamic": {"mask": "dynamic"},
    "dynamic words": {"mask": "dynamic", "whole_word_mask": True},
}
EVERY_MASK = pytest.mark.parametrize("mask", MASKS)


bert = partial(bert_examples.bert, max_seq_length=LENGTH)


def build(objective: Bert, corpus: Corpus, seed: int = SEED) -> list[pa.RecordBatch]:
    """Build two passes over a corpus, with the keys by which a shard sorts them.

    If the objective has a word rule, odd ids continue a word.
    """
    if objective.words:
        corpus = mark_corpus(corpus, lambda _, token: token % 2 == 1)
    return [add_keys(build_pass(objective, corpus, repeat, seed), seed) for repeat in range(2)]


def pack(
    objective: Bert, built: list[pa.RecordBatch], batch_rows: int = 8192
) -> Iterator[pa.RecordBatch]:
    """Return the rows that are written."""
    return objective.pack(sort_rows(list(built), batch_rows))


def written(
    objective: Bert, corpus: Corpus, seed: int = SEED, batch_rows: int = 8192
) -> list[dict[str, Any]]:
    """Return the rows of a shard as readers see them."""
    groups = pack(objective, build(objective, corpus, seed), batch_rows)
    return [row for group in groups for row in objective.finish(group, False).to_pylist()]


def text_of(ids: list[int]) -> list[int]:
    return [token for token in ids if token not in {SPECIAL.cls_id, SPECIAL.sep_id}]


# Columns


def test_pairs_in_order_have_their_own_label() -> None:
    names = [column.name for column in bert(segments="sentence-order").columns]
    assert names == [
        "input_ids", "token_type_ids", "sentence_order_label", "masked_lm_positions",
        "masked_lm_ids",
    ]  # fmt: skip


@pytest.mark.parametrize("segments", ["full-sentences", "doc-sentences"])
def test_whole_sentences_have_neither_label_nor_types(segments: str) -> None:
    names = [column.name for column in bert(segments=segments).columns]
    assert names == ["input_ids", "masked_lm_positions", "masked_lm_ids"]
    dynamic = bert(segments=segments, mask="dynamic")
    assert [column.name for column in dynamic.columns] == ["input_ids"]


@pytest.mark.parametrize("segments", KINDS)
def test_no_pool_is_drawn(segments: str) -> None:
    assert bert(segments=segments).pool_tokens == 0
    assert bert().pool_tokens > 0


def test_the_cap_counts_the_special_tokens_of_the_kind() -> None:
    options: dict[str, Any] = {"masked_lm_prob": 1.0, "max_predictions_per_seq": None}
    most = {kind: bert(segments=kind, **options).options.most_predictions for kind in KINDS}
    assert most == {
        "sentence-order": LENGTH - 3,
        "full-sentences": LENGTH - 2,
        "doc-sentences": LENGTH - 2,
    }


@pytest.mark.parametrize("segments", KINDS)
@EVERY_MASK
def test_rows_have_the_schemas_before_and_after_they_are_packed(segments: str, mask: str) -> None:
    objective = bert(segments=segments, **MASKS[mask])
    corpus = numbered_corpus([[5, 9, 3], [2], [12, 12, 12, 12]])
    built = build(objective, corpus)
    schema = pa.schema([*IDENTITY_SCHEMA, *arrow_schema(objective.built_columns)])
    assert all(batch.schema == keyed_schema(objective.built_columns) for batch in built)
    assert keyed_schema(objective.built_columns).remove(0) == schema
    for group in pack(objective, built):
        assert group.schema == keyed_schema(objective.built_columns)
        for padded in (False, True):
            finished = objective.finish(group, padded)
            assert finished.schema == arrow_schema(objective.columns, padded)
            assert finished.validate(full=True) is None


# Sentence order


@given(corpora, seeds)
def test_the_label_tells_which_segment_is_first_in_the_document(corpus: Corpus, seed: int) -> None:
    for row in written(bert(segments="sentence-order"), corpus, seed):
        ids, types = unmask(row), row["token_type_ids"]
        first, second = (
            text_of([token for token, kind in zip(ids, types, strict=True) if kind == segment])
            for segment in (0, 1)
        )
        if second:
            assert row["sentence_order_label"] == (first[0] > second[0])
        else:
            assert row["sentence_order_label"] == 0
            assert len(first) == 1


# Whole sentences


@given(corpora, seeds, st.sampled_from(sorted(MASKS)), st.integers(1, 9))
def test_full_sentences_are_the_references_in_the_order_of_the_shard(
    corpus: Corpus, seed: int, mask: str, batch_rows: int
) -> None:
    """They do not depend on how sorted rows are cut into batches, or how they are masked."""
    objective = bert(segments="full-sentences", **MASKS[mask])
    room = LENGTH - 2
    cut = {
        document: cut_document(list(map(list, sentences)), room)
        for document, sentences in corpus.items()
    }
    pieces: list[Piece] = []
    for group in sort_rows(build(objective, corpus, seed), batch_rows):
        for place in group.select(["document", "index"]).to_pylist():
            document_pieces = cut[place["document"]]
            sentences = document_pieces[place["index"]]
            is_last = place["index"] == len(document_pieces) - 1
            pieces.append(Piece(len(pieces), sentences, is_last))
    expected = [
        example.input_ids(SPECIAL.cls_id or 0, SPECIAL.sep_id or 0)
        for example in join(pieces, LENGTH)
    ]
    rows = written(objective, corpus, seed, batch_rows)
    assert [unmask(row) for row in rows] == expected
    assert rows == written(objective, corpus, seed)


@pytest.mark.parametrize("segments", ["full-sentences", "doc-sentences"])
@given(corpora, seeds)
def test_every_token_is_in_the_data_set_once_a_pass(
    segments: str, corpus: Corpus, seed: int
) -> None:
    rows = written(bert(segments=segments), corpus, seed)
    corpus_tokens = list(chain(*chain(*corpus.values())))
    row_tokens = [token for row in rows for token in text_of(unmask(row))]
    assert sorted(row_tokens) == sorted(corpus_tokens * 2)
    assert max(len(row["input_ids"]) for row in rows) <= LENGTH


@given(corpora)
def test_sentences_of_one_document_stay_alone(corpus: Corpus) -> None:
    owner = {
        token: document for document, sentences in corpus.items() for token in chain(*sentences)
    }
    for row in written(bert(segments="doc-sentences"), corpus):
        ids = unmask(row)
        assert [ids[0], ids[-1]] == [SPECIAL.cls_id, SPECIAL.sep_id]
        assert len({owner[token] for token in ids[1:-1]}) == 1


@EVERY_MASK
def test_joined_rows_are_masked_as_rows_are(mask: str) -> None:
    """The share and the words follow the rule; another seed gives other places."""
    corpus = numbered_corpus([[1 + (document * 7) % 11] * 2 for document in range(40)])
    objective = bert(segments="full-sentences", max_predictions_per_seq=None, **MASKS[mask])
    rows = written(objective, corpus)
    joined = [row for row in rows if unmask(row).count(SPECIAL.sep_id or 0) > 2]
    assert len(joined) > 5
    if objective.masked_lm.static:
        for row in rows:
            wanted = max(1, round((len(row["input_ids"]) - 2) * 0.15))
            assert len(row["masked_lm_ids"]) <= wanted
            assert not {SPECIAL.cls_id, SPECIAL.sep_id} & set(row["masked_lm_ids"])
            if not objective.words:
                assert len(row["masked_lm_ids"]) == wanted
        again = written(objective, corpus, seed=SEED + 1)
        places = [
            {tuple(row["masked_lm_positions"]) for row in written_rows}
            for written_rows in (rows, again)
        ]
        assert places[0] != places[1]
        assert len({tuple(row["masked_lm_positions"]) for row in joined}) > len(joined) // 2
    elif objective.words:
        for row in rows:
            for token, label in zip(row["input_ids"], row["seg_labels"], strict=True):
                assert (label == -1) == (token in {SPECIAL.cls_id, SPECIAL.sep_id})


def test_words_stay_whole_where_documents_are_joined() -> None:
    """Odd ids continue the previous word, but not across a [SEP]."""
    corpus = numbered_corpus([[4], [5], [4], [7], [3], [6]])
    objective = bert(segments="full-sentences", mask="dynamic", whole_word_mask=True)
    for row in written(objective, corpus):
        before = SPECIAL.cls_id
        for token, label in zip(row["input_ids"], row["seg_labels"], strict=True):
            if label != -1:
                starts = before in {SPECIAL.cls_id, SPECIAL.sep_id} or token % 2 == 0
                assert label == (0 if starts else 1)
            before = token


# Counts


@given(corpora)
@pytest.mark.parametrize("segments", KINDS)
def test_what_is_measured_is_what_is_written(segments: str, corpus: Corpus) -> None:
    objective = bert(segments=segments)
    built, pieces = build(objective, corpus), 0
    for group in pack(objective, built):
        measured = objective.measure(group)
        counted = recount(objective.finish(group, False), objective.columns)
        assert set(counted) <= set(measured)
        for name, counts in counted.items():
            assert measured[name].tolist() == counts.tolist()
        if "pieces" in measured:
            pieces += int(measured["pieces"] @ np.arange(len(measured["pieces"])))
            separators = [
                unmask(row).count(SPECIAL.sep_id or 0)
                for row in objective.finish(group, False).to_pylist()
            ]
            assert measured["documents"].tolist() == np.bincount(separators).tolist()
    if segments == "full-sentences":
        assert pieces == sum(batch.num_rows for batch in built)


@pytest.mark.parametrize("segments", KINDS)
@given(corpora, seeds)
def test_a_document_is_built_the_same_whatever_stands_beside_it(
    segments: str, corpus: Corpus, seed: int
) -> None:
    objective = bert(segments=segments)
    together = pa.Table.from_batches(build(objective, corpus, seed)).to_pylist()
    for document in corpus:
        alone = pa.Table.from_batches(build(objective, {document: corpus[document]}, seed))
        assert alone.to_pylist() == [row for row in together if row["document"] == document]
