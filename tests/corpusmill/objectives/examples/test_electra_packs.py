from hypothesis import given
from hypothesis import strategies as st

from corpusmill.objectives.electra import ElectraOptions
from tests.corpusmill.objectives.electra_examples import (
    corpora,
    kernel_packs,
    options,
    reference_packs,
)
from tests.tools.builders import Corpus, numbered_corpus, seeds


@given(corpora, options, seeds, st.integers(0, 3))
def test_packs_are_the_references_with_the_same_draws(
    corpus: Corpus, given_options: ElectraOptions, seed: int, repeat: int
) -> None:
    expected = [
        (
            *(document, index, pack.first, pack.second),
            *(len(pack.first_trimmed), len(pack.second_trimmed), pack.target_length),
        )
        for document, examples in enumerate(reference_packs(corpus, given_options, seed, repeat))
        for index, pack in enumerate(examples)
    ]
    assert [
        (pack.document, pack.index, pack.first, pack.second, *pack.trimmed, pack.target_length)
        for pack in kernel_packs(corpus, given_options, seed, repeat)
    ] == expected


def test_the_passes_over_a_document_differ() -> None:
    corpus = numbered_corpus([[7, 9, 4, 6, 8, 5] * 4])
    mixed = ElectraOptions(max_seq_length=20, short_seq_prob=0.5)
    packs = {str(kernel_packs(corpus, mixed, seed=1, repeat=repeat)) for repeat in range(4)}
    assert len(packs) == 4
