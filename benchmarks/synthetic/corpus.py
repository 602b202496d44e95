"""Text of any size in WikiText's layout whose vocabulary grows like that of real text.

    python -m benchmarks.synthetic.corpus --output corpus.txt [--bytes 540000000] [--seed 0]

Words are drawn one by one from an infinite frequency law, so that new ones appear throughout the
file; rare words recur soon, like the words of a topic. The text has neither grammar nor meaning.
Lines, titles and documents have the sizes of WikiText-2's, drawn independently.

WikiText-2 train (in its published form of 10,797,148 bytes, which replaces words seen once or twice
by `<unk>`) beside as many bytes with seed 0:

    ====================================  ==================  ===============
                                          WikiText-2          synthetic
    ====================================  ==================  ===============
    tokens                                2,051,910           2,015,305
    types                                 about 77,200 (a)    81,457
    types seen once                       about 33,000 (a)    30,507
    types seen three times or more        33,276              35,012
    share of tokens seen less often       2.66 %              3.10 %
    Heaps' law, from 100,000 tokens on    19.0 n^0.572 (a)    21.3 n^0.570
    documents                             5,516               5,281
    lines per document                    3.18                3.28
    words per line, mean and deviation    114.3, 77.6         113.9, 79.3
    characters per token                  4.22                4.31
    share of numbers                      2.83 %              2.88 %
    share of capitalised tokens           15.1 %              16.3 %
    share of tokens not ASCII             0.48 %              0.49 %
    pieces per word, seen three times (b) 1.051               1.056
    the same, mean over types (b)         1.307               1.396
    ====================================  ==================  ===============

(a) The words replaced by `<unk>` are estimated from their 54,625 occurrences and the numbers of
words seen 3, 4 and 5 times. (b) WordPiece of 30,522 entries trained on the text itself, with BERT's
normalization and splitting; types seen three times or more.

At 540,000,000 bytes: 100,813,965 tokens, 554,071 types, 279,377 of them seen three times or more,
and 268,011 documents. WikiText-103 has 267,735 such types, as published, and 268,854 documents.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.synthetic.words import HEAD, TABLE_RANKS, word_rows, word_table

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Rows = npt.NDArray[np.uint64]

# Frequencies of the words after HEAD, a Zipf-Mandelbrot law whose exponent changes at BEND (Gerlach
# and Altmann 2013): p ~ (r + SHIFT)^-HEAD_EXPONENT * (1 + rank / BEND)^(HEAD_EXPONENT -
# TAIL_EXPONENT), r counted from the end of HEAD. A least-squares fit to the logarithms of
# WikiText-2's counts, and to its and WikiText-103's numbers of types.
SHIFT = 27.6
HEAD_EXPONENT = 0.660
BEND = 6200.0
TAIL_EXPONENT = 1.95
# This share of the words rarer than RECALL_FROM is drawn again from those met shortly before.
RECALL_SHARE = 0.4
RECALL_FROM = 1000
RECALL_DISTANCE = 60.0  # mean, in rare words

# Number of documents of WikiText-2 train by their number of lines.
LINES_PER_DOCUMENT = {
    1: 1354, 2: 1347, 3: 1211, 4: 690, 5: 330, 6: 207, 7: 121, 8: 82, 9: 47, 10: 31, 11: 15, 12: 12,
    13: 12, 14: 7, 15: 3, 16: 4, 17: 4, 18: 2, 19: 4, 20: 5, 21: 4, 22: 3, 23: 1, 25: 1, 26: 3,
    27: 1, 29: 1, 30: 1, 31: 1, 35: 1, 37: 1, 39: 1, 40: 1, 44: 1, 46: 1, 48: 2, 52: 1, 79: 1,
    80: 1, 94: 1,
}  # fmt: skip
# Words per line at these quantiles, by the number of lines in the document (the smallest number of
# a class): documents of many lines are lists, whose lines are short.
QUANTILES = (0.0, 0.02, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.98, 0.99, 0.999, 1.0)
WORDS_PER_LINE = {
    1: (2, 5, 9, 27, 77, 129, 191, 245, 293, 335, 388, 476, 492),
    2: (1, 22, 42, 59, 89, 128, 178, 232, 276, 307, 346, 485, 669),
    3: (1, 20, 37, 53, 82, 121, 169, 224, 260, 302, 345, 455, 542),
    4: (1, 10, 23, 43, 76, 116, 164, 218, 255, 301, 333, 425, 699),
    6: (1, 3, 7, 15, 50, 98, 153, 207, 243, 288, 320, 439, 695),
    9: (1, 2, 4, 6, 12, 45, 112, 163, 200, 240, 278, 426, 538),
    16: (1, 1, 1, 3, 6, 10, 20, 56, 98, 146, 176, 255, 282),
}
WORDS_PER_TITLE = (2390, 1663, 1003, 457, 247, 162, 126, 71, 32, 21, 11, 9)  # 1 word, 2 words, ...
TITLE_LEVELS = (629, 2922, 2346, 310, 4)  # "= x =", "= = x = =", ...
TITLES_PER_DOCUMENT = 6211 / 5516  # some sections hold only further sections

_NEWLINE, _EQUALS, _FIRST_WORD = 0, 1, 2  # rows of the table
_DOCUMENTS_PER_CHUNK = 2048


def write_corpus(path: str | Path, num_bytes: int = 540_000_000, seed: int = 0) -> None:
    """Write a synthetic text.

    The same size and seed give the same file. A smaller corpus of the same seed is a prefix of a
    larger one, except for the last word. All seeds have the same vocabulary.

    Args:
        path: the file to write; replaced if it exists.
        num_bytes: its exact size, at least 1.
        seed: any non-negative number.

    Raises:
        ValueError: `num_bytes` is below 1.
    """
    if num_bytes < 1:
        raise ValueError(f"a corpus has at least 1 byte, not {num_bytes}")
    rng = np.random.default_rng(seed)
    table = _row_table()
    cumulative = cumulative_frequencies()
    remaining = num_bytes
    with Path(path).open("wb") as file:
        file.write(b" "[: remaining - 1])  # every line starts with a space; see _row_table
        remaining -= min(1, remaining - 1)
        while remaining > 0:
            lengths, levels = _lines(rng, _DOCUMENTS_PER_CHUNK)
            text = _render(table, _word_ids(rng, lengths, levels, cumulative))
            if len(text) >= remaining:
                text = _cut(text, remaining)
            file.write(text)
            remaining -= len(text)


def cumulative_frequencies() -> Floats:
    """Return P(rank <= r) at index r - 1, `float64[TABLE_RANKS]`.

    The last one is below 1 by the share of the rarer words, which follow a pure power law.
    """
    head = np.array(list(HEAD.values())) / 1e6
    ranks = np.arange(len(head) + 1, TABLE_RANKS + 1, dtype=np.float64)
    weights = (ranks - len(head) + SHIFT) ** -HEAD_EXPONENT
    weights *= (1 + ranks / BEND) ** (HEAD_EXPONENT - TAIL_EXPONENT)
    beyond = weights[-1] * TABLE_RANKS / (TAIL_EXPONENT - 1)
    weights *= (1 - head.sum()) / (weights.sum() + beyond)
    return np.cumsum(np.concatenate([head, weights]))


def draw_ranks(rng: np.random.Generator, size: int, cumulative: Floats) -> Integers:
    """Draw ranks of words, `int64[size]`, from 1 and without an upper limit.

    A share of the rarer words is replaced by a rare word drawn shortly before, as the words of a
    topic recur in real text; this does not change the frequency of any word.
    """
    uniform = rng.random(size)
    ranks = np.searchsorted(cumulative, uniform, side="right") + 1
    beyond = np.flatnonzero(ranks > TABLE_RANKS)
    share_left = (1 - uniform[beyond]) / (1 - cumulative[-1])
    # At most 2^52, above which float64 does not have all integers.
    far = TABLE_RANKS * np.maximum(share_left, 2.0**-28) ** (-1 / (TAIL_EXPONENT - 1))
    ranks[beyond] = np.minimum(far, 2.0**52).astype(np.int64) + 1

    rare = np.flatnonzero(ranks > RECALL_FROM)
    drawn = ranks[rare]
    distance = 1 + rng.exponential(RECALL_DISTANCE, len(rare)).astype(np.int64)
    source = np.arange(len(rare)) - distance
    recalled = (rng.random(len(rare)) < RECALL_SHARE) & (source >= 0)
    ranks[rare] = drawn[np.where(recalled, source, np.arange(len(rare)))]
    return ranks


def _lines(rng: np.random.Generator, documents: int) -> tuple[Integers, Integers]:
    """Draw the lines of some documents with their titles.

    Returns:
        Words per line, int64, zero for a blank line and without the signs of a title; and the level
        of the title on it, int64, zero for other lines. A document of two lines under one title:
        [0, 3, 0, 120, 80] and [0, 2, 0, 0, 0].
    """
    histogram = np.repeat(list(LINES_PER_DOCUMENT), list(LINES_PER_DOCUMENT.values()))
    text_lines = histogram[rng.integers(0, len(histogram), documents)]
    title_lines = 3 * (1 + (rng.random(documents) < TITLES_PER_DOCUMENT - 1))
    per_document = title_lines + text_lines
    owner = np.repeat(np.arange(documents), per_document)
    starts = np.cumsum(per_document) - per_document
    within = np.arange(len(owner)) - starts[owner]
    is_text = within >= title_lines[owner]
    is_title = ~is_text & (within % 3 == 1)

    lengths = np.zeros(len(owner), dtype=np.int64)
    levels = np.zeros(len(owner), dtype=np.int64)
    lengths[is_text] = _words_per_line(rng, text_lines[owner[is_text]])
    titles = int(is_title.sum())
    lengths[is_title] = _draw_index(rng, WORDS_PER_TITLE, titles) + 1
    levels[is_title] = _draw_index(rng, TITLE_LEVELS, titles) + 1
    return lengths, levels


def _words_per_line(rng: np.random.Generator, lines_of_document: Integers) -> Integers:
    """Draw the words of each line, int64, given how many lines its document has."""
    words = np.zeros(len(lines_of_document), dtype=np.int64)
    uniform = rng.random(len(words))
    for least, values in WORDS_PER_LINE.items():
        lines = lines_of_document >= least  # a later, stricter class overwrites
        words[lines] = np.rint(np.interp(uniform[lines], QUANTILES, values)).astype(np.int64)
    return words


def _draw_index(rng: np.random.Generator, weights: Sequence[int], size: int) -> Integers:
    cumulative = np.cumsum(weights)
    return np.searchsorted(cumulative, rng.integers(0, cumulative[-1], size), side="right")


def _word_ids(
    rng: np.random.Generator, lengths: Integers, levels: Integers, cumulative: Floats
) -> Integers:
    """Fill the lines with words: rows of the table, int64, each line ended by _NEWLINE."""
    widths = lengths + 2 * levels + 1
    ends = np.cumsum(widths)
    ids = draw_ranks(rng, int(ends[-1]), cumulative) + (_FIRST_WORD - 1)
    ids[ends - 1] = _NEWLINE
    for level in range(len(TITLE_LEVELS)):
        deeper = levels > level
        ids[(ends - widths)[deeper] + level] = _EQUALS
        ids[ends[deeper] - 2 - level] = _EQUALS
    return ids


def _row_table() -> Rows:
    """Return the rows of 32 bytes that text is put together from: uint64 of (words, 4).

    A newline's row is a line break and the space that the next line starts with.
    """
    signs = b"".join(sign.ljust(32, b"\0") for sign in (b"\n ", b"= "))
    return np.concatenate([np.frombuffer(signs, dtype="<u8").reshape(-1, 4), word_table()])


def _render(table: Rows, ids: Integers) -> bytes:
    """Return the text of rows ``ids``; NUL bytes, which fill the rows, are dropped."""
    beyond = np.flatnonzero(ids >= len(table))
    rows = table[np.where(ids < len(table), ids, 0)]
    rows[beyond] = word_rows(ids[beyond] - (_FIRST_WORD - 1))
    return rows.tobytes().translate(None, delete=b"\0")


def _cut(text: bytes, size: int) -> bytes:
    """Return ``text`` cut after a word and ended with a newline: exactly ``size`` bytes."""
    end = text.rfind(b" ", 0, size - 1) + 1
    return text[:end].ljust(size - 1) + b"\n"


def main() -> None:
    """Write a corpus from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=540_000_000, dest="num_bytes")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.num_bytes < 1:
        parser.error(f"--bytes {arguments.num_bytes}: a corpus has at least 1 byte")
    write_corpus(arguments.output, arguments.num_bytes, arguments.seed)


if __name__ == "__main__":
    main()
