"""Rows have the distribution of the reference's; see distributions.py for the rate of false alarms.

One observation is one row. Documents come to the reference in random order, as to a shard.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from corpusmill.objectives.denoising import Denoiser, SpanCorrupter
from corpusmill.objectives.t5 import T5Options
from tests.corpusmill.objectives import reference_t5
from tests.corpusmill.objectives.t5_examples import END, SENTINELS, finish, objective, texts
from tests.tools.builders import numbered_corpus, offsets_of
from tests.tools.distributions import arrays_of, assert_same_distributions, assert_uniform
from tests.tools.knobs import knobs

ROWS = 800


def our_masks(length: int, density: float, span: float) -> list[tuple[bool, ...]]:
    """Return which tokens are noise in each of many rows."""
    token_ids = np.tile(np.arange(1000, 1000 + length, dtype=np.int16), ROWS)
    offsets = offsets_of([length] * ROWS)
    corrupter = SpanCorrupter((Denoiser(density, span),), (length,), SENTINELS, END)
    keys = np.arange(ROWS, dtype=np.uint64)
    bounds, kinds = np.column_stack([offsets[:-1], offsets[1:]]), np.zeros(ROWS, np.int64)
    made = corrupter.corrupt(token_ids, bounds, kinds, keys)
    rows = np.split(made.input_ids, made.input_offsets[1:-1])
    return [tuple(~np.isin(np.arange(1000, 1000 + length), row)) for row in rows]


def properties(mask: tuple[bool, ...]) -> Mapping[str, int]:
    """Describe where the noise of a row lies."""
    changes = [place for place, (one, other) in enumerate(pairwise(mask)) if one != other]
    sizes = np.diff([-1, *changes, len(mask) - 1]).tolist()
    return {
        "spans": len(sizes) // 2,
        "text at first": sizes[0],
        "first span": sizes[1] if len(sizes) > 1 else 0,
        "last span": sizes[-1],
        "longest span": max(sizes[1::2], default=0),
        "noise": sum(mask),
        "noise in the first half": sum(mask[: len(mask) // 2]),
        "noise in the middle": mask[len(mask) // 2],
    }


@pytest.mark.parametrize(
    ("denoisers", "table", "kind"),
    [
        *(("ul2", reference_t5.UL2, kind) for kind in range(7)),
        ("ul2-program", reference_t5.UL2_PROGRAM, 2),
    ],
)
def test_noise_of_ul2_is_distributed_as_in_the_reference(
    denoisers: Any, table: Sequence[tuple[float | None, float, str]], kind: int
) -> None:
    span, density, mode = table[kind]
    options = T5Options(denoisers=denoisers, max_seq_length=64)
    length, draws = options.row_tokens[kind], random.Random(9)  # noqa: S311
    ours = our_masks(length, *options.mixture[kind].denoiser)
    theirs = (
        tuple(
            reference_t5.draw_mask(length, density, span, draws)
            if span
            else reference_t5.draw_prefix_mask(length, density, draws)
        )
        for _ in range(ROWS)
    )
    both = [arrays_of(map(properties, masks)) for masks in (ours, theirs)]
    assert_same_distributions(both[0], both[1], f"{mode}, spans of {span}")


def test_the_end_of_a_row_is_of_any_length_up_to_a_half() -> None:
    counts = np.bincount([sum(mask) for mask in our_masks(21, 0.25, 0.0)])
    assert counts[0] == 0
    assert_uniform(counts[1:], "targets of a prefix language model")
    assert len(counts) == 1 + 11


def test_all_denoisers_are_equally_likely() -> None:
    corpus = numbered_corpus([[30_000]])
    rows = finish(objective(denoisers="ul2", max_seq_length=16), corpus)
    assert_uniform(np.bincount(rows.column("denoiser").to_numpy()), "denoisers")


@pytest.mark.parametrize(
    ("length", "density", "span"),
    [(568, 0.15, 3.0), (190, 0.15, 3.0), (141, 0.5, 3.0), (101, 0.5, 1.0), (7, 0.15, 3.0)],
)
def test_noise_is_distributed_as_in_the_reference(length: int, density: float, span: float) -> None:
    draws = random.Random(5)  # noqa: S311
    theirs = (tuple(reference_t5.draw_mask(length, density, span, draws)) for _ in range(ROWS))
    ours = arrays_of(map(properties, our_masks(length, density, span)))
    assert_same_distributions(ours, arrays_of(map(properties, theirs)), f"{length} tokens")


@pytest.mark.parametrize(
    ("length", "density", "span", "masks"),
    [(12, 0.5, 2.0, 10 * 10), (10, 0.3, 1.5, 2 * 6), (6, 0.5, 1.0, 1), (2, 0.5, 3.0, 1)],
)
def test_all_masks_are_equally_likely(length: int, density: float, span: float, masks: int) -> None:
    counts = Counter(our_masks(length, density, span))
    assert len(counts) == masks
    if masks > 1:
        assert_uniform(np.array(list(counts.values())), f"masks of {length} tokens")


# Documents of one to 80 tokens, of which each is longer or shorter than a row.
CORPUS = numbered_corpus([[1 + 7 * number % 80] for number in range(300)])
TEXTS = texts(CORPUS)
DOCUMENT = {token: name for name, text in TEXTS.items() for token in text}
CUT = T5Options(max_seq_length=30, mask="dynamic")


def described(rows: list[list[int]]) -> Iterator[Mapping[str, int]]:
    """Describe which stretches of which documents stand in rows."""
    firsts = {text[0] for text in TEXTS.values()}
    lasts = {text[-1] for text in TEXTS.values()}
    for row in rows:
        owners = list(dict.fromkeys(DOCUMENT[token] for token in row))
        yield {
            "length": len(row),
            "documents": len(owners),
            "begins a document": row[0] in firsts,
            "ends a document": row[-1] in lasts,
            "first document": owners[0] // 30,
            "place in the document": row[0] - TEXTS[owners[0]][0],
            "tokens of the first document": sum(DOCUMENT[token] == owners[0] for token in row),
        }


@pytest.mark.parametrize("joined", [128, 1])
def test_rows_are_cut_as_in_the_reference(joined: int) -> None:
    documents = list(TEXTS.values())
    draws = random.Random(7)  # noqa: S311
    options = {"max_seq_length": 30, "mask": "dynamic", "merge_documents": joined > 1}
    theirs, ours = list[list[int]](), list[list[int]]()
    for seed in range(12):
        draws.shuffle(documents)
        rows = list(reference_t5.cut_joined(documents, joined, *CUT.row_tokens))
        draws.shuffle(rows)
        theirs += rows[::3]
        built = finish(objective(**options), CORPUS, seed=seed).column("input_ids").to_pylist()
        ours += built[::3]
    names = (arrays_of(described(ours)), arrays_of(described(theirs)))
    assert_same_distributions(*names, f"{joined} joined")


def test_the_piece_of_a_long_document_is_any_of_its_pieces() -> None:
    corpus = {name: [[10 * place for place in range(1, 71)]] for name in range(2000)}
    t5 = objective(max_seq_length=60, mask="dynamic", merge_documents=False)
    with knobs(merged_piece_tokens=20):
        built = finish(t5, corpus)
    begins = Counter(row[0] for row in built.column("input_ids").to_pylist())
    assert sorted(begins) == [10, 210, 410, 610]
    draws = random.Random(3)  # noqa: S311
    expected = Counter(reference_t5.draw_piece(corpus[0][0], 20, draws)[0] for _ in range(2000))
    assert sorted(expected) == sorted(begins)
    assert_uniform(np.array(list(begins.values())), "pieces of a document")
