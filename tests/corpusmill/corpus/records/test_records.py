"""Texts that are cut into sentences and documents, against plain Python."""

import re

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays import ragged
from corpusmill.corpus.records.record_documents import cut_texts, split_texts

lines = st.builds(lambda part, times: part * times,
                  st.sampled_from(["", " ", "a", "é ", "\u2028", "漢", "\r"]),
                  st.one_of(st.integers(1, 3), st.integers(30, 140)))  # fmt: skip
texts = st.lists(st.lists(lines, max_size=5).map("\n".join), max_size=6)


def split_plainly(
    content: list[str], limit: int, max_pieces: int
) -> tuple[list[bytes], list[list[int]]]:
    """Return all sentences, and text, piece and number of sentences of each document."""
    sentences, documents = [], []
    for index, text in enumerate(content):
        pieces: list[list[bytes]] = [[]]
        for line in text.split("\n"):
            if not (sentence := line.strip().encode()):
                continue
            size = sum(map(len, pieces[-1]))
            if pieces[-1] and size + len(sentence) > limit and len(pieces) < max_pieces:
                pieces.append([])
            pieces[-1].append(sentence)
        sentences += [sentence for piece in pieces for sentence in piece]
        documents += [[index, place, len(piece)] for place, piece in enumerate(pieces) if piece]
    return sentences, documents


@given(texts, st.integers(0, 3), st.integers(1, 400), st.sampled_from([1, 2, 2**62]))
def test_texts_are_split_as_in_plain_python(
    content: list[str], skipped: int, limit: int, max_pieces: int
) -> None:
    # In a slice, the first text does not begin at the buffer's start.
    text, offsets = ragged.from_arrow(pa.array(content, pa.large_string())[skipped:])
    begins, ends, documents = split_texts(text, offsets, limit, max_pieces)
    sentences = [text[begin:end].tobytes() for begin, end in zip(begins, ends, strict=True)]
    assert (sentences, documents.tolist()) == split_plainly(content[skipped:], limit, max_pieces)


def test_empty_texts_have_no_sentence() -> None:
    begins, ends, documents = split_texts(np.empty(0, np.uint8), np.zeros(3, np.int64), 9, 9)
    assert (begins.size, ends.size, documents.shape) == (0, 0, (0, 3))


def cut_plainly(text: str, limit: int, max_pieces: int) -> list[bytes]:
    """Cut a text into pieces; leave out those of white space."""
    lines = re.findall(rb"[^\n]*\n|[^\n]+", text.encode())
    pieces: list[bytes] = []
    piece = b""
    for line in lines:
        if piece and len(piece + line) > limit and len(pieces) + 1 < max_pieces:
            pieces += [piece] if piece.decode().strip() else []
            piece = b""
        piece += line
    return pieces + ([piece] if piece.decode().strip() else [])


@given(texts, st.integers(0, 3), st.integers(1, 400), st.sampled_from([1, 2, 2**62]))
def test_whole_texts_are_cut_as_in_plain_python(
    content: list[str], skipped: int, limit: int, max_pieces: int
) -> None:
    text, offsets = ragged.from_arrow(pa.array(content, pa.large_string())[skipped:])
    begins, ends, documents = cut_texts(text, offsets, limit, max_pieces)
    expected = [cut_plainly(one, limit, max_pieces) for one in content[skipped:]]
    assert [text[begin:end].tobytes() for begin, end in zip(begins, ends, strict=True)] == [
        piece for pieces in expected for piece in pieces
    ]
    assert documents.tolist() == [
        [index, place, 1] for index, pieces in enumerate(expected) for place in range(len(pieces))
    ]
