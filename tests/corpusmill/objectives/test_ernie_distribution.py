"""ERNIE's sequences have the distribution of the reference's.

Each property of each configuration is one chi-square test; see distributions.py for the rate. One
observation is one pass over one document; that masked ones have it, too, is checked for the kernel
in test_ernie_masking_distribution.py.
"""

import random
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pytest

from corpusmill.arrays import ragged
from tests.corpusmill.objectives import reference_ernie
from tests.corpusmill.objectives.ernie_examples import continues_word, ernie, marked
from tests.tools.builders import SPECIAL, VARIED, build_pass
from tests.tools.distributions import arrays_of, assert_same_distributions

BEGINNINGS = {sentence[0] for document in VARIED.values() for sentence in document}

PASSES = 200
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "as the article": {"max_seq_length": 35},
    "short always": {"max_seq_length": 35, "short_seq_prob": 1.0},
    "smallest": {"max_seq_length": 5, "short_seq_prob": 0.5},
}


def properties(
    sequences: list[tuple[int, list[int], list[int], list[int], bool]],
) -> Iterator[dict[str, int]]:
    """Yield integers that describe each (document, ids, segments, seg_labels, is random)."""
    for document, ids, types, labels, is_random in sequences:
        second = types.index(1)
        first_token, later_token = ids[1], ids[second] if second < len(ids) - 1 else -1
        words, later = labels[:second].count(0), labels[second:].count(0)
        yield {
            "length": len(ids),
            "length, of a document": document * 1000 + len(ids),
            "words": labels.count(0),
            "words of the first segment": words,
            "words of the second segment": later,
            "tokens that continue words": labels.count(1),
            "is random": int(is_random),
            "is random, by words of the second segment": 2 * later + is_random,
            "first segment's first token": first_token,
            "first segment begins in a word": continues_in_text(first_token),
            "second segment begins in a word": continues_in_text(later_token),
            "tokens of the last word": labels[::-1].index(0),
            "labels of the first five tokens": int("".join(str(one + 1) for one in labels[1:6])),
        }


def continues_in_text(token: int) -> bool:
    return continues_word(token) and token not in BEGINNINGS


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_examples_are_distributed_as_the_references(name: str) -> None:
    """In each pass over each document, the first or the last example is observed alternately."""
    options = CONFIGURATIONS[name]
    ours, written = [], []
    rng = random.Random(3)  # noqa: S311 - no secret
    travelling = marked(VARIED)
    documents, objective = list(travelling.values()), ernie(**options)
    for repeat in range(PASSES):
        rows = build_pass(objective, travelling, repeat, seed=11)
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
            written.append((document, *vars(sequence).values()))
    assert_same_distributions(arrays_of(properties(ours)), arrays_of(properties(written)), name)
