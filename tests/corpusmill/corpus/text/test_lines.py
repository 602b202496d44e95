import io
import sys
import tracemalloc
from itertools import pairwise
from typing import BinaryIO, cast

import numpy as np

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.text.line_kernels import BLANK, SENTENCE, TITLE, TOO_LONG, scan_lines
from corpusmill.corpus.text.text_documents import read_text
from tests.tools.read_content import Content


def test_white_space_is_what_strip_strips() -> None:
    # Every character before, within and after a text; a newline would end the line.
    characters = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]
    characters.remove("\n")
    lines = [f"{c}x{c}y{c}".encode() for c in characters]
    data = b"\n".join(lines)
    starts, (ends, text_begins, text_ends), _ = scan_lines(
        np.frombuffer(data, np.uint8), 0, 100, False
    )
    assert [data[a:b] for a, b in zip(starts[:-1], ends, strict=True)] == lines
    stripped = [data[a:b].decode() for a, b in zip(text_begins, text_ends, strict=True)]
    assert stripped == [line.decode().strip() for line in lines]


def test_kinds_of_line() -> None:
    data = np.frombuffer(b"a\n\n = b = \n\xe3\x80\x80\ntoo long and\n=", np.uint8)
    starts, text, kinds = scan_lines(data, 0, 11, True)
    assert kinds.tolist() == [SENTENCE, BLANK, TITLE, BLANK, TOO_LONG, TITLE]
    assert starts.tolist() == [0, 2, 3, 11, 15, 28, 29]
    assert text[:, :3].tolist() == [[1, 2, 10], [0, 2, 4], [1, 2, 9]]
    assert scan_lines(data, 0, 11, False)[2].tolist()[2] == SENTENCE


class LongLine(io.RawIOBase):
    """The file "a\\n", one line of `length` bytes, "\\nb\\n", made as it is read."""

    def __init__(self, length: int) -> None:
        self.size, self._position, self.bytes_read = length + 5, 0, 0

    def seek(self, offset: int, whence: int = 0, /) -> int:
        assert whence == 0
        self._position = offset
        return offset

    def read(self, size: int | None = -1, /) -> bytes:
        data = bytearray(b"x") * max(0, min(size or 0, self.size - self._position))
        for place, byte in [(0, 97), (1, 10), *enumerate(b"\nb\n", self.size - 3)]:
            if self._position <= place < self._position + len(data):
                data[place - self._position] = byte
        self._position += len(data)
        self.bytes_read += len(data)
        return bytes(data)


def test_a_line_of_very_many_bytes_costs_no_memory_and_is_read_once() -> None:
    stream, options = LongLine(2**28), DocumentOptions(max_line_bytes=2**21)
    content = Content()
    list(read_text(io.BytesIO(b"compile\n"), FileRange("f", 0, options)))
    tracemalloc.start()
    for start, end in pairwise([*range(0, stream.size, 2**26), stream.size]):
        content.add(read_text(cast(BinaryIO, stream), FileRange("f", 0, options, start, end)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * 2**20
    assert content.documents == [(0, ["a", "b"])]
    assert content.places == [(2, 2**28, "line-too-long")]
    assert content.counts.bytes == stream.size
    assert stream.bytes_read < 2.5 * stream.size  # once by its document's range, once by the others
