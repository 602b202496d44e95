"""The objective gpt, from documents to written rows."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.columns import IDENTITY_SCHEMA, NO_PAD
from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import resolve
from corpusmill.layout.sorting import add_keys, cut_into_groups, keyed_schema, sort_rows
from corpusmill.objectives.gpt import Gpt, GptOptions
from corpusmill.tokenization.tokenizer_file import SpecialTokens, TokenizerFile
from tests.corpusmill.objectives import reference_gpt
from tests.tools.builders import (
    Corpus,
    batch_of,
    build_pass,
    corpora,
    numbered_corpus,
)
from tests.tools.knobs import knobs

END, PAD = 7, 0
SPECIAL = SpecialTokens(
    cls_id=None, sep_id=None, mask_id=None, pad_id=PAD, unk_id=None, all_ids=(PAD, END), eos_id=END
)


def objective(**options: Any) -> Gpt:
    return Gpt(GptOptions(**options), SPECIAL, "int16")


def finish(
    gpt: Gpt,
    corpus: Corpus,
    cut: int = 2**62,
    padded: bool = False,
) -> pa.RecordBatch:
    """Return the rows of one shard as they are written, built `cut` rows at a time."""
    keyed = add_keys(build_pass(gpt, corpus), 1)
    assert keyed.schema == keyed_schema(gpt.built_columns)
    rows: Iterator[pa.RecordBatch] = sort_rows([keyed], cut)
    packed = pa.concat_batches([*gpt.pack(rows), keyed.slice(0, 0)])
    assert packed.schema == keyed_schema(gpt.built_columns)
    return gpt.finish(packed, padded)


def texts(corpus: Corpus, ended: bool) -> list[list[int]]:
    joined = [list(chain(*sentences)) for sentences in corpus.values()]
    return [[*tokens, END] if ended else tokens for tokens in joined]


@given(corpora)
def test_the_rows_of_a_stream_are_documents_that_end(corpus: Corpus) -> None:
    built = build_pass(objective(mode="stream"), corpus)
    assert built.schema.names == [*IDENTITY_SCHEMA.names, "input_ids", "spans"]
    assert built.column("document").to_pylist() == list(corpus)
    assert built.column("input_ids").to_pylist() == texts(corpus, ended=True)
    assert built.column("index").to_pylist() == [0] * len(corpus)


@given(corpora, st.booleans())
def test_windows_are_the_articles(corpus: Corpus, ended: bool) -> None:
    gpt = objective(mode="windows", max_seq_length=8, overlap=3, end_of_text=ended)
    expected = [
        (document, index, window)
        for document, tokens in zip(corpus, texts(corpus, ended), strict=True)
        for index, window in enumerate(reference_gpt.windows(tokens, 8, 3))
    ]
    built = build_pass(gpt, corpus)
    names = ("document", "index", "input_ids")
    columns = [built.column(name).to_pylist() for name in names]
    assert list(zip(*columns, strict=True)) == expected
    cut_documents = sum(index == 1 for _, index, _ in expected)
    counts = {"trimmed_tokens": 0, "cut_documents": cut_documents}
    assert gpt.count(batch_of(corpus), built) == counts


@given(corpora, st.sampled_from([13, 20, 40]))
def test_packed_rows_hold_whole_documents(corpus: Corpus, length: int) -> None:
    rows = finish(objective(mode="pack", max_seq_length=length), corpus).to_pylist()
    pieces = [
        row["input_ids"][begin:end]
        for row in rows
        for begin, end in zip(row["cu_seqlens"], row["cu_seqlens"][1:], strict=False)
    ]
    documents = texts(corpus, ended=True)
    cut = [tokens[i : i + length] for tokens in documents for i in range(0, len(tokens), length)]
    assert sorted(pieces) == sorted(cut)
    assert all(row["cu_seqlens"][0] == 0 for row in rows)
    assert all(row["cu_seqlens"][-1] == len(row["input_ids"]) <= length for row in rows)
    used = sorted(len(row["input_ids"]) for row in rows)
    assert used == reference_gpt.best_fit(list(map(len, cut)), length)


def test_a_row_is_packed_in_the_order_of_the_shard() -> None:
    """The order of documents is as random as their keys, whatever their lengths."""
    gpt = objective(mode="pack", max_seq_length=1000)
    corpus = numbered_corpus([[length] for length in range(1, 30)])
    [row] = finish(gpt, corpus).column("input_ids").to_pylist()
    keyed = pa.concat_batches(sort_rows([add_keys(build_pass(gpt, corpus), 1)], 1000))
    assert row == [token for tokens in keyed.column("input_ids").to_pylist() for token in tokens]


def test_a_long_shard_is_packed_in_windows() -> None:
    """Windows of 64 tokens do not depend on batches."""
    gpt = objective(mode="pack", max_seq_length=16)
    corpus = numbered_corpus([[1 + document * 7 % 23] for document in range(60)])
    for tokens, most_tokens in ((64, 64), (64, 1), (2, 64)):
        with knobs(packed_tokens=tokens, most_packed_tokens=most_tokens):
            written = finish(gpt, corpus, 7)
            assert written == finish(gpt, corpus, 1000)
    keyed = pa.concat_batches(sort_rows([add_keys(build_pass(gpt, corpus), 1)], 1000))
    windows = list(cut_into_groups([keyed], "input_ids", 64, 64))
    assert len(windows) > 5
    expected = [pa.concat_batches(gpt.pack(iter([window]))) for window in windows]
    assert written == gpt.finish(pa.concat_batches(expected), padded=False)


def test_padded_packs_fill_the_rows_and_the_marks() -> None:
    gpt = objective(mode="pack", max_seq_length=6)
    rows = finish(gpt, {1: [[11]], 2: [[12, 13]]}, padded=True).to_pylist()
    assert [sorted(row["input_ids"]) for row in rows] == [[0, 7, 7, 11, 12, 13]]
    assert rows[0]["cu_seqlens"] in [[0, 2, 5, 0, 0, 0, 0], [0, 3, 5, 0, 0, 0, 0]]


def test_rows_are_filled_with_a_token_of_its_own() -> None:
    """A row that ends with the end-of-text token would look like a padded one."""
    assert objective(mode="windows").columns[0].pad == PAD
    padded = OutputOptions(padding="max_length")
    for pad in (END, None):
        special = SpecialTokens(None, None, None, pad, None, (END,), END)
        [column] = Gpt(GptOptions(mode="windows"), special, "int16").columns
        assert column.pad == NO_PAD
        with pytest.raises(UserError, match="no padding token to fill input_ids with"):
            resolve(padded, (column,))
    with pytest.raises(UserError, match="rows of input_ids have no maximum length"):
        resolve(padded, objective(mode="stream").columns)


def test_a_tokenizer_without_an_end_of_text_is_refused_where_documents_end(
    tokenizer: TokenizerFile,
) -> None:
    with pytest.raises(UserError, match="endoftext"):
        GptOptions().bind(tokenizer)
    assert GptOptions(mode="windows").bind(tokenizer).name == "gpt"
    assert GptOptions(end_of_text=False).bind(tokenizer).repeats == 1
