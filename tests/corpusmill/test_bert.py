import hashlib
from collections.abc import Mapping
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill import ragged
from corpusmill.bert import Bert, BertOptions, assemble_pairs, fill_token_types
from corpusmill.columns import arrow_schema
from corpusmill.faults import UserError
from corpusmill.objective import IDENTITY_SCHEMA
from corpusmill.pool import Pool
from corpusmill.randomness import MAX_SEED
from tests.corpusmill.builders import SPECIAL, Corpus, batch_of, numbered_corpus, pool_of

VOCAB_SIZE = 1000
NO_POOL = pool_of({})
seeds = st.integers(0, MAX_SEED)
corpora = st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=10), min_size=1, max_size=6).map(
    numbered_corpus
)


def bert(**options: float | None) -> Bert:
    return Bert(BertOptions(**options), SPECIAL, VOCAB_SIZE, "int16")  # type: ignore[arg-type]


def build(
    corpus: Corpus, pool: Pool | None = None, seed: int = 1, repeat: int = 0, **options: float | None
) -> pa.RecordBatch:
    """One pass over a corpus that is its own pool where none is given."""
    splits = np.zeros(len(corpus), np.uint8)
    return bert(**options).build(batch_of(corpus), repeat, pool or pool_of(corpus), splits, seed)


def unmask(example: Mapping[str, list[int]]) -> list[int]:
    """The example's ids as they were before masking."""
    original = list(example["input_ids"])
    for place, token in zip(example["masked_lm_positions"], example["masked_lm_ids"], strict=True):
        original[place] = token
    return original


def segments(example: dict[str, list[int]]) -> tuple[list[int], list[int]]:
    """First and second segment, after a check of the special tokens around them."""
    original, first_length = unmask(example), int(example["first_length"])  # type: ignore[call-overload]
    assert original[0] == SPECIAL.cls_id
    assert original[first_length + 1] == original[-1] == SPECIAL.sep_id
    return original[1 : first_length + 1], original[first_length + 2 : -1]


def by_document(examples: pa.RecordBatch) -> dict[int, list[dict[str, object]]]:
    found: dict[int, list[dict[str, object]]] = {}
    for row in examples.to_pylist():
        found.setdefault(row["document"], []).append(row)
    return found


# What an example is


@given(corpora, seeds, st.integers(5, 40), st.floats(0.01, 1), st.sampled_from([None, 1, 4]))
def test_every_example_is_two_stretches_of_text(
    corpus: Corpus, seed: int, length: int, share: float, cap: int | None
) -> None:
    examples = build(
        corpus, seed=seed, max_seq_length=length, short_seq_prob=0.5, masked_lm_prob=share,
        max_predictions_per_seq=cap,
    )  # fmt: skip
    texts = {
        document: [token for sentence in sentences for token in sentence]
        for document, sentences in corpus.items()
    }
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
        assert len(row["masked_lm_positions"]) == (predictions if cap is None else min(cap, predictions))


def test_the_columns_are_the_table() -> None:
    objective = bert(max_seq_length=40)
    examples = build(numbered_corpus([[5, 5], [30, 20]]), max_seq_length=40)
    assert examples.schema == pa.schema([*IDENTITY_SCHEMA, *arrow_schema(objective.transit_columns)])
    assert objective.finish(examples, False).schema == arrow_schema(objective.columns)
    assert objective.finish(examples, True).schema == arrow_schema(objective.columns, padded=True)
    examples.validate(full=True)
    assert examples.column("repeat").unique().to_pylist() == [0]
    for rows in by_document(examples).values():
        assert [row["index"] for row in rows] == list(range(len(rows)))


def test_literal_special_ids_in_the_text_are_never_predicted() -> None:
    """Text may spell "[SEP]" out; such a token stays where it is. [MASK] and [UNK] may be predicted."""
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
    corpus = dict.fromkeys(range(100), [[7] * 509])
    examples = objective.build(batch_of(corpus), 0, NO_POOL, np.zeros(100, np.uint8), 1)
    seen = set(np.unique(ragged.from_arrow(examples.column("input_ids"))[0]).tolist())
    assert seen - {2, 3, 4} == set(range(VOCAB_SIZE)) - set(special)


def test_validation_and_train_are_never_mixed() -> None:
    train = numbered_corpus([[4], [4], [4]])
    validation = {document + 3: [[token + 500 for token in document_[0]]] for document, document_ in train.items()}
    both = train | validation
    splits = np.array([0, 0, 0, 1, 1, 1], np.uint8)
    pool = pool_of(train, validation)
    for seed in range(100):
        for row in bert().build(batch_of(both), 0, pool, splits, seed).to_pylist():
            first, second = segments(row)
            assert row["next_sentence_label"] == 1
            assert {token >= 500 for token in first + second} == {row["document"] >= 3}
            assert first != second


# Defined answers


def test_a_corpus_of_one_document_has_no_random_pairs() -> None:
    corpus = numbered_corpus([[3, 4, 5, 2]])
    for seed in range(20):
        rows = build(corpus, seed=seed, max_seq_length=20).to_pylist()
        assert {row["next_sentence_label"] for row in rows} == {0}
        assert [token for row in rows for part in segments(row) for token in part] == list(range(10, 24))


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
    corpus: Corpus, seed: int, repeat: int, random: "__import__('random').Random"
) -> None:
    make = partial(build, pool=pool_of(corpus), seed=seed, repeat=repeat, max_seq_length=25)
    expected = by_document(make(corpus))
    order = list(corpus)
    random.shuffle(order)
    assert by_document(make({document: corpus[document] for document in order})) == expected
    for document in corpus:
        assert by_document(make({document: corpus[document]})) == {document: expected[document]}


@given(corpora, st.integers(0, 5), st.integers(1, 6))
def test_a_slice_of_a_batch_is_a_batch(corpus: Corpus, start: int, length: int) -> None:
    pool, splits = pool_of(corpus), np.zeros(len(corpus), np.uint8)
    part = batch_of(corpus).slice(start, length)
    found = bert(max_seq_length=25).build(part, 0, pool, splits[start : start + length], 1)
    chosen = list(corpus)[start : start + length]
    expected = by_document(build(corpus, pool, max_seq_length=25))
    assert by_document(found) == {document: expected[document] for document in chosen}


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
    """Guards against an unnoticed change of the random streams: data sets must stay what they were.

    Where a change is meant, say so in the release notes and put the new sum here.
    """
    lengths = [[1 + (7 * document + 5 * place) % 23 for place in range(document % 11 + 1)] for document in range(12)]
    digest = hashlib.sha256()
    for repeat in range(3):
        examples = build(numbered_corpus(lengths), seed=20, repeat=repeat, max_seq_length=48)
        for name in examples.schema.names:
            column = examples.column(name)
            parts = ragged.from_arrow(column) if pa.types.is_list(column.type) else (column.to_numpy(),)
            for part in parts:
                digest.update(np.ascontiguousarray(part, part.dtype.newbyteorder("<")).data)
    assert digest.hexdigest() == "PENDING"


# Layouts


def test_assembled_pairs() -> None:
    pairs = np.array(
        [
            [0, 0, 1, 2, 3, 1, 0, 0],  # both of the batch
            [0, 1, 4, 1, 0, 2, 1, 1],  # the second of the pool
            [1, 0, 0, 1, 0, 0, 1, 1],  # the second empty
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
    examples = objective.build(batch_of({1: [[10]]}), 0, NO_POOL, np.zeros(1, np.uint8), 1)
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
    assert measured == {name: np.bincount(np.array(found, int)).tolist() for name, found in values.items()}


# Options


def test_defaults_are_the_articles() -> None:
    options = BertOptions()
    assert (options.max_seq_length, options.duplicates, options.short_seq_prob) == (512, 10, 0.1)
    assert (options.masked_lm_prob, options.max_predictions_per_seq) == (0.15, 20)


@pytest.mark.parametrize(
    ("options", "most"),
    [({}, 20), ({"max_predictions_per_seq": None}, 76), ({"max_seq_length": 128}, 19), ({"max_seq_length": 5}, 1)],
)
def test_the_most_predictions_that_an_example_can_have(options: dict[str, int | None], most: int) -> None:
    assert bert(**options).options.most_predictions == most
    assert bert(**options).columns[4].width == most


@pytest.mark.parametrize(
    ("length", "position", "token"), [(128, "int8", "int16"), (512, "int16", "int16"), (65535, "uint16", "int16")]
)
def test_types_are_the_smallest_that_fit(length: int, position: str, token: str) -> None:
    columns = {column.name: column.dtype for column in bert(max_seq_length=length).columns}
    assert columns["masked_lm_positions"] == position
    assert columns["input_ids"] == columns["masked_lm_ids"] == token


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_seq_length", 4), ("max_seq_length", 65536), ("duplicates", 0), ("duplicates", 65536),
        ("short_seq_prob", -0.1), ("short_seq_prob", 1.1), ("short_seq_prob", float("nan")),
        ("masked_lm_prob", 0.0), ("masked_lm_prob", 1.01), ("max_predictions_per_seq", 0), ("pool_tokens", 0),
    ],
)  # fmt: skip
def test_impossible_options_name_the_flag_and_the_value(option: str, value: float) -> None:
    with pytest.raises(UserError) as caught:
        bert(**{option: value})
    assert str(caught.value).startswith(f"--{option.replace('_', '-')} {value}: ")


@settings(max_examples=5)
@given(seeds)
def test_the_longest_length(seed: int) -> None:
    corpus = {1: [[10] * 40_000, [11] * 40_000], 2: [[12] * 70_000]}
    examples = build(corpus, seed=seed, max_seq_length=65535, short_seq_prob=0.0)
    assert examples.column("input_ids").value_lengths().to_pylist()[0] == 65535
    for row in examples.to_pylist():
        assert len(segments(row)[0]) == row["first_length"]
