"""The kernel's examples have the distribution of the reference's, whose builder never restarts.

Each property of each configuration is one chi-square test; see distributions.py for the rate. One
observation is one pass over one document. The reference is the original's way: one builder takes
all documents one after the other and carries its target from each to the next. Of a pass over a
document the example number p modulo the examples of that pass is observed, where p is the pass.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from corpusmill.objectives.electra import ElectraOptions
from tests.corpusmill.objectives.electra_examples import kernel_packs
from tests.corpusmill.objectives.reference_electra import (
    ExampleBuilder,
    RandomDraws,
    generate_examples,
)
from tests.tools.builders import VARIED
from tests.tools.distributions import arrays_of, assert_same_distributions

PASSES = 250

CONFIGURATIONS: dict[str, ElectraOptions] = {
    "original, small": ElectraOptions(max_seq_length=35),
    "short always": ElectraOptions(max_seq_length=35, short_seq_prob=1.0),
    "half single, half short": ElectraOptions(
        max_seq_length=60, short_seq_prob=0.5, single_segment_prob=0.5
    ),
    "smallest": ElectraOptions(max_seq_length=5, short_seq_prob=0.5),
    "nothing dropped": ElectraOptions(max_seq_length=35, short_seq_prob=0.3, overflow="keep"),
}


class Example(NamedTuple):
    """An example and its origin."""

    document: int
    number: int
    examples_in_pass: int
    first: list[int]
    second: list[int]
    first_trimmed: int
    second_trimmed: int
    target_length: int


def ours(options: ElectraOptions) -> Iterator[Example]:
    """Return one example of each pass over each document."""
    for repeat in range(PASSES):
        packs = kernel_packs(VARIED, options, seed=11, repeat=repeat)
        for document in VARIED:
            of_pass = [pack for pack in packs if pack.document == document]
            index = repeat % len(of_pass)
            pack = of_pass[index]
            yield Example(
                document, index, len(of_pass), pack.first, pack.second, *pack.trimmed,
                pack.target_length,
            )  # fmt: skip


def reference(options: ElectraOptions) -> Iterator[Example]:
    """Return the same by the original, without the very first example, which is never short."""
    longest, keep = options.max_seq_length, options.overflow == "keep"
    rng = random.Random(12)  # noqa: S311 - no secret
    draws = RandomDraws(rng, options.short_seq_prob, options.single_segment_prob)
    builder = ExampleBuilder(longest, longest, draws, keep)
    [_] = generate_examples([[[7]]], builder)
    for repeat in range(PASSES):
        passes = generate_examples(VARIED.values(), builder)
        for document, of_pass in zip(VARIED, passes, strict=True):
            index = repeat % len(of_pass)
            example = of_pass[index]
            yield Example(
                document, index, len(of_pass), example.first, example.second,
                len(example.first_trimmed), len(example.second_trimmed), example.target_length,
            )  # fmt: skip


def properties(examples: Iterator[Example]) -> Iterator[dict[str, int]]:
    """Yield integers that describe each example; see the names."""
    for example in examples:
        first, second = len(example.first), len(example.second)
        trimmed = example.first_trimmed + example.second_trimmed
        is_mixed = bool(example.second) and example.first[-1] > example.second[0]
        yield {
            "examples in a pass": example.examples_in_pass,
            "examples in a pass, of a document": example.document * 1000 + example.examples_in_pass,
            "length": first + second,
            "first segment's length": first,
            "second segment's length": second,
            "both segments' lengths": first * 1000 + second,
            "one segment": not example.second,
            "one segment, of an index": example.number * 2 + (not example.second),
            "tokens trimmed of the first segment": example.first_trimmed,
            "tokens trimmed of the second segment": example.second_trimmed,
            "tokens trimmed, of a document": example.document * 1000 + trimmed,
            "target": example.target_length,
            "target, of an index": example.number * 1000 + example.target_length,
            "target, of a document": example.document * 1000 + example.target_length,
            "target, of a first example": -1 if example.number else example.target_length,
            "target, of a length": example.target_length * 1000 + first + second,
            "a first segment that continues after the second": is_mixed,
            "first token": example.first[0],
            "last token of the first segment": example.first[-1],
            "first token of the second segment": example.second[0] if example.second else -1,
            "last token": max(example.first + example.second),
        }


def test_the_corpus_has_what_it_is_for() -> None:
    lengths = [len(sentence) for sentences in VARIED.values() for sentence in sentences]
    assert {len(sentences) for sentences in VARIED.values()} == set(range(1, 13))
    assert min(lengths) == 1
    assert max(lengths) == 40
    drawn = properties(ours(CONFIGURATIONS["original, small"]))
    assert any(example["a first segment that continues after the second"] for example in drawn)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_examples_are_distributed_as_the_references(name: str) -> None:
    options = CONFIGURATIONS[name]
    built, written = (arrays_of(properties(draw(options))) for draw in (ours, reference))
    assert_same_distributions(built, written, name)
