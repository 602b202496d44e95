import hashlib
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import IDENTITY_SCHEMA, arrow_schema
from corpusmill.arrays.randomness import MAX_SEED
from corpusmill.objectives.bert import Bert, BertOptions
from corpusmill.objectives.columns import SPANS
from corpusmill.objectives.objective import Repeat
from tests.corpusmill.objectives.bert_examples import VOCAB_SIZE, bert, build, segments
from tests.tools.builders import (
    SPECIAL,
    Corpus,
    batch_of,
    build_pass,
    corpora,
    numbered_corpus,
    pool_of,
    seeds,
    write_and_open,
)

NO_POOL = pool_of({})


def by_document(examples: pa.RecordBatch) -> dict[int, list[dict[str, object]]]:
    rows: dict[int, list[dict[str, object]]] = {}
    for row in examples.to_pylist():
        rows.setdefault(row["document"], []).append(row)
    return rows


# What an example is


@given(corpora, seeds, st.integers(5, 40), st.floats(0.01, 1), st.sampled_from([None, 1, 4]))
def test_every_example_is_two_stretches_of_text(
    corpus: Corpus, seed: int, length: int, share: float, cap: int | None
) -> None:
    examples = build(
        corpus, seed=seed, max_seq_length=length, short_seq_prob=0.5, masked_lm_prob=share,
        max_predictions_per_seq=cap,
    )  # fmt: skip
    texts = {document: list(chain(*sentences)) for document, sentences in corpus.items()}
    for row in examples.to_pylist():
        first, second = segments(row)
        own = texts[row["document"]]
        assert len(row["input_ids"]) <= length
        assert first == own[own.index(first[0]) :][: len(first)]
        if second:
            other = next(text for text in texts.values() if second[0] in text)
            assert second == other[other.index(second[0]) :][: len(second)]
            assert (other is not own) == row["next_sentence_label"]
        predictions = max(1, round((len(first) + len(second)) * share))
        assert len(row["masked_lm_positions"]) == min(cap or predictions, predictions)


def test_the_columns_are_the_table() -> None:
    objective = bert(max_seq_length=40)
    examples = build(numbered_corpus([[5, 5], [30, 20]]), max_seq_length=40)
    assert examples.schema == pa.schema([*IDENTITY_SCHEMA, *arrow_schema(objective.built_columns)])
    assert objective.finish(examples, False).schema == arrow_schema(objective.columns)
    assert objective.finish(examples, True).schema == arrow_schema(objective.columns, padded=True)
    examples.validate(full=True)
    assert examples.column("repeat").unique().to_pylist() == [0]
    for rows in by_document(examples).values():
        assert [row["index"] for row in rows] == list(range(len(rows)))


def test_literal_special_ids_in_the_text_are_never_predicted() -> None:
    """A "[SEP]" that is written out in the text stays; [MASK] and [UNK] can be predicted."""
    sentence = [SPECIAL.cls_id or 0, 10, SPECIAL.sep_id or 0, 11, SPECIAL.pad_id or 0, 12, 1, 4]
    for seed in range(50):
        row = build({7: [sentence]}, seed=seed, masked_lm_prob=1.0).to_pylist()[0]
        assert row["masked_lm_positions"] == [2, 4, 6, 7, 8]
        assert row["masked_lm_ids"] == [10, 11, 12, 1, 4]


def test_replacements_are_all_ids_but_special_ones() -> None:
    special = [token for token in range(VOCAB_SIZE) if token % 3 == 0 or token < 5]
    objective = Bert(
        BertOptions(masked_lm_prob=1.0, max_predictions_per_seq=None),
        type(SPECIAL)(2, 3, 4, 0, 1, tuple(special)), VOCAB_SIZE, "int16",
    )  # fmt: skip
    corpus = {document: [[7] * 509] for document in range(400)}
    examples = build_pass(objective, corpus, pool=NO_POOL)
    seen = set(np.unique(ragged.from_arrow(examples.column("input_ids"))[0]).tolist())
    assert seen - {2, 3, 4} == set(range(VOCAB_SIZE)) - set(special)


def test_validation_and_train_are_never_mixed() -> None:
    train = numbered_corpus([[4], [4], [4]])
    validation = {
        document + 3: [[token + 500 for token in sentences[0]]]
        for document, sentences in train.items()
    }
    both = train | validation
    splits = np.array([0, 0, 0, 1, 1, 1], np.uint8)
    pool = pool_of(train, validation)
    for seed in range(100):
        for row in bert().build(batch_of(both), Repeat(0, pool, splits, seed)).to_pylist():
            first, second = segments(row)
            assert row["next_sentence_label"] == 1
            assert {token >= 500 for token in first + second} == {row["document"] >= 3}
            assert first != second


def test_a_pool_on_disk_is_like_one_in_memory(tmp_path: Path) -> None:
    corpus = numbered_corpus([[4, 5, 6], [4, 7], [3]])
    mapped = write_and_open([batch_of(corpus)], corpus, {}, tmp_path)
    assert build(corpus, mapped) == build(corpus, pool_of(corpus))


# Defined answers


def test_a_corpus_of_one_document_has_no_random_pairs() -> None:
    corpus = numbered_corpus([[3, 4, 5, 2]])
    for seed in range(20):
        rows = build(corpus, seed=seed, max_seq_length=20).to_pylist()
        assert {row["next_sentence_label"] for row in rows} == {0}
        assert list(chain(*(part for row in rows for part in segments(row)))) == list(range(10, 24))


def test_a_corpus_of_one_sentence_has_an_empty_second_segment() -> None:
    (row,) = build(numbered_corpus([[3]])).to_pylist()
    assert segments(row) == ([10, 11, 12], [])
    assert row["next_sentence_label"] == 0
    assert len(row["masked_lm_positions"]) == 1


def test_an_empty_pool_is_like_a_corpus_of_one_document() -> None:
    rows = build(numbered_corpus([[3], [4, 4]]), NO_POOL).to_pylist()
    assert {row["next_sentence_label"] for row in rows} == {0}


def test_the_smallest_length() -> None:
    corpus = numbered_corpus([[1, 1, 1], [9, 30], [2]])
    for seed in range(50):
        examples = build(corpus, seed=seed, max_seq_length=5, short_seq_prob=0.5)
        lengths = examples.column("input_ids").value_lengths().to_pylist()
        assert set(lengths) <= {4, 5}


def test_a_batch_without_documents() -> None:
    examples = build({})
    assert examples.num_rows == 0
    assert bert().finish(examples, True).num_rows == 0
    assert all(counts.sum() == 0 for counts in bert().measure(examples).values())


# Keys


@given(corpora, seeds, st.integers(0, 3), st.randoms(use_true_random=False))
def test_a_document_gives_the_same_examples_in_any_batch(
    corpus: Corpus, seed: int, repeat: int, rng: Random
) -> None:
    make = partial(build, pool=pool_of(corpus), seed=seed, repeat=repeat, max_seq_length=25)
    expected = by_document(make(corpus))
    order = list(corpus)
    rng.shuffle(order)
    assert by_document(make({document: corpus[document] for document in order})) == expected
    for document in corpus:
        assert by_document(make({document: corpus[document]})) == {document: expected[document]}


@given(corpora, st.integers(0, 5), st.integers(1, 6))
def test_a_slice_of_a_batch_is_a_batch(corpus: Corpus, start: int, length: int) -> None:
    pool, splits = pool_of(corpus), np.zeros(len(corpus), np.uint8)
    part = batch_of(corpus).slice(start, length)
    examples = bert(max_seq_length=25).build(
        part, Repeat(0, pool, splits[start : start + length], 1)
    )
    chosen = list(corpus)[start : start + length]
    expected = by_document(build(corpus, pool, max_seq_length=25))
    assert by_document(examples) == {document: expected[document] for document in chosen}


def test_seeds_repeats_and_documents_draw_differently() -> None:
    sentences = [[token] * 3 for token in range(10, 90)]
    corpus = {0: sentences, 1: sentences, 2**64 - 1: sentences}
    passes = [
        [row["input_ids"] for row in rows]
        for seed in (0, 1, 2**63, MAX_SEED)
        for repeat in (0, 1)
        for rows in by_document(build(corpus, seed=seed, repeat=repeat, max_seq_length=40)).values()
    ]
    assert len({str(examples) for examples in passes}) == 4 * 2 * 3


def test_golden() -> None:
    """Guard against an unnoticed change of the random streams: data sets must stay the same.

    Where a change is meant, say so in the release notes and put the new sum here.
    """
    corpus = numbered_corpus(
        [
            [1 + (7 * document + 5 * place) % 23 for place in range(document % 11 + 1)]
            for document in range(12)
        ]
    )
    digest = hashlib.sha256()
    for repeat in range(3):
        examples = build(corpus, seed=20, repeat=repeat, max_seq_length=48)
        for name in examples.drop_columns(SPANS.name).schema.names:
            column = examples.column(name)
            parts = (
                ragged.from_arrow(column) if pa.types.is_list(column.type) else (column.to_numpy(),)
            )
            for part in parts:
                digest.update(np.ascontiguousarray(part, part.dtype.newbyteorder("<")).data)
    assert digest.hexdigest() == "dd53a2e08f2b5301b7acdb72ae7079a1c300543aae26d706cdf438a08b7a6a0e"
