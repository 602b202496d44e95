"""The kernels' examples have the distribution of the reference's.

Each property of each configuration is one chi-square test; see distributions.py for the rate. One
observation is one pass over one document: passes are independent, the examples of one pass are not.
Of pass p the example number p modulo the examples of that pass is looked at, by both sides, so that
first and last ones are seen alike.
"""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from corpusmill.arrays import ragged
from corpusmill.objectives.bert import Bert, BertOptions
from corpusmill.objectives.objective import Repeat
from tests.corpusmill.objectives import reference_bert
from tests.corpusmill.objectives.reference_bert import Vocabulary
from tests.tools.builders import SPECIAL, batch_of, pool_of
from tests.tools.distributions import assert_counts, assert_same_distributions

PASSES = 250
VOCAB_SIZE = 1100
VOCABULARY = Vocabulary(
    VOCAB_SIZE, cls_id=2, sep_id=3, mask_id=4, pad_id=0, special_ids=SPECIAL.all_ids
)

# Each configuration is a test of its own.
NO_CAP = {"max_predictions_per_seq": None}
CONFIGURATIONS: dict[str, dict[str, float | None]] = {
    "article, small": {"max_seq_length": 35, "max_predictions_per_seq": 4},
    "short always, no cap": {"max_seq_length": 35, "short_seq_prob": 1.0, **NO_CAP},
    "no short, much masked": {"max_seq_length": 60, "short_seq_prob": 0.0, "masked_lm_prob": 0.5},
    "smallest": {"max_seq_length": 5, "short_seq_prob": 0.5},
}


def corpus_lines() -> Iterator[str]:
    """Twelve documents of 1 to 12 sentences of 1 to 40 words; each word is unique."""
    word = 10
    for document in range(12):
        yield f" = Title {document} = \n"
        yield " \n"
        for place in range(1 + document * 5 % 12):
            length = 40 if (document + place) % 9 == 8 else 1 + (3 * document + 5 * place) % 17
            yield " ".join(map(str, range(word, word + length))) + "\n"
            word += length
            if place == 2:
                yield "no known word\n"  # a sentence without tokens


DOCUMENTS = reference_bert.create_documents(
    corpus_lines(), lambda line: [int(word) for word in line.split() if word.isdigit()]
)


class Examples(NamedTuple):
    """Examples as flat arrays; `document` and `repeat` identify the pass."""

    document: np.ndarray
    repeat: np.ndarray
    first_length: np.ndarray
    is_random: np.ndarray
    input_ids: np.ndarray
    offsets: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    prediction_offsets: np.ndarray


def ours(**options: Any) -> pa.RecordBatch:
    corpus = dict(enumerate(DOCUMENTS))
    objective = Bert(BertOptions(**options), SPECIAL, VOCAB_SIZE, "int16")
    batch, pool, splits = batch_of(corpus), pool_of(corpus), np.zeros(len(corpus), np.uint8)
    return pa.concat_batches(
        objective.build(batch, Repeat(number, pool, splits, 11)) for number in range(PASSES)
    )


def reference(**options: Any) -> pa.RecordBatch:
    rng = random.Random(12)  # noqa: S311 - no secret
    rows = [
        {
            "document": document,
            "repeat": repeat,
            "next_sentence_label": int(example.is_random_next),
            **vars(example),
        }
        for repeat in range(PASSES)
        for document in range(len(DOCUMENTS))
        for example in reference_bert.generate_examples(
            document, DOCUMENTS, VOCABULARY, rng, **options
        )
    ]
    return pa.RecordBatch.from_pylist(rows)


def unpack(rows: pa.RecordBatch) -> Examples:
    names = ("document", "repeat", "first_length", "next_sentence_label")
    document, repeat, first_length, is_random = (rows.column(name).to_numpy() for name in names)
    input_ids, offsets = ragged.from_arrow(rows.column("input_ids"))
    positions, prediction_offsets = ragged.from_arrow(rows.column("masked_lm_positions"))
    labels, _ = ragged.from_arrow(rows.column("masked_lm_ids"))
    return Examples(
        document, repeat, first_length, is_random, input_ids, offsets, positions, labels,
        prediction_offsets,
    )  # fmt: skip


def observed(examples: Examples) -> tuple[np.ndarray, np.ndarray]:
    """Return which example of each pass is observed, and how many examples each pass has."""
    passes = examples.repeat.astype(np.int64) * len(DOCUMENTS) + examples.document.astype(np.int64)
    numbers, starts, counts = np.unique(passes, return_index=True, return_counts=True)
    return starts + (numbers // len(DOCUMENTS)) % counts, counts


def properties(examples: Examples) -> dict[str, np.ndarray]:
    """Return integers that describe the observed examples; see the names."""
    chosen, examples_in_pass = observed(examples)
    document = examples.document[chosen].astype(np.int64)
    first_length = examples.first_length[chosen].astype(np.int64)
    begin, end = examples.offsets[chosen], examples.offsets[chosen + 1]
    second_length = end - begin - 3 - first_length
    original = examples.input_ids.copy()
    of_predictions = np.repeat(examples.offsets[:-1], np.diff(examples.prediction_offsets))
    original[of_predictions + examples.positions] = examples.labels
    first = stretches(original, begin + 1, first_length)
    second = stretches(original, begin + 2 + first_length, second_length)
    predictions = np.diff(examples.prediction_offsets)[chosen]
    # One of an example's predictions, by turns: all have the same number of turns on both sides.
    turn = examples.prediction_offsets[chosen] + np.arange(len(chosen)) // 7 % predictions
    # A random document is identified by its place among the others, without a gap for the own one.
    skipped = second["document"] - (second["document"] > document)
    assert (second["document"] != document)[
        (second_length > 0) & (examples.is_random[chosen] == 1)
    ].all()
    values = {
        "examples in a pass": examples_in_pass,
        "examples in a pass, of a document": document * 1000 + examples_in_pass,
        "length": end - begin,
        "is random": examples.is_random[chosen],
        "second segment empty": second_length == 0,
        "second segment empty or random": 2 * (second_length == 0) + examples.is_random[chosen],
        "predictions": predictions,
        "predictions, of a length": predictions * 1000 + end - begin,
        "position of a prediction": examples.positions[turn],
        "random document": np.where(examples.is_random[chosen] & (second_length > 0), skipped, -1),
        "split point, of a document": document * 1000 + first["sentences"],
    }
    lengths = {"first": (first_length, first), "second": (second_length, second)}
    for name, (length, stretch) in lengths.items():
        values[f"{name} segment's length"] = length
        values[f"{name} segment's sentences"] = stretch["sentences"]
        values[f"{name} segment's first sentence"] = stretch["sentence"]
        values[f"{name} segment's tokens missing in front"] = stretch["missing in front"]
        values[f"{name} segment's tokens missing at the back"] = stretch["missing at the back"]
    return values


SENTENCES = [sentence for document in DOCUMENTS for sentence in document]
# By token id: the number of its sentence in the corpus, and of its document.
SENTENCE_OF_TOKEN = np.repeat(np.arange(len(SENTENCES)), list(map(len, SENTENCES)))
DOCUMENT_OF_SENTENCE = np.repeat(np.arange(len(DOCUMENTS)), list(map(len, DOCUMENTS)))


def stretches(original: np.ndarray, start: np.ndarray, length: np.ndarray) -> dict[str, np.ndarray]:
    """Return the origin of segments, or -1 for empty ones."""
    filled = length > 0
    first_token = original[start].astype(np.int64)
    last_token = original[start + np.maximum(length, 1) - 1].astype(np.int64)
    assert (last_token - first_token == length - 1)[filled].all()
    first_sentence = SENTENCE_OF_TOKEN[np.where(filled, first_token - 10, 0)]
    last_sentence = SENTENCE_OF_TOKEN[np.where(filled, last_token - 10, 0)]
    assert (DOCUMENT_OF_SENTENCE[first_sentence] == DOCUMENT_OF_SENTENCE[last_sentence]).all()
    starts = np.array([sentence[0] for sentence in SENTENCES])
    stops = np.array([sentence[-1] for sentence in SENTENCES])
    origins = {
        "document": DOCUMENT_OF_SENTENCE[first_sentence],
        "sentence": first_sentence,
        "sentences": last_sentence - first_sentence + 1,
        "missing in front": first_token - starts[first_sentence],
        "missing at the back": stops[last_sentence] - last_token,
    }
    return {name: np.where(filled, values, -1) for name, values in origins.items()}


def test_the_corpus_has_what_it_is_for() -> None:
    assert len(DOCUMENTS) == 12
    assert {len(document) for document in DOCUMENTS} == set(range(1, 13))
    lengths = {len(sentence) for sentence in SENTENCES}
    assert min(lengths) == 1
    assert max(lengths) == 40
    assert np.concatenate(SENTENCES).tolist() == list(range(10, 10 + len(SENTENCE_OF_TOKEN)))
    assert SENTENCES[-1][-1] < VOCAB_SIZE


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_examples_are_distributed_as_the_references(name: str) -> None:
    options = CONFIGURATIONS[name]
    built, written = unpack(ours(**options)), unpack(reference(**options))
    assert_same_distributions(properties(built), properties(written), name)
    for examples in (built, written):
        assert_eighty_ten_ten(examples)


def assert_eighty_ten_ten(examples: Examples) -> None:
    """All predictions are independent; a replacement can be the original by chance."""
    places = (
        np.repeat(examples.offsets[:-1], np.diff(examples.prediction_offsets)) + examples.positions
    )
    now = examples.input_ids[places]
    masked, unchanged = now == SPECIAL.mask_id, now == examples.labels
    counts = np.array([masked.sum(), unchanged.sum(), (~masked & ~unchanged).sum()])
    by_chance = 0.1 / len(VOCABULARY.replacement_ids)
    assert_counts(counts, [0.8, 0.1 + by_chance, 0.1 - by_chance], "mask, unchanged, random")
    assert ((now[~masked] >= 5) & (now[~masked] < VOCAB_SIZE)).all()
