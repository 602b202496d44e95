import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.objectives.bert import Bert, BertOptions
from corpusmill.objectives.examples.sentence_pairs import assemble_pairs, fill_token_types
from tests.corpusmill.objectives.bert_examples import VOCAB_SIZE, bert, build, segments
from tests.tools.builders import SPECIAL, Corpus, build_pass, corpora, pool_of, seeds

# Layouts


def test_assembled_pairs() -> None:
    pairs = np.array(
        [
            [0, 0, 1, 2, 3, 1, 0, 0, -1],  # both of the batch
            [0, 1, 4, 1, 0, 2, 1, 1, 0],  # the second of the pool
            [1, 0, 0, 1, 0, 0, 1, 1, 0],  # the second empty
        ]
    )
    tokens, pool_tokens = np.arange(10, 15, dtype=np.uint16), np.arange(90, 95, dtype=np.uint16)
    input_ids, offsets = assemble_pairs(pairs, tokens, pool_tokens, 2, 3)
    assert input_ids.tolist() == [2, 11, 12, 3, 13, 3, 2, 14, 3, 90, 91, 3, 2, 10, 3, 3]
    assert input_ids.dtype == np.uint16
    assert offsets.tolist() == [0, 6, 12, 16]


def test_token_types_of_any_stretch_of_rows() -> None:
    offsets, first_lengths = np.array([4, 10, 14]), np.array([2, 1])
    assert fill_token_types(offsets, first_lengths).tolist() == [0, 0, 0, 0, 1, 1, 0, 0, 0, 1]
    assert fill_token_types(offsets[1:], first_lengths[1:]).tolist() == [0, 0, 0, 1]


@given(corpora, seeds, st.data())
def test_finished_rows_ragged_and_padded(corpus: Corpus, seed: int, data: st.DataObject) -> None:
    objective = bert(max_seq_length=30)
    examples = build(corpus, seed=seed, max_seq_length=30)
    start = data.draw(st.integers(0, examples.num_rows - 1))
    examples = examples.slice(start, data.draw(st.integers(1, examples.num_rows)))
    plain = objective.finish(examples, False).to_pylist()
    padded = objective.finish(examples, True).to_pylist()
    for example, row, full in zip(examples.to_pylist(), plain, padded, strict=True):
        length, first_length = len(example["input_ids"]), example["first_length"]
        for name in ("input_ids", "next_sentence_label", "masked_lm_positions", "masked_lm_ids"):
            assert row[name] == example[name]
        assert row["token_type_ids"] == [0] * (first_length + 2) + [1] * (length - first_length - 2)
        for column in objective.columns:
            if column.width:
                missing = column.width - len(row[column.name])
                assert full[column.name] == row[column.name] + [column.pad] * missing
            else:
                assert full[column.name] == row[column.name]


def test_padding_is_the_tokenizers() -> None:
    special = type(SPECIAL)(2, 3, 4, 9, 1, (1, 2, 3, 4, 9))
    objective = Bert(BertOptions(max_seq_length=8), special, VOCAB_SIZE, "int16")
    assert objective.columns[0].pad == 9
    examples = build_pass(objective, {1: [[10]]}, pool=pool_of({}))
    assert objective.finish(examples, True).column("input_ids").to_pylist()[0][4:] == [9] * 4


@given(corpora, seeds, st.integers(0, 3))
def test_measured_distributions(corpus: Corpus, seed: int, start: int) -> None:
    examples = build(corpus, seed=seed, max_seq_length=30).slice(start)
    rows = examples.to_pylist()
    measured = {name: counts.tolist() for name, counts in bert().measure(examples).items()}
    values = {
        "length": [len(row["input_ids"]) for row in rows],
        "first_segment_length": [len(segments(row)[0]) for row in rows],
        "second_segment_length": [len(segments(row)[1]) for row in rows],
        "predictions": [len(row["masked_lm_positions"]) for row in rows],
        "next_sentence_label": [row["next_sentence_label"] for row in rows],
    }
    assert measured == {
        name: np.bincount(np.array(numbers, int)).tolist() for name, numbers in values.items()
    }


# Options


def test_defaults_are_the_articles() -> None:
    options = BertOptions()
    assert (options.max_seq_length, options.duplicates, options.short_seq_prob) == (512, 10, 0.1)
    assert (options.masked_lm_prob, options.max_predictions_per_seq) == (0.15, 20)


@pytest.mark.parametrize(
    ("options", "most", "width"),
    [
        ({}, 20, 20),
        ({"max_predictions_per_seq": None}, 76, 76),
        ({"max_seq_length": 128}, 19, 20),  # padded to the option, as trainers expect
        ({"max_seq_length": 5}, 1, 5),
    ],
)
def test_the_most_predictions_that_an_example_can_have(
    options: dict[str, int | None], most: int, width: int
) -> None:
    assert bert(**options).options.most_predictions == most
    assert bert(**options).columns[3].width == bert(**options).columns[4].width == width


@pytest.mark.parametrize(
    ("length", "position", "token"),
    [(128, "int8", "int16"), (512, "int16", "int16"), (65535, "uint16", "int16")],
)
def test_types_are_the_smallest_that_fit(length: int, position: str, token: str) -> None:
    columns = {column.name: column.dtype for column in bert(max_seq_length=length).columns}
    assert columns["masked_lm_positions"] == position
    assert columns["input_ids"] == columns["masked_lm_ids"] == token


@settings(max_examples=5)
@given(seeds)
def test_the_longest_length(seed: int) -> None:
    corpus = {1: [[10] * 40_000, [11] * 40_000], 2: [[12] * 70_000]}
    examples = build(corpus, seed=seed, max_seq_length=65535, short_seq_prob=0.0)
    assert examples.column("input_ids").value_lengths().to_pylist()[0] == 65535
    for row in examples.to_pylist():
        assert len(segments(row)[0]) == row["first_length"]
