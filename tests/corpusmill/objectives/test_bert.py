"""The objective bert, from documents to rows."""

from itertools import chain

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.arrays import ragged
from corpusmill.arrays.randomness import MAX_SEED
from corpusmill.objectives.bert import Bert, BertOptions
from corpusmill.objectives.examples.sentence_pairs import fill_token_types
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


# Defined answers


def test_a_batch_without_documents() -> None:
    examples = build({})
    assert examples.num_rows == 0
    assert bert().finish(examples, True).num_rows == 0
    assert all(counts.sum() == 0 for counts in bert().measure(examples).values())


# Keys


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


# Layouts


def test_token_types_of_any_stretch_of_rows() -> None:
    offsets, first_lengths = np.array([4, 10, 14]), np.array([2, 1])
    assert fill_token_types(offsets, first_lengths).tolist() == [0, 0, 0, 0, 1, 1, 0, 0, 0, 1]
    assert fill_token_types(offsets[1:], first_lengths[1:]).tolist() == [0, 0, 0, 1]


def test_padding_is_the_tokenizers() -> None:
    special = type(SPECIAL)(2, 3, 4, 9, 1, (1, 2, 3, 4, 9))
    objective = Bert(BertOptions(max_seq_length=8), special, VOCAB_SIZE, "int16")
    assert objective.columns[0].pad == 9
    examples = build_pass(objective, {1: [[10]]}, pool=pool_of({}))
    assert objective.finish(examples, True).column("input_ids").to_pylist()[0][4:] == [9] * 4


# Options


def test_defaults_are_the_articles() -> None:
    options = BertOptions()
    assert (options.max_seq_length, options.duplicates, options.short_seq_prob) == (512, 10, 0.1)
    assert (options.masked_lm_prob, options.max_predictions_per_seq) == (0.15, 20)


def test_the_most_predictions_that_an_example_can_have() -> None:
    for options, most, width in (
        ({}, 20, 20),
        ({"max_predictions_per_seq": None}, 76, 76),
        ({"max_seq_length": 128}, 19, 20),  # padded to the option, as trainers expect
        ({"max_seq_length": 5}, 1, 5),
    ):
        objective = bert(**options)
        assert objective.options.most_predictions == most
        assert objective.columns[3].width == objective.columns[4].width == width


def test_types_are_the_smallest_that_fit() -> None:
    for length, position in ((128, "int8"), (512, "int16"), (65535, "uint16")):
        columns = {column.name: column.dtype for column in bert(max_seq_length=length).columns}
        assert columns["masked_lm_positions"] == position
        assert columns["input_ids"] == columns["masked_lm_ids"] == "int16"


@settings(max_examples=5)
@given(seeds)
def test_the_longest_length(seed: int) -> None:
    corpus = {1: [[10] * 40_000, [11] * 40_000], 2: [[12] * 70_000]}
    examples = build(corpus, seed=seed, max_seq_length=65535, short_seq_prob=0.0)
    assert examples.column("input_ids").value_lengths().to_pylist()[0] == 65535
    for row in examples.to_pylist():
        assert len(segments(row)[0]) == row["first_length"]
