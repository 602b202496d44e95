"""ERNIE's sequences have the distribution of the reference's.

Each property of each configuration is one chi-square test; see distributions.py for the rate. One
observation is one pass over one document; that masked ones have it, too, is checked for the kernel
in test_ernie_masking_distribution.py.
"""

import random
from typing import Any, Literal

import numpy as np
import pytest

from corpusmill.arrays import ragged
from tests.corpusmill.objectives import reference_ernie
from tests.corpusmill.objectives.ernie_examples import continues_word, ernie, marked
from tests.tools.builders import SPECIAL, batch_of, numbered_corpus, pool_of
from tests.tools.distributions import assert_same_distribution

# Twelve documents of 1 to 12 sentences of 1 to 40 tokens.
CORPUS = numbered_corpus(
    [
        [
            40 if (document + place) % 9 == 8 else 1 + (3 * document + 5 * place) % 17
            for place in range(1 + document * 5 % 12)
        ]
        for document in range(12)
    ]
)
BEGINNINGS = {sentence[0] for document in CORPUS.values() for sentence in document}

PASSES = 700
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "as the article": {"max_seq_length": 35},
    "short always": {"max_seq_length": 35, "short_seq_prob": 1.0},
    "smallest": {"max_seq_length": 5, "short_seq_prob": 0.5},
}


def properties(sequences: list[tuple[int, list[int], list[int], list[int], bool]]) -> Any:
    """Return integers that describe (document, ids, segments, seg_labels, is random)."""
    values_by_name: dict[str, list[int]] = {}
    for document, ids, types, labels, is_random in sequences:
        second = types.index(1)
        first_token, later_token = ids[1], ids[second] if second < len(ids) - 1 else -1
        words, later = labels[:second].count(0), labels[second:].count(0)
        for name, value in {
            "length": len(ids),
            "length, of a document": document * 1000 + len(ids),
            "words": labels.count(0),
            "words of the first segment": words,
            "words of the second segment": later,
            "tokens that continue words": labels.count(1),
            "is random": int(is_random),
            "is random, by words of the second segment": 2 * later + is_random,
            "first segment's first token": first_token,
            "first segment begins in a word": int(
                continues_word(first_token) and first_token not in BEGINNINGS
            ),
            "second segment begins in a word": int(
                continues_word(later_token) and later_token not in BEGINNINGS
            ),
            "tokens of the last word": labels[::-1].index(0),
            "labels of the first five tokens": int(
                "".join(str(label + 1) for label in labels[1:6])
            ),
        }.items():
            values_by_name.setdefault(name, []).append(value)
    return {name: np.array(values) for name, values in values_by_name.items()}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_examples_are_distributed_as_the_references(name: str) -> None:
    """In each pass over each document, the first or the last example is observed alternately."""
    options = CONFIGURATIONS[name]
    ours, written = [], []
    rng = random.Random(3)  # noqa: S311 - no secret
    travelling = marked(CORPUS)
    documents, objective = list(travelling.values()), ernie(**options)
    batch, pool, splits = batch_of(travelling), pool_of(travelling), np.zeros(12, np.uint8)
    for repeat in range(PASSES):
        rows = objective.build(batch, repeat, pool, splits, seed=11)
        owners = rows.column("document").to_numpy()
        finished = objective.finish(rows, False)
        side: Literal["left", "right"] = "right" if repeat % 2 else "left"
        places = np.searchsorted(owners, np.arange(len(documents)), side=side) - repeat % 2
        for document, row in enumerate(ragged.take_rows(finished, places).to_pylist()):
            ours.append((document, *row.values()))
        for document in range(len(documents)):
            sequences = list(
                reference_ernie.generate_sequences(
                    document, documents, rng, SPECIAL.cls_id or 0, SPECIAL.sep_id or 0, **options
                )
            )
            sequence = sequences[-(repeat % 2)]
            written.append(
                (
                    document,
                    sequence.input_ids,
                    sequence.token_type_ids,
                    sequence.seg_labels,
                    sequence.is_random_next,
                )
            )
    expected = properties(written)
    for what, values in properties(ours).items():
        assert_same_distribution(values, expected[what], f"{name}: {what}")
