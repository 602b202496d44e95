"""ELECTRA's examples in plain Python, written from seed 001 to be read.

Seed 001 shows Google's build_pretraining_dataset.py: a builder takes line after line, makes an
example when their tokens reach a target length or an empty line ends the document, and draws the
target of the next example. The kernels of `corpusmill.objectives.examples.electra_packs` must give
examples of the same distribution, and the same examples where they draw the same
(test_electra_distribution.py, test_electra_packs.py).

What is not the seed's: `keep` puts the tokens that are trimmed back, in the order of the text, in
front of the sentences that follow.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

Sentence = list[int]


class Draws(Protocol):
    """What is left to chance."""

    def target_length(self, max_length: int) -> int:
        """The length that makes the next example."""

    def is_single(self) -> bool:
        """Whether the example shall have one segment only."""

    def goes_over(self) -> bool:
        """Whether a sentence goes to the first segment though it puts that over its target."""


@dataclass(frozen=True)
class RandomDraws:
    """The seed's own draws."""

    rng: random.Random
    short_seq_prob: float = 0.05
    single_segment_prob: float = 0.1

    def target_length(self, max_length: int) -> int:
        """See Draws."""
        if self.rng.random() < self.short_seq_prob:
            return self.rng.randint(5, max_length)
        return max_length

    def is_single(self) -> bool:
        """See Draws."""
        return self.rng.random() < self.single_segment_prob

    def goes_over(self) -> bool:
        """See Draws."""
        return self.rng.random() < 0.5


@dataclass(frozen=True)
class ReferenceExample:
    """One example, and what happened when it was made."""

    first: list[int]
    second: list[int]
    first_trimmed: list[int]
    second_trimmed: list[int]
    target_length: int

    def input_ids(self, cls_id: int, sep_id: int) -> list[int]:
        """The row; without a second segment there is no second [SEP] either."""
        row = [cls_id, *self.first, sep_id]
        return [*row, *self.second, sep_id] if self.second else row


class ExampleBuilder:
    """Takes the sentences of a corpus, one after the other, and gives examples."""

    def __init__(
        self, max_length: int, target_length: int, draws: Draws, keep: bool = False
    ) -> None:
        self._max_length, self._draws, self._keep = max_length, draws, keep
        self._sentences: list[Sentence] = []
        self._length = 0
        self._target_length = target_length

    def add_sentence(self, sentence: Sentence) -> Iterator[ReferenceExample]:
        """Take one more sentence of the document; gives the examples that are made by that."""
        waiting = [sentence]
        while waiting:
            self._sentences.append(waiting.pop(0))
            self._length += len(self._sentences[-1])
            if self._length >= self._target_length:
                example, rest = self._create_example()
                yield example
                waiting = rest + waiting

    def end_document(self) -> Iterator[ReferenceExample]:
        """What an empty line does: the sentences that wait make an example, however few."""
        while self._length:
            example, rest = self._create_example()
            yield example
            for sentence in rest:
                yield from self.add_sentence(sentence)

    def _create_example(self) -> tuple[ReferenceExample, list[Sentence]]:
        """An example of the sentences that wait, and what is to be put back."""
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
            [token for of, token in trimmed if of == number]
            for number in sorted({of for of, _ in trimmed})
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
    """The first `length` tokens of a segment, and the others."""
    return segment[:length], segment[length:]


def generate_examples(
    documents: Iterable[Sequence[Sentence]], builder: ExampleBuilder
) -> Iterator[list[ReferenceExample]]:
    """The examples of each document, with one builder for all as in the seed."""
    for document in documents:
        examples = [made for sentence in document for made in builder.add_sentence(sentence)]
        yield [*examples, *builder.end_document()]
