"""Rows that the kernels mask have the distribution of the reference's.

Each property of each configuration is one chi-square test; see distributions.py for the rate. A row
is one observation, masked by a key of its own.
"""

import random
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from corpusmill.objectives.masking.tokens import MaskingRule, row_keys
from corpusmill.objectives.masking.words import label_words, mask_words
from tests.corpusmill.objectives import reference_word_masking
from tests.tools.distributions import assert_counts, assert_same_distributions

ROWS = 1200
CLS, SEP, MASK = 2, 3, 4
SPECIAL = {0, CLS, SEP}
# The rows have none of them, so that replacements and unchanged tokens differ.
REPLACEMENTS = np.arange(200, 260, dtype=np.int32)
MASKABLE = np.ones(260, np.bool_)
MASKABLE[list(SPECIAL)] = False


def row_of(*segments: str) -> tuple[list[int], list[int]]:
    """Make a row of words by their lengths, and whether each token continues the previous one.

    Example:
        "2 1", "1" is [2, 10, 11, 12, 3, 13, 3] with [0, 0, 1, 0, 0, 0, 0]; a segment that begins
        with "+" begins with the later half of a word.
    """
    input_ids, continues = [CLS], [0]
    token = 10
    for segment in segments:
        for word in segment.split():
            length = int(word.removeprefix("+"))
            input_ids += range(token, token + length)
            continues += [int(word.startswith("+")), *[1] * (length - 1)]
            token += length
        input_ids.append(SEP)
        continues.append(0)
    return input_ids, continues


@dataclass(frozen=True)
class Configuration:
    """A row that is masked repeatedly, and the rule."""

    row: tuple[list[int], list[int]]
    share: float = 0.15
    cap: int = 20
    ngram: int = 1
    google: bool = False


LONG = ("1 2 1 1 3 1 1 4 2 1 1 1 5 1 2 1", "+2 1 1 2 1 3 1 1 1 6 2 1 1 1")
CONFIGURATIONS = {
    "whole words": Configuration(row_of(*LONG)),
    "whole words, capped": Configuration(row_of(*LONG), cap=4),
    "whole words, few and all sets": Configuration(row_of("2 1 3", "+1 2 1"), 0.5),
    "whole words, most of them": Configuration(row_of(*LONG), 0.9, 99),
    "whole words, some never fit": Configuration(row_of("5 4 2 6", "3 5"), 0.1),
    "whole words, none fits": Configuration(row_of("5 4", "4"), 0.15, 3),
    "whole words, a special token in the text": Configuration(row_of("1 2", "+2 1", "1 2 3"), 0.4),
    "ngrams of up to 2": Configuration(row_of(*LONG), ngram=2),
    "ngrams of up to 3": Configuration(row_of(*LONG), ngram=3),
    "ngrams of up to 3, capped": Configuration(row_of(*LONG), cap=5, ngram=3),
    "ngrams of up to 3, few and all sets": Configuration(row_of("2 1 1", "+1 1 2"), 0.5, ngram=3),
    "ngrams of up to 3, most of them": Configuration(row_of(*LONG), 0.8, 99, ngram=3),
    "ngrams longer than segments": Configuration(row_of("1 2 1", "3 1 1"), 0.6, 99, 10),
    "Google's words": Configuration(row_of(*LONG), google=True),
    "Google's words, all sets": Configuration(row_of("+1 2 3", "+2 1", "+1 2"), 0.4, google=True),
    "ALBERT's ngrams": Configuration(row_of(*LONG), ngram=3, google=True),
    "ALBERT's ngrams, all sets": Configuration(
        row_of("2 1 1", "+1 1 2"), 0.5, ngram=3, google=True
    ),
}

Masked = list[tuple[list[int], list[int], list[int]]]  # rows, positions, labels


def ours(configuration: Configuration) -> Masked:
    input_ids, continues = (np.tile(np.array(part, np.int16), ROWS) for part in configuration.row)
    length = len(configuration.row[0])
    offsets = np.arange(ROWS + 1, dtype=np.int64) * length
    seg_labels = label_words(input_ids, continues, offsets, MASKABLE, configuration.google)
    keys = row_keys(np.uint64(7), np.arange(ROWS, dtype=np.uint64), 0, np.zeros(ROWS, np.uint32))
    rule = MaskingRule(
        configuration.share, configuration.cap, 0 if configuration.google else 3, MASK,
        joins_segments=configuration.google,
    )  # fmt: skip
    positions, labels, ends = mask_words(
        input_ids, seg_labels, offsets, keys, REPLACEMENTS, rule, configuration.ngram
    )
    parts = zip(np.split(positions, ends[1:-1]), np.split(labels, ends[1:-1]), strict=True)
    rows = input_ids.reshape(ROWS, length).tolist()
    return [
        (row, places.tolist(), originals.tolist())
        for row, (places, originals) in zip(rows, parts, strict=True)
    ]


def reference(configuration: Configuration) -> Masked:
    rng = random.Random(8)  # noqa: S311 - no secret
    masked_rows: Masked = []
    for _ in range(ROWS):
        row = configuration.row[0].copy()
        places, originals = reference_word_masking.mask_words(
            row, configuration.row[1], SPECIAL, REPLACEMENTS.tolist(), 3, MASK,
            configuration.share, configuration.cap, configuration.ngram, rng, configuration.google,
        )  # fmt: skip
        masked_rows.append((row, places, originals))
    return masked_rows


def properties(masked: Masked, configuration: Configuration) -> dict[str, np.ndarray]:
    """Return integers that describe the rows; see the names."""
    stretches = reference_word_masking.find_words(*configuration.row, SPECIAL, configuration.google)
    words = [word for stretch in stretches for word in stretch]
    number_of = {place: number for number, word in enumerate(words) for place in word}
    of_rows = [sorted({number_of[place] for place in places}) for _, places, _ in masked]
    runs = [
        [len(run) for run in runs_of([place for word in chosen for place in words[word]])]
        for chosen in of_rows
    ]
    turns = range(len(masked))
    tokens_masked = [[row[place] == MASK for place in places] for row, places, _ in masked]
    values: dict[str, list[int]] = {
        "predictions": [len(places) for _, places, _ in masked],
        "words": [len(chosen) for chosen in of_rows],
        "set of words": [sum(2**word for word in chosen) for chosen in of_rows],
        "first word": [chosen[0] if chosen else -1 for chosen in of_rows],
        "last word": [chosen[-1] if chosen else -1 for chosen in of_rows],
        "a word by turns": [
            chosen[turn % len(chosen)] if chosen else -1
            for turn, chosen in zip(turns, of_rows, strict=True)
        ],
        "length of a word by turns": [
            len(words[chosen[turn % len(chosen)]]) if chosen else -1
            for turn, chosen in zip(turns, of_rows, strict=True)
        ],
        "runs of neighbouring tokens": list(map(len, runs)),
        "longest run": [max(run, default=0) for run in runs],
        "neighbouring words": [
            sum(later - word == 1 for word, later in pairwise(chosen)) for chosen in of_rows
        ],
        "first and second word": [
            chosen[0] * 100 + chosen[1] if len(chosen) > 1 else -1 for chosen in of_rows
        ],
        "tokens that are [MASK]": [sum(flags) for flags in tokens_masked],
        "[MASK] in a word's first two tokens": [
            2 * flags[0] + flags[1] if len(flags) > 1 else -1 for flags in tokens_masked
        ],
    }
    return {name: np.array(numbers) for name, numbers in values.items()}


def runs_of(places: list[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for place in places:
        if runs and runs[-1][-1] == place - 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_rows_have_the_distribution_of_the_reference(name: str) -> None:
    configuration = CONFIGURATIONS[name]
    built, written = ours(configuration), reference(configuration)
    expected = properties(written, configuration)
    assert_same_distributions(properties(built, configuration), expected, name)
    if any(places for _, places, _ in written):
        assert_eighty_ten_ten(built)
        assert_eighty_ten_ten(written)


def assert_eighty_ten_ten(masked: Masked) -> None:
    now = np.array([row[place] for row, places, _ in masked for place in places])
    labels = np.array([label for _, _, originals in masked for label in originals])
    counts = np.array([(now == MASK).sum(), (now == labels).sum(), (now >= 200).sum()])
    assert counts.sum() == len(now)
    assert_counts(counts, [0.8, 0.1, 0.1], "mask, unchanged, random")
