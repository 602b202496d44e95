"""ELECTRA's packs of small corpora, the kernel's and the reference's with the same draws."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from corpusmill.arrays.randomness import PACKS, derive_keys
from corpusmill.objectives.electra import Electra, ElectraOptions
from corpusmill.objectives.examples import electra_packs as packing
from corpusmill.objectives.examples.electra_packs import PackRule, draw_packs
from tests.corpusmill.objectives.reference_electra import (
    ExampleBuilder,
    ReferenceExample,
    Sentence,
    generate_examples,
)
from tests.tools.builders import SPECIAL, Corpus, flatten, index_of, numbered_corpus

# Up to five documents of up to twelve sentences, some longer than any example.
corpora = st.lists(
    st.lists(st.integers(1, 12) | st.integers(1, 60), min_size=1, max_size=12),
    min_size=1,
    max_size=5,
).map(numbered_corpus)

options = st.builds(
    ElectraOptions,
    max_seq_length=st.integers(5, 40),
    short_seq_prob=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    single_segment_prob=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    overflow=st.sampled_from(["drop", "keep"]),
)


def electra(options: ElectraOptions) -> Electra:
    """Return the objective with the tokenizer of the builders."""
    return Electra(options, SPECIAL, "int16")


@dataclass
class KernelDraws:
    """The kernel's draws for one pass over a document, in the form that the reference needs."""

    key: np.uint64
    short_seq_prob: float
    single_segment_prob: float
    index: int = field(default=-1)

    def target_length(self, max_length: int) -> int:
        """Draw the target of the next example."""
        self.index += 1
        return int(
            packing.draw_target_length(
                self.key, self.index, PackRule(max_length, self.short_seq_prob, 0.0, False)
            )
        )

    def is_single(self) -> bool:
        """Draw whether the current example has a single segment."""
        target = packing.draw_first_target_length(self.key, self.index, 9, self.single_segment_prob)
        return bool(target == packing.SINGLE_SEGMENT_TARGET)

    def goes_over(self) -> bool:
        """Draw whether the current example's first segment exceeds its target."""
        return bool(packing.goes_over(self.key, self.index))


def reference_packs(
    corpus: Corpus, options: ElectraOptions, seed: int = 1, repeat: int = 0
) -> list[list[ReferenceExample]]:
    """Return each document's examples by the reference with the kernel's draws."""
    examples = []
    for document, sentences in corpus.items():
        [key] = derive_keys(np.uint64(seed), np.array([document], np.uint64), repeat, PACKS)
        draws = KernelDraws(key, options.short_seq_prob, options.single_segment_prob)
        builder = ExampleBuilder(
            options.max_seq_length,
            draws.target_length(options.max_seq_length),
            draws,
            options.overflow == "keep",
        )
        examples += list(generate_examples([[list(sentence) for sentence in sentences]], builder))
    return examples


@dataclass(frozen=True)
class Pack:
    """A pack of the kernel, with the tokens of its spans."""

    document: int
    index: int
    first: Sentence
    second: Sentence
    trimmed: tuple[int, int]
    target_length: int


def kernel_packs(
    corpus: Corpus, options: ElectraOptions, seed: int = 1, repeat: int = 0
) -> list[Pack]:
    """Return the packs of a corpus, in the kernel's order; `document` is its place in it."""
    token_ids = flatten(corpus)[3]
    rule = PackRule(
        options.max_seq_length,
        options.short_seq_prob,
        options.single_segment_prob,
        options.overflow == "keep",
    )
    packs, spans = draw_packs(index_of(corpus), np.uint64(seed), repeat, rule)
    assert (spans[:, 1] > 0).all()
    ends = [*packs[1:, packing.FIRST_SPAN].tolist(), len(spans)]
    return [
        read_pack(pack.tolist(), spans[pack[packing.FIRST_SPAN] : end], token_ids)
        for pack, end in zip(packs, ends, strict=True)
    ]


def read_pack(pack: Sequence[int], spans: np.ndarray, token_ids: np.ndarray) -> Pack:
    """Read a row of the kernel's packs and its spans."""
    document, index, _, first, second, *trimmed, target_length = pack
    tokens = np.concatenate([token_ids[start:][:length] for start, length in spans]).tolist()
    assert len(tokens) == first + second
    trimmed_both = (trimmed[0], trimmed[1])
    return Pack(document, index, tokens[:first], tokens[first:], trimmed_both, target_length)
