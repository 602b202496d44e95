"""ELECTRA's examples in plain Python, written from seed 001 to be read.

Seed 001 shows Google's build_pretraining_dataset.py: a builder takes line after line, makes an
example when their tokens reach a target length or an empty line ends the document, and draws the
target of the next example. The kernels of `corpusmill.objectives.examples.electra_packs` must give
examples of the same distribution, and the same examples where they draw the same
(test_electra_distribution.py, test_electra_packs.py).

One thing is not in the seed: `keep` puts trimmed tokens back before the following sentences, in the
order of the text.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

Sentence = list[int]


class Draws(Protocol):
    """The random draws."""

    def target_length(self, max_length: int) -> int:
        """Draw the length at which the next example is complete."""

    def is_single(self) -> bool:
        """Draw whether the example has a single segment."""

    def goes_over(self) -> bool:
        """Draw whether a sentence that exceeds the first segment's target is still added to it."""


@dataclass(frozen=True)
class RandomDraws:
    """The seed's own draws."""

    rng: random.Random
    short_seq_prob: float = 0.05
    single_segment_prob: float = 0.1

    def target_length(self, max_length: int) -> int:
        """Draw the full length or a shorter one."""
        if self.rng.random() < self.short_seq_prob:
            return self.rng.randint(5, max_length)
        return max_length

    def is_single(self) -> bool:
        """Draw by the probability of a single segment."""
        return self.rng.random() < self.single_segment_prob

    def goes_over(self) -> bool:
        """Toss a coin."""
        return self.rng.random() < 0.5


@dataclass(frozen=True)
class ReferenceExample:
    """An example, and how it was made."""

    first: list[int]
    second: list[int]
    first_trimmed: list[int]
    second_trimmed: list[int]
    target_length: int

    def input_ids(self, cls_id: int, sep_id: int) -> list[int]:
        """The row; without a second segment it has no second [SEP]."""
        row = [cls_id, *self.first, sep_id]
        return [*row, *self.second, sep_id] if self.second else row


class ExampleBuilder:
    """Makes examples of the sentences of a corpus, one after the other."""

    def __init__(
        self, max_length: int, target_length: int, draws: Draws, keep: bool = False
    ) -> None:
        self._max_length, self._draws, self._keep = max_length, draws, keep
        self._sentences: list[Sentence] = []
        self._length = 0
        self._target_length = target_length

    def add_sentence(self, sentence: Sentence) -> Iterator[ReferenceExample]:
        """Add a sentence of the document; return the examples that are then complete."""
        waiting = [sentence]
        while waiting:
            self._sentences.append(waiting.pop(0))
            self._length += len(self._sentences[-1])
            if self._length >= self._target_length:
                example, rest = self._create_example()
                yield example
                waiting = rest + waiting

    def end_document(self) -> Iterator[ReferenceExample]:
        """End a document, as an empty line does: the waiting sentences become an example."""
        while self._length:
            example, rest = self._create_example()
            yield example
            for sentence in rest:
                yield from self.add_sentence(sentence)

    def _create_example(self) -> tuple[ReferenceExample, list[Sentence]]:
        """Make an example of the waiting sentences; also return the tokens to put back."""
        target = 100000 if self._draws.is_single() else (self._target_length - 3) // 2
        first: list[tuple[int, int]] = []  # number of the sentence, token
        second: list[tuple[int, int]] = []
        for number, sentence in enumerate(self._sentences):
            tokens = [(number, token) for token in sentence]
            if (
                len(first) == 0
                or len(first) + len(sentence) < target
                or (len(second) == 0 and len(first) < target and self._draws.goes_over())
            ):
                first += tokens
            else:
                second += tokens
        first, first_trimmed = cut(first, self._max_length - 2)
        second, second_trimmed = cut(second, max(0, self._max_length - len(first) - 3))
        trimmed = first_trimmed + second_trimmed
        rest = [
            [token for segment, token in trimmed if segment == number]
            for number in sorted({segment for segment, _ in trimmed})
            if self._keep
        ]
        target_length = self._target_length
        self._sentences, self._length = [], 0
        self._target_length = self._draws.target_length(self._max_length)
        if rest:
            first_trimmed, second_trimmed = [], []
        example = ReferenceExample(
            [token for _, token in first],
            [token for _, token in second],
            [token for _, token in first_trimmed],
            [token for _, token in second_trimmed],
            target_length,
        )
        return example, rest


def cut(
    segment: list[tuple[int, int]], length: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the first `length` tokens of a segment, and the others."""
    return segment[:length], segment[length:]


def generate_examples(
    documents: Iterable[Sequence[Sentence]], builder: ExampleBuilder
) -> Iterator[list[ReferenceExample]]:
    """Generate the examples of each document, with one builder for all as in the seed."""
    for document in documents:
        examples = [made for sentence in document for made in builder.add_sentence(sentence)]
        yield [*examples, *builder.end_document()]
