"""BERT's other examples: pairs in order, whole sentences, and packed rows, as `pack` makes them."""

from collections.abc import Iterator
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.errors import UserError
from corpusmill.layout.sorting import add_keys, sort_rows
from corpusmill.objectives.bert import Bert, BertOptions
from tests.corpusmill.objectives import bert_examples
from tests.corpusmill.objectives.bert_examples import unmask
from tests.corpusmill.objectives.reference_roberta import Piece, cut_document, join
from tests.tools.builders import (
    SPECIAL,
    Corpus,
    batch_of,
    build_pass,
    corpora,
    mark_corpus,
    numbered_corpus,
    seeds,
)
from tests.tools.knobs import knobs

SEED, LENGTH = 5, 30
CLS, SEP = SPECIAL.cls_id or 0, SPECIAL.sep_id or 0
MASKS: dict[str, dict[str, Any]] = {
    "tokens": {},
    "words": {"whole_word_mask": True},
    "dynamic": {"mask": "dynamic"},
    "dynamic words": {"mask": "dynamic", "whole_word_mask": True},
}
any_mask = st.sampled_from(sorted(MASKS))

bert = partial(bert_examples.bert, max_seq_length=LENGTH)
packed = partial(bert, "packed", masked_lm_prob=0.3, max_predictions_per_seq=None, duplicates=1)


def build(objective: Bert, corpus: Corpus, seed: int = SEED) -> list[pa.RecordBatch]:
    """Build the passes over a corpus, with the keys by which a shard sorts them.

    If the objective has a word rule, odd ids continue a word.
    """
    if objective.words:
        corpus = mark_corpus(corpus, lambda _, token: token % 2 == 1)
    passes = range(min(2, objective.repeats))
    return [add_keys(build_pass(objective, corpus, repeat, seed), seed) for repeat in passes]


def pack(
    objective: Bert, built: list[pa.RecordBatch], rows: int = 8192
) -> Iterator[pa.RecordBatch]:
    """Return the rows that are written."""
    return objective.pack(sort_rows(list(built), rows))


def written(
    objective: Bert, corpus: Corpus, seed: int = SEED, batch_rows: int = 8192
) -> list[dict[str, Any]]:
    """Return the rows of a shard as readers see them."""
    groups = pack(objective, build(objective, corpus, seed), batch_rows)
    return [row for group in groups for row in objective.finish(group, False).to_pylist()]


def pieces_of(row: dict[str, Any]) -> list[list[int]]:
    ids = unmask(row)
    return [ids[begin:end] for begin, end in pairwise(row["cu_seqlens"])]


def test_each_kind_has_its_columns_and_counts_its_special_tokens() -> None:
    masks = ["masked_lm_positions", "masked_lm_ids"]
    for kind, further, special in (
        ("sentence-order", ["token_type_ids", "sentence_order_label"], 3),
        ("full-sentences", [], 2),
        ("doc-sentences", [], 2),
        ("packed", ["cu_seqlens"], 2),
    ):
        objective = bert(kind, masked_lm_prob=1.0, max_predictions_per_seq=None)
        names = [column.name for column in objective.columns]
        assert names == ["input_ids", *further, *masks]
        dynamic = [column.name for column in bert(kind, mask="dynamic").columns]
        assert dynamic == ["input_ids", *further]
        assert objective.options.most_predictions == LENGTH - special
        assert objective.pool_tokens == 0
    assert bert().pool_tokens > 0


# Sentence order


@given(corpora, seeds)
def test_the_label_tells_which_segment_is_first_in_the_document(corpus: Corpus, seed: int) -> None:
    for row in written(bert("sentence-order"), corpus, seed):
        pairs = [*zip(unmask(row), row["token_type_ids"], strict=True)]
        first, second = (
            [token for token, kind in pairs if kind == segment and token not in {CLS, SEP}]
            for segment in (0, 1)
        )
        if second:
            assert row["sentence_order_label"] == (first[0] > second[0])
        else:
            assert (row["sentence_order_label"], len(first)) == (0, 1)


# Whole sentences


@given(corpora, seeds, any_mask, st.integers(1, 9))
def test_full_sentences_are_the_references_in_the_order_of_the_shard(
    corpus: Corpus, seed: int, mask: str, batch_rows: int
) -> None:
    """They do not depend on how sorted rows are cut into batches, or how they are masked."""
    objective = bert("full-sentences", **MASKS[mask])
    cut = {
        document: cut_document(list(map(list, sentences)), LENGTH - 2)
        for document, sentences in corpus.items()
    }
    pieces: list[Piece] = []
    for group in sort_rows(build(objective, corpus, seed), batch_rows):
        for place in group.select(["document", "index"]).to_pylist():
            document_pieces = cut[place["document"]]
            is_last = place["index"] == len(document_pieces) - 1
            pieces.append(Piece(len(pieces), document_pieces[place["index"]], is_last))
    expected = [example.input_ids(CLS, SEP) for example in join(pieces, LENGTH)]
    rows = written(objective, corpus, seed, batch_rows)
    assert [unmask(row) for row in rows] == expected
    assert rows == written(objective, corpus, seed)
    for group in pack(objective, build(objective, corpus, seed)):
        separators = [unmask(row).count(SEP) for row in group.to_pylist()]
        documents = objective.measure(group)["documents"]
        assert documents.tolist() == np.bincount(separators).tolist()


@given(corpora)
def test_sentences_of_one_document_stay_alone_and_none_is_lost(corpus: Corpus) -> None:
    owner = {
        token: document for document, sentences in corpus.items() for token in chain(*sentences)
    }
    rows = written(bert("doc-sentences"), corpus)
    for row in rows:
        ids = unmask(row)
        assert [ids[0], ids[-1]] == [CLS, SEP]
        assert len(ids) <= LENGTH
        assert len({owner[token] for token in ids[1:-1]}) == 1
    tokens = [token for row in rows for token in unmask(row)[1:-1]]
    assert sorted(tokens) == sorted([*owner] * 2)


@pytest.mark.parametrize("mask", MASKS)
def test_joined_rows_are_masked_as_rows_are(mask: str) -> None:
    """The share and the words follow the rule; another seed gives other places."""
    corpus = numbered_corpus([[1 + (document * 7) % 11] * 2 for document in range(40)])
    objective = bert("full-sentences", max_predictions_per_seq=None, **MASKS[mask])
    rows = written(objective, corpus)
    joined = [row for row in rows if unmask(row).count(SEP) > 2]
    assert len(joined) > 5
    if objective.masked_lm.static:
        for row in rows:
            wanted = max(1, round((len(row["input_ids"]) - 2) * 0.15))
            assert len(row["masked_lm_ids"]) <= wanted
            assert not {CLS, SEP} & set(row["masked_lm_ids"])
            assert objective.words or len(row["masked_lm_ids"]) == wanted
        places = [
            {tuple(row["masked_lm_positions"]) for row in own}
            for own in (rows, written(objective, corpus, seed=SEED + 1), joined)
        ]
        assert places[0] != places[1]
        assert len(places[2]) > len(joined) // 2


@pytest.mark.parametrize("kind", ["full-sentences", "packed"])
def test_words_begin_anew_after_special_tokens(kind: str) -> None:
    """Odd ids continue the previous word, but not across a [SEP]."""
    corpus = numbered_corpus([[4], [5], [4], [7], [3], [6]])
    for row in written(bert(kind, mask="dynamic", whole_word_mask=True), corpus):
        before = CLS
        for token, label in zip(row["input_ids"], row["seg_labels"], strict=True):
            starts = before in {CLS, SEP} or token % 2 == 0
            assert label == (-1 if token in {CLS, SEP} else 0 if starts else 1)
            before = token


# Packed rows


@given(corpora, seeds, any_mask, st.integers(1, 9))
def test_a_row_is_whole_documents_between_special_tokens(
    corpus: Corpus, seed: int, mask: str, batch_rows: int
) -> None:
    """Only a document longer than a row is cut; batches, masks and neighbours change nothing."""
    objective = packed(**MASKS[mask])
    rows = written(objective, corpus, seed, batch_rows)
    assert rows == written(objective, corpus, seed)
    expected = [
        [CLS, *chain(*piece), SEP]
        for sentences in corpus.values()
        for piece in cut_document(list(map(list, sentences)), LENGTH - 2)
    ]
    assert sorted(chain(*map(pieces_of, rows))) == sorted(expected)
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
    objective = packed(whole_word_mask=whole_words, max_seq_length=60)
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
    many, one = [CLS, 10, 11, 12, 13, SEP] * 5, [CLS, *range(10, 30), SEP]
    ids = np.array(many + one, np.int16)
    offsets = np.array([0, len(many), len(many) + len(one)])
    keys, labels = np.array([1, 2], np.uint64), np.empty(0, np.int8)
    _, originals, ends = packed(mask="dynamic").masked_lm.mask(ids, labels, offsets, keys)
    assert np.diff(ends).tolist() == [6, 6]
    assert not {CLS, SEP} & set(originals.tolist())


def test_a_long_shard_is_packed_from_a_stock() -> None:
    """With little memory, rows are still those of any batches, and nearly as full."""
    corpus = numbered_corpus([[1 + document * 7 % 23] for document in range(400)])
    in_memory = written(packed(), corpus)
    for tokens, most_stocked_tokens in ((600, 600), (600, 2), (2, 600)):
        with knobs(packed_tokens=tokens, most_stocked_tokens=most_stocked_tokens):
            rows = written(packed(), corpus)
            assert rows == written(packed(), corpus, batch_rows=7)
        assert sorted(map(sorted, map(unmask, rows))) != sorted(map(sorted, map(unmask, in_memory)))
        assert len(in_memory) <= len(rows) <= len(in_memory) * 1.05


@pytest.mark.parametrize(("length", "dtype"), [(128, "uint8"), (65535, "uint16")])
def test_the_longest_rows(length: int, dtype: str) -> None:
    objective = packed(max_seq_length=length)
    boundaries = objective.columns[1]
    assert (boundaries.dtype, boundaries.width) == (dtype, length // 3 + 1)
    corpus = {0: [[11] * (length - 2)], 1: [[12] * 10], 2: [[13] * (length - 14)]}
    rows = written(objective, corpus)
    assert [len(row["input_ids"]) for row in rows] == [length, length]
    shares = sorted(len(row["masked_lm_positions"]) for row in rows)
    assert shares == sorted(round((length - special) * 0.3) for special in (2, 4))
    assert max(row["masked_lm_positions"][-1] for row in rows) > length - 20


def test_documents_are_whole_articles_unless_sentences_are_asked_for() -> None:
    options = BertOptions("packed")
    chosen = options.choose_documents(DocumentOptions())
    assert (chosen.document_rule, chosen.sentence_rule) == ("wikitext-articles", "document")
    chosen = options.choose_documents(DocumentOptions(sentence_rule="line"))
    assert chosen.sentence_rule == "line"


def test_equal_rows_are_not_built_but_stay_readable() -> None:
    for kind in ("packed", "full-sentences", "doc-sentences"):
        options: dict[str, Any] = {"segments": kind, "mask": "dynamic", "duplicates": 2}
        with pytest.raises(UserError, match="--duplicates 2") as error:
            BertOptions(**options).check_build()
        assert kind in error.value.cause
        for other in ({"mask": "static"}, {"duplicates": 1}, {"segments": "sentence-order"}):
            BertOptions(**options | other).check_build()
