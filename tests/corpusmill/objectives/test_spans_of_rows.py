"""Every row of every objective is made of the tokens that its spans name."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.arrays.columns import Role, column_of
from corpusmill.layout.sorting import add_keys, sort_rows
from corpusmill.objectives.bert import BertOptions
from corpusmill.objectives.columns import SPANS
from corpusmill.objectives.electra import ElectraOptions
from corpusmill.objectives.ernie import ErnieOptions
from corpusmill.objectives.examples.fill_in_the_middle import FIM_TOKENS
from corpusmill.objectives.gpt import GptOptions
from corpusmill.objectives.objective import Objective
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.objectives.t5 import T5Options
from corpusmill.tokenization.text_cuts import TextMarks
from corpusmill.tokenization.tokenizer_file import SpecialTokens, TokenizerFile
from tests.corpusmill.objectives.bert_examples import unmask
from tests.corpusmill.objectives.reference_t5 import restore
from tests.tools.builders import (
    Corpus,
    build_pass,
    corpora,
    mark_corpus,
    numbered_corpus,
    offsets_of,
    pool_of,
    seeds,
)
from tests.tools.knobs import knobs

# Rows compared with the documents that their spans name.


# Document ids to their tokens.
Texts = Mapping[int, Sequence[int]]


def texts_of(*corpora: Corpus) -> Texts:
    """Return the tokens of each document of some corpora."""
    return {
        document: [*chain(*sentences)]
        for corpus in corpora
        for document, sentences in corpus.items()
    }


def assert_made_of(
    rows: Iterable[Sequence[int]], lists: Iterable[Sequence[int]], texts: Texts
) -> None:
    """Check that rows are the tokens of their spans, and that spans are as long as they can be.

    Args:
        rows: the tokens of rows, without special tokens and with masks undone.
        lists: the rows' values of SPANS.
        texts: the tokens of all documents, those of the pool included.
    """
    for row, spans in zip(rows, lists, strict=True):
        assert tokens_of(spans, texts) == [*row], spans


def tokens_of(spans: Sequence[int], texts: Texts) -> list[int]:
    """Return the tokens of a row's spans, which must be in their documents, not empty, and joined.

    Args:
        spans: a value of SPANS.
        texts: the tokens of all documents.
    """
    assert len(spans) % 3 == 0
    tokens: list[int] = []
    document, place = -1, 0
    for own, first, length in zip(spans[::3], spans[1::3], spans[2::3], strict=True):
        assert length > 0
        assert first + length <= len(texts[own])
        assert (own, first) != (document, place), "two spans that continue each other"
        tokens += texts[own][first : first + length]
        document, place = own, first + length
    return tokens


LENGTH, VOCAB_SIZE = 16, 32_767
SENTINELS = range(32_700, 32_600, -1)
ROLES = {
    **dict(zip(FIM_TOKENS, (6, 7, 8), strict=True)),
    **{f"sentinel_{number}": token for number, token in enumerate(SENTINELS)},
    "mode_r": 32_710,
    "mode_s": 32_711,
    "mode_x": 32_712,
}
SPECIAL = SpecialTokens(
    2, 3, 4, 0, 1, (*range(6), *sorted(ROLES.values())), 5, tuple(ROLES.items())
)
TOKENIZER = TokenizerFile("tokenizer.json", "{}", VOCAB_SIZE, SPECIAL, "")

MIDDLES: dict[str, Any] = {"fim_rate": 0.7, "fim_cut": "tokens"}
CHARACTERS: dict[str, Any] = {"fim_rate": 0.7}
WINDOWS: dict[str, Any] = {"mode": "windows", "max_seq_length": 8, "overlap": 3}
PACK: dict[str, Any] = {"mode": "pack", "max_seq_length": LENGTH}
WORDS: dict[str, Any] = {"whole_word_mask": True, "masked_lm_prob": 0.5}
UL2: dict[str, Any] = {"denoisers": "ul2", "max_seq_length": LENGTH}
WAYS: dict[str, ObjectiveOptions] = {
    "next sentence": BertOptions(max_seq_length=LENGTH),
    "next sentence, long rows": BertOptions(max_seq_length=60),
    "next sentence, words": BertOptions(max_seq_length=LENGTH, **WORDS),
    "next sentence, dynamic": BertOptions(max_seq_length=LENGTH, mask="dynamic"),
    "next sentence, google": BertOptions(max_seq_length=LENGTH, pairs="google"),
    "sentence order": BertOptions("sentence-order", LENGTH),
    "sentence order, google": BertOptions("sentence-order", LENGTH, pairs="google"),
    "sentence order, google, words": BertOptions("sentence-order", 60, pairs="google", **WORDS),
    "full sentences": BertOptions("full-sentences", LENGTH),
    "full sentences, words": BertOptions("full-sentences", 60, **WORDS),
    "document sentences": BertOptions("doc-sentences", LENGTH),
    "packed": BertOptions("packed", LENGTH),
    "packed, words": BertOptions("packed", 60, **WORDS),
    "electra": ElectraOptions(max_seq_length=LENGTH),
    "electra, keeping": ElectraOptions(max_seq_length=LENGTH, overflow="keep"),
    "electra, one segment": ElectraOptions(max_seq_length=LENGTH, single_segment_prob=1.0),
    "electra, merged": ElectraOptions(max_seq_length=LENGTH, merge_documents=True),
    "ernie": ErnieOptions(max_seq_length=LENGTH),
    "ernie, static": ErnieOptions(max_seq_length=LENGTH, mask="static"),
    "stream": GptOptions(),
    "stream without ends": GptOptions(end_of_text=False),
    "stream, middles of tokens": GptOptions(**MIDDLES),
    "stream, middles of characters": GptOptions(**CHARACTERS),
    "windows": GptOptions(**WINDOWS),
    "windows with ends": GptOptions(mode="windows", max_seq_length=4, end_of_text=True),
    "windows, middles of tokens": GptOptions(**WINDOWS, **MIDDLES),
    "windows, middles of characters": GptOptions(**WINDOWS, **CHARACTERS),
    "pack": GptOptions(**PACK),
    "pack, suffix first": GptOptions(**PACK, fim_rate=1.0, fim_spm_share=1.0, fim_cut="tokens"),
    "pack, prefix first": GptOptions(**PACK, fim_rate=1.0, fim_spm_share=0.0),
    "t5": T5Options(max_seq_length=12),
    "t5, keeping": T5Options(max_seq_length=12, overflow="keep"),
    "t5, document by document": T5Options(max_seq_length=12, merge_documents=False),
    "t5, dynamic": T5Options(max_seq_length=12, mask="dynamic", overflow="keep"),
    "ul2": T5Options(**UL2),
    "ul2, program": T5Options(denoisers="ul2-program", max_seq_length=LENGTH),
    "ul2, dynamic": T5Options(**UL2, mask="dynamic", merge_documents=False),
}
any_way = pytest.mark.parametrize("name", WAYS)

# Ids that a signed number cannot hold, and pools with and without the documents of the batch.
BIG = 2**63
pools = corpora.map(lambda corpus: renumber(corpus, BIG + 100, 10_000))


def renumber(corpus: Corpus, document: int, token: int) -> Corpus:
    return {
        document + own: [[token + number for number in sentence] for sentence in sentences]
        for own, sentences in corpus.items()
    }


def bind(options: ObjectiveOptions) -> Any:
    return options.bind(TOKENIZER)


# T5 cuts documents at 10 tokens, and joins pieces by 4; pieces are packed by a few.
SMALL = {
    "merged_piece_tokens": 10, "joined_pieces": 4, "shuffled_tokens": 100, "packed_tokens": 100,
    "most_packed_tokens": 100, "most_stocked_tokens": 100,
}  # fmt: skip


def prepare(objective: Objective, corpus: Corpus, seed: int) -> Corpus:
    """Mark words, or cut documents into the pieces that `build` expects."""
    if objective.words:
        return mark_corpus(corpus, lambda place, token: place > 0 and token % 2 == 1)
    cuts = objective.text_cuts(seed)
    if cuts is None or isinstance(cuts, TextMarks):
        return corpus
    texts = texts_of(corpus)
    letters = np.full(sum(map(len, texts.values())), ord("a"), np.uint8)
    ids = np.array(list(texts), np.uint64)
    pieces, ends = cuts(ids, letters, offsets_of(map(len, texts.values())))
    tokens = [token for text in texts.values() for token in text]
    cut = [tokens[begin:end] for begin, end in pairwise(pieces)]
    return {
        document: cut[begin:end]
        for document, (begin, end) in zip(texts, pairwise(ends), strict=True)
    }


def build(
    objective: Objective, corpus: Corpus, others: Corpus, seed: int, batch_rows: int = 1000
) -> pa.RecordBatch:
    """Return the rows of two passes as `pack` combines them."""
    pool = pool_of(prepare(objective, dict(sorted(others.items())), seed))
    prepared = prepare(objective, corpus, seed)
    with knobs(**SMALL):
        passes = [build_pass(objective, prepared, number, seed, pool) for number in range(2)]
        keyed = [add_keys(rows, seed) for rows in passes]
        empty = keyed[0].slice(0, 0)
        return pa.concat_batches([*objective.pack(sort_rows(keyed, batch_rows)), empty])


def rows_of(objective: Objective, packed: pa.RecordBatch) -> Iterator[list[int]]:
    """Yield the tokens of each row, without special tokens, and before they were masked."""
    is_corrupted = column_of(objective.columns, Role.TARGET_IDS) is not None
    first = int(packed.schema.get_field_index("denoiser") >= 0)
    for row in packed.to_pylist():
        tokens = unmask(row)
        if is_corrupted:
            tokens = restore(tokens[first:], row["labels"], SENTINELS)
        yield [token for token in tokens if token not in SPECIAL.all_ids]


def check(name: str, corpus: Corpus, others: Corpus, seed: int, batch_rows: int = 1000) -> None:
    objective = bind(WAYS[name])
    packed = build(objective, corpus, others, seed, batch_rows)
    rows, spans = rows_of(objective, packed), packed.column(SPANS.name).to_pylist()
    assert_made_of(rows, spans, texts_of(corpus, others))


@any_way
@settings(max_examples=5, deadline=None)
@given(corpora, pools, seeds, st.sampled_from([1, 3, 1000]), st.booleans())
def test_a_row_is_made_of_its_spans(
    name: str, corpus: Corpus, others: Corpus, seed: int, batch_rows: int, is_shared: bool
) -> None:
    own = renumber(corpus, BIG, 0)
    check(name, own, {**others, **own} if is_shared else others, seed, batch_rows)


@pytest.mark.parametrize("name", ["next sentence, google", "sentence order, google", "ernie"])
def test_random_segments_are_of_the_pools_documents(name: str) -> None:
    """The first token counts from the pool's document, and the id is that document's."""
    own = renumber(numbered_corpus([[3]] * 40), BIG, 0)
    others = renumber(numbered_corpus([[2, 2, 2]] * 3), 7, 10_000)
    spans = build(bind(WAYS[name]), own, others, 1).column(SPANS.name).to_pylist()
    seen = {tuple(row[3:5]) for row in spans if len(row) > 3}
    assert seen == {(document, first) for document in (7, 8, 9) for first in (0, 2, 4)}
