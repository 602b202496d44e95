"""The stored rows of samples, whose tokens are those of the samples."""

from itertools import product
from pathlib import Path

import numpy as np

from corpusmill.reading.data_set import DataSet, Samples
from corpusmill.reading.mixture import JoinedSamples
from corpusmill.reading.rows import Integers
from corpusmill.reading.token_packs import TokenPacks
from corpusmill.reading.token_windows import TOKENS, TokenWindows
from corpusmill.reading.tracing import StoredRow, stored_rows


class Measured(DataSet):
    """Counts how often rows are measured."""

    measured = 0

    def lengths(self, samples: Integers) -> Integers:
        type(self).measured += 1
        return super().lengths(samples)


def read(rows: list[StoredRow]) -> list[int]:
    """Return the tokens of rows, or of parts of rows."""
    found: list[int] = []
    for row in rows:
        tokens = row.data_set[row.row]["input_ids"]
        stop = None if row.tokens is None else row.first + row.tokens
        found += tokens[row.first : stop].tolist()
    return found


def tokens_of(samples: Samples, number: int) -> list[int]:
    """Return all tokens of a window, its last target included, or of a packed row."""
    row = samples.take(np.array([number]))[0]
    tokens: list[int] = row[TOKENS if TOKENS in row else "input_ids"].tolist()
    return tokens


def test_the_rows_of_windows_and_packs_hold_their_tokens(gpt_stream: Path) -> None:
    data_set = Measured(gpt_stream)
    cuts = product((7, 300, 3000), (41,), (True, False))
    windows = [TokenWindows(data_set, *cut) for cut in cuts]
    packs = [TokenPacks(data_set, length) for length in (2, 17, 64, 1024)]
    for samples in (*windows, *packs):
        numbers = np.arange(0, len(samples), max(1, len(samples) // 60))[::-1].copy()
        Measured.measured = 0
        found = stored_rows(samples, numbers)
        assert Measured.measured <= len(data_set.shards)
        for number, rows in zip(numbers.tolist(), found, strict=True):
            assert read(rows) == tokens_of(samples, number)


def test_the_rows_of_joined_samples_are_those_of_each(gpt_stream: Path, bert: Path) -> None:
    windows = TokenWindows(DataSet(gpt_stream), 50)
    joined = JoinedSamples([windows, TokenWindows(DataSet(gpt_stream, "validation"), 50)])
    numbers = np.array([len(joined) - 1, 3, len(windows), len(windows) - 1])
    for number, rows in zip(numbers.tolist(), stored_rows(joined, numbers), strict=True):
        assert read(rows) == tokens_of(joined, number)
    examples = DataSet(bert)
    assert stored_rows(examples, np.array([5, 2])) == [
        [StoredRow(examples, 5)],
        [StoredRow(examples, 2)],
    ]
