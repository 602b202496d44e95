"""Checks of the spans of rows, which say of which tokens of which documents rows are made."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from corpusmill.arrays.columns import Column, Role, column_of, tokens_of
from corpusmill.objectives.columns import SPANS
from corpusmill.tokenization.special_tokens import SpecialTokens
from corpusmill.tokenization.words.word_marks import ids_of


def check_spans(
    columns: Sequence[Column],
    rows: pa.RecordBatch,
    documents: pa.RecordBatch,
    special: SpecialTokens,
    is_marked: bool,
) -> None:
    """Check that the spans of rows lie in their documents, and name the rows' tokens.

    Special tokens are left out on both sides. Masks are undone by the columns of predictions; where
    there is a column of targets, their order among the row's tokens is not checked.

    Args:
        columns: the columns of the data set.
        rows: as `pack` returns them, with the column SPANS.
        documents: all documents of which rows can be made, tokenized.
        special: the tokenizer's special tokens.
        is_marked: whether the ids of documents are marked by a word rule.

    Raises:
        AssertionError: they do not; the message says what differs.
    """
    texts = _texts_of(documents, is_marked)
    is_ordered = column_of(columns, Role.TARGET_IDS) is None
    for row in rows.to_pylist():
        spans = row[SPANS.name]
        expected = _without(special, _tokens_of(spans, texts))
        tokens = _without(special, _unmask(columns, row))
        if not is_ordered:
            expected, tokens = sorted(expected), sorted(tokens)
        assert tokens == expected, f"the tokens of a row are not those of its spans, {spans}"


def _texts_of(documents: pa.RecordBatch, is_marked: bool) -> dict[int, list[int]]:
    ids, sentences = (documents.column(name).to_pylist() for name in ("document", "sentences"))
    texts = (np.array([*chain(*own)], np.int64) for own in sentences)
    return {
        document: (ids_of(text) if is_marked else text).tolist()
        for document, text in zip(ids, texts, strict=True)
    }


def _tokens_of(spans: Sequence[int], texts: Mapping[int, Sequence[int]]) -> list[int]:
    assert len(spans) % 3 == 0, f"the spans {spans} are not three numbers each"
    tokens: list[int] = []
    following = (-1, 0)
    for document, first, length in zip(spans[::3], spans[1::3], spans[2::3], strict=True):
        assert document in texts, f"a span is of the document {document}, which does not exist"
        span = f"the span of {length} tokens from {first} on of the document {document}"
        assert length > 0, f"{span} is empty"
        assert first + length <= len(texts[document]), f"{span} ends after it"
        assert (document, first) != following, f"{span} continues the one before, and is not joined"
        following = (document, first + length)
        tokens += texts[document][first : first + length]
    return tokens


def _unmask(columns: Sequence[Column], row: Mapping[str, Any]) -> list[int]:
    """Return the tokens of a row as they were before they were masked, and those of its targets."""
    tokens = [*row[tokens_of(columns).name]]
    by_role: dict[Role, list[int]] = {
        column.role: row[column.name] for column in columns if column.name in row
    }
    pairs = zip(by_role.get(Role.POSITIONS, []), by_role.get(Role.PREDICTED_IDS, []), strict=True)
    for place, token in pairs:
        tokens[place] = token
    return tokens + by_role.get(Role.TARGET_IDS, [])


def _without(special: SpecialTokens, tokens: Sequence[int]) -> list[int]:
    return [token for token in tokens if token not in special.all_ids]
