"""The compiled loops against plain Python, for lengths around that of a vector."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.corpus.text.line_kernels import (
    BLANK,
    SENTENCE,
    find_invalid_utf_8,
    find_newline,
    join_text,
    scan_lines,
)

# Runs as long as a vector and longer, of bytes that are and are not at the ends of lines.
runs = st.builds(
    lambda part, times: part * times,
    st.sampled_from([b"\n", b" ", b"a", b"\xc2\xa0", b"\xe2\x80\xa8", b"\xff", b"\x7f"]),
    st.one_of(st.integers(1, 3), st.integers(60, 140)),
)
buffers = st.lists(runs, max_size=12).map(b"".join)


@given(buffers, st.integers(0, 400), st.integers(0, 400))
def test_a_newline_is_found_where_bytes_find_it(data: bytes, start: int, length: int) -> None:
    start = min(start, len(data))
    end = min(start + length, len(data))
    newline = data.find(b"\n", start, end)
    expected = end if newline < 0 else newline
    assert find_newline(np.frombuffer(data, np.uint8), start, end) == expected


@given(buffers)
def test_lines_of_any_length_are_those_of_split(data: bytes) -> None:
    starts, (ends, begins, stops), kinds = scan_lines(np.frombuffer(data, np.uint8), 0, 2**20, True)
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    assert [data[a:b] for a, b in zip(starts[:-1], ends, strict=True)] == lines
    assert starts[-1] == len(data)
    stripped = [line.decode("utf-8", "surrogateescape").strip() for line in lines]
    assert [
        data[a:b].decode("utf-8", "surrogateescape") for a, b in zip(begins, stops, strict=True)
    ] == stripped
    assert kinds.tolist() == [SENTENCE if text else BLANK for text in stripped]


@given(buffers, st.lists(st.tuples(st.integers(0, 300), st.integers(0, 200)), max_size=8))
def test_pieces_are_joined_in_order(data: bytes, places: list[tuple[int, int]]) -> None:
    pieces = [slice(min(start, len(data)), min(start + size, len(data))) for start, size in places]
    begins = np.array([piece.start for piece in pieces], np.int64)
    ends = np.array([piece.stop for piece in pieces], np.int64)
    joined = join_text(np.frombuffer(data, np.uint8), begins, ends)
    assert joined.tobytes() == b"".join(data[piece] for piece in pieces)


def test_bytes_are_utf_8_where_python_decodes_them() -> None:
    edges = (
        0x00,
        0x7F,
        0x80,
        0x90,
        0x9F,
        0xA0,
        0xBF,
        0xC1,
        0xC2,
        0xE0,
        0xE1,
        0xED,
        0xF0,
        0xF4,
        0xF5,
    )
    pieces = [bytes(some) for n in range(5) for some in itertools.product(edges, repeat=n)]
    ends = np.cumsum([len(piece) for piece in pieces])
    begins = ends - [len(piece) for piece in pieces]
    data = np.frombuffer(b"".join(pieces) + b"\x80\x80\x80", np.uint8)
    found = find_invalid_utf_8(data, begins, ends)
    assert found.tolist() == [piece.decode(errors="ignore").encode() != piece for piece in pieces]
