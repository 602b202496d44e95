"""Rows of t5 as its tests make and compare them."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from corpusmill.layout.sorting import add_keys, keyed_schema, sort_rows
from corpusmill.objectives.t5 import T5, T5Options
from corpusmill.tokenization.tokenizer_file import SpecialTokens, TokenizerFile
from tests.tools.builders import Corpus, build_pass

PAD, END = 0, 1
# In no order, and among the ids of text.
MODES = {"mode_r": 32_710, "mode_s": 32_712, "mode_x": 32_711}
SENTINELS = (*range(9, 1, -1), *range(32_700, 32_100, -1))


def tokenizer(sentinels: int = len(SENTINELS), pad: int = PAD) -> TokenizerFile:
    """Return a tokenizer of 32,767 ids of which nothing but the special tokens is known."""
    known = {f"sentinel_{i}": token for i, token in enumerate(SENTINELS[:sentinels])} | MODES
    ids = {pad, END, *known.values()}
    special = SpecialTokens(
        None, None, None, pad, None, tuple(sorted(ids)), END, tuple(known.items())
    )
    return TokenizerFile("t5.json", "{}", 32_767, special, "")


def objective(**options: Any) -> T5:
    return T5Options(**options).bind(tokenizer())


def finish(
    t5: T5,
    corpus: Corpus,
    cut: int = 2**62,
    padded: bool = False,
    seed: int = 1,
) -> pa.RecordBatch:
    """Return the rows of one shard as they are written, built `cut` rows at a time."""
    packed = pack(t5, corpus, cut, seed)
    return t5.finish(packed, padded)


def pack(t5: T5, corpus: Corpus, cut: int = 2**62, seed: int = 1) -> pa.RecordBatch:
    """Return the rows of one shard before they are finished."""
    keyed = add_keys(build_pass(t5, corpus, seed=seed), seed)
    assert keyed.schema == keyed_schema(t5.built_columns)
    groups = t5.pack(iter(sort_rows([keyed], cut)))
    packed = pa.concat_batches([*groups, keyed.slice(0, 0)])
    assert packed.schema == keyed_schema(t5.built_columns)
    return packed


def texts(corpus: Corpus) -> Mapping[int, list[int]]:
    """Return the tokens of each document."""
    return {
        document: [token for sentence in sentences for token in sentence]
        for document, sentences in corpus.items()
    }
