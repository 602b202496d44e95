"""The examples of T5 and UL2 in plain Python, as articles and programs describe them.

Sources: Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
Transformer", section 3.1.4, and what their program does with documents (t5/data/preprocessors.py);
Tay et al. 2022, "UL2: Unifying Language Learning Paradigms", table 1 and appendix.
"""

import random
from collections.abc import Iterator, Sequence

import numpy as np

Tokens = Sequence[int]

# Table 1 of UL2: mean length of spans, share of the tokens, and mode. None is a quarter of the row,
# once, at its end.
UL2: Sequence[tuple[float | None, float, str]] = (
    (3.0, 0.15, "R"),
    (8.0, 0.15, "R"),
    (None, 0.25, "S"),
    (3.0, 0.5, "X"),
    (8.0, 0.5, "X"),
    (64.0, 0.15, "X"),
    (64.0, 0.5, "X"),
)
# The program in the appendix calls T5's function for a prefix language model in place of S.
UL2_PROGRAM = tuple((span, density if span else 0.5, mode) for span, density, mode in UL2)


def lengths(inputs_length: int, density: float, mean_span: float) -> tuple[int, int]:
    """Return the tokens of a row that just fills an input, and the length of its targets."""

    def corrupted(tokens: int) -> tuple[int, int]:
        noise = round(tokens * density)
        spans = round(noise / mean_span)
        return tokens - noise + spans + 1, noise + spans + 1

    tokens = inputs_length - 1
    while corrupted(tokens + 1)[0] <= inputs_length:
        tokens += 1
    inputs, targets = corrupted(tokens)
    if density == 0.5 and targets > inputs:
        return tokens - 1, targets - 1
    return tokens, targets


def draw_parts(items: int, parts: int, draws: random.Random) -> list[int]:
    """Draw the lengths of parts that are not empty, all ways to divide being equally likely."""
    begins = [True] * (parts - 1) + [False] * (items - parts)
    draws.shuffle(begins)
    sizes = [1]
    for is_begin in begins:
        if is_begin:
            sizes.append(1)
        else:
            sizes[-1] += 1
    return sizes


def draw_mask(length: int, density: float, mean_span: float, draws: random.Random) -> list[bool]:
    """Draw which tokens of a row are noise: text first, then noise, and so on in turns.

    The program counts in single precision.
    """
    grown = max(length, 2)
    noise = min(max(round(float(np.float32(grown) * np.float32(density))), 1), grown - 1)
    spans = max(round(float(np.float32(noise) / np.float32(mean_span))), 1)
    noise_sizes = draw_parts(noise, spans, draws)
    text_sizes = draw_parts(grown - noise, spans, draws)
    mask: list[bool] = []
    for text_size, noise_size in zip(text_sizes, noise_sizes, strict=True):
        mask += [False] * text_size + [True] * noise_size
    return mask[:length]


def draw_prefix_mask(length: int, density: float, draws: random.Random) -> list[bool]:
    """Draw where a prefix ends, of all places from which the rest has `density` on average."""
    most = length - 1
    least = min(most, max(1, round(float(np.float32(1 - 2 * density) * np.float32(most)))))
    prefix = draws.randint(least, most)
    return [place >= prefix for place in range(length)]


def replace_runs(tokens: Tokens, hidden: Sequence[bool], sentinels: Tokens) -> list[int]:
    """Put one sentinel in place of each run of hidden tokens."""
    shown: list[int] = []
    unused, before = iter(sentinels), False
    for token, is_hidden in zip(tokens, hidden, strict=True):
        if not is_hidden:
            shown.append(token)
        elif not before:
            shown.append(next(unused))
        before = is_hidden
    return shown


def corrupt(
    tokens: Tokens, mask: Sequence[bool], sentinels: Tokens, end: int
) -> tuple[list[int], list[int]]:
    """Return the input and the targets of a row."""
    shown = [not is_noise for is_noise in mask]
    inputs = replace_runs(tokens, mask, sentinels)
    return [*inputs, end], [*replace_runs(tokens, shown, sentinels), end]


def restore(inputs: Tokens, targets: Tokens, sentinels: Tokens) -> list[int]:
    """Return the row of an input and its targets, which end with the same token."""
    if targets[0] not in sentinels:  # those of a prefix language model
        return [*inputs[:-1], *targets[:-1]]
    spans: dict[int, list[int]] = {}
    for token in targets[:-1]:
        if token in sentinels:
            spans[token] = current = []
        else:
            current.append(token)
    return [part for token in inputs[:-1] for part in spans.get(token, [token])]


def draw_piece(document: Tokens, most: int, draws: random.Random) -> Tokens:
    """Draw one of the pieces of a document, of which only the last can be shorter."""
    begin = most * draws.randrange(-(-len(document) // most))
    return document[begin : begin + most]


def cut_joined(documents: Sequence[Tokens], joined: int, length: int) -> Iterator[list[int]]:
    """Join documents by a number of them, and cut each such text into rows."""
    for first in range(0, len(documents), joined):
        text = [token for document in documents[first : first + joined] for token in document]
        yield from (text[begin : begin + length] for begin in range(0, len(text), length))
