"""Every objective counts the tokens that stand in no row of a pass."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from corpusmill.objectives.bert import BertOptions
from corpusmill.objectives.electra import ElectraOptions
from corpusmill.objectives.ernie import ErnieOptions
from corpusmill.objectives.gpt import GptOptions
from corpusmill.objectives.objective_options import ObjectiveOptions
from tests.tools.builders import SPECIAL, Corpus, batch_of, build_pass, corpora, mark_corpus
from tests.tools.small_datasets import gpt_tokenizer

LENGTH = 16
OBJECTIVES: dict[str, ObjectiveOptions] = {
    "next sentence": BertOptions(max_seq_length=LENGTH, mask="dynamic"),
    "sentence order": BertOptions("sentence-order", LENGTH, mask="dynamic"),
    "next sentence, google": BertOptions(max_seq_length=LENGTH, mask="dynamic", pairs="google"),
    "sentence order, google": BertOptions("sentence-order", LENGTH, mask="dynamic", pairs="google"),
    "full sentences": BertOptions("full-sentences", LENGTH, mask="dynamic"),
    "document sentences": BertOptions("doc-sentences", LENGTH, mask="dynamic"),
    "ernie": ErnieOptions(max_seq_length=LENGTH),
    "electra": ElectraOptions(max_seq_length=LENGTH),
    "electra, keeping": ElectraOptions(max_seq_length=LENGTH, overflow="keep"),
    "electra, merged": ElectraOptions(max_seq_length=LENGTH, merge_documents=True),
    "stream": GptOptions(),
    "windows": GptOptions(mode="windows", max_seq_length=LENGTH, overlap=3),
    "pack": GptOptions(mode="pack", max_seq_length=LENGTH),
}


def bind(options: ObjectiveOptions) -> Any:
    return options.bind(
        replace(gpt_tokenizer(), vocab_size=2000, special=replace(SPECIAL, eos_id=5))
    )


@pytest.mark.parametrize("name", OBJECTIVES)
@settings(max_examples=15, deadline=None)
@given(corpus=corpora)
def test_a_token_stands_in_a_row_or_is_counted(name: str, corpus: Corpus) -> None:
    objective = bind(OBJECTIVES[name])
    marked = mark_corpus(corpus, lambda *_: False) if objective.words else corpus
    rows = build_pass(objective, marked)
    own = {
        document: {token for sentence in sentences for token in sentence}
        for document, sentences in corpus.items()
    }
    covered = set[int]()
    for document, tokens in zip(
        rows.column("document").to_pylist(), rows.column("input_ids").to_pylist(), strict=True
    ):
        covered |= own[document] & set(tokens)
    counts = objective.count(batch_of(marked), rows)
    assert counts["trimmed_tokens"] == sum(map(len, own.values())) - len(covered)


@pytest.mark.parametrize("name", ["next sentence", "sentence order", "ernie", "electra"])
def test_sentences_that_no_row_can_hold_are_counted(name: str) -> None:
    objective = bind(OBJECTIVES[name])
    corpus = {0: [[9] * (LENGTH - 3), [9] * (LENGTH - 1)], 1: [[9]], 2: [[9] * 50]}
    batch = batch_of(corpus)
    rows = build_pass(objective, corpus)
    assert objective.count(batch, rows)["long_sentences"] == 2
    # A batch may be a slice of a larger one.
    slice_rows = build_pass(objective, {2: corpus[2]})
    assert objective.count(batch.slice(2, 1), slice_rows)["long_sentences"] == 1
