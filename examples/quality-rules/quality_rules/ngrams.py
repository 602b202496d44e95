"""N-grams that occur several times in a text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Recurring:
    """The n-grams of one length that occur several times.

    Attributes:
        words: the words of the text.
        length: words of an n-gram.
        places: where they begin, in the order of the text.
        ids: equal numbers for equal n-grams.
        counts: how often each occurs.
    """

    words: Sequence[str]
    length: int
    places: np.ndarray
    ids: np.ndarray
    counts: np.ndarray

    def count_top(self) -> int:
        """Count the characters of the most frequent n-gram, with a space between its words.

        Of several the first counts, also where none occurs twice.
        """
        if len(self.words) < self.length:
            return 0
        top = int(np.argmax(self.counts)) if len(self.places) else None
        start, count = (0, 1) if top is None else (int(self.places[top]), int(self.counts[top]))
        return (self._measure(start) + self.length - 1) * count

    def count_repeated(self) -> int:
        """Count the characters of n-grams that repeat one, without spaces, from left to right."""
        seen, characters, end = set[int](), 0, 0
        for place, number in zip(self.places.tolist(), self.ids.tolist(), strict=True):
            if place < end:  # within one that has been counted
                continue
            if number in seen:
                characters += self._measure(place)
                end = place + self.length
            seen.add(number)
        return characters

    def _measure(self, place: int) -> int:
        return sum(map(len, self.words[place : place + self.length]))


def find_recurring(words: Sequence[str], longest: int) -> Iterator[Recurring]:
    """Yield the n-grams that recur, of 2 words, of 3 words and so on.

    An n-gram recurs only where the one without its last word does, so that ever fewer are compared.
    """
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    tokens = np.fromiter(map(numbers.__getitem__, words), np.int64, len(words))
    places, ids = np.arange(len(words)), tokens
    for length in range(2, longest + 1):
        fits = places + length <= len(words)
        places, ids = places[fits], ids[fits]
        pairs = ids * len(numbers) + tokens[places + length - 1]
        _, ids, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        counts = counts[ids]
        places, ids, counts = places[counts > 1], ids[counts > 1], counts[counts > 1]
        yield Recurring(words, length, places, ids, counts)
