"""The lines of a stream, block by block: where their text is, and of which kind they are.

Lines end at a newline byte alone. Their text is what Python's `str.strip` leaves, found in UTF-8
without decoding; a compiled loop (scanning.py) does so for a megabyte at a time.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.corpus.batches import Reject
from corpusmill.corpus.text.line_kernels import INVALID_UTF_8, SENTENCE, TITLE, TOO_LONG, scan_lines

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class LineBlock:
    """n lines that follow each other in a file.

    Attributes:
        data: the lines' bytes, and maybe more behind them; empty for a line that was streamed past.
        offsets: int64 [n + 1], the byte of the file at which each line starts, and at which the
            line after the last one will; with n = 0 the start of a line not yet whole, or
            a byte in it.
        lengths: int64 [n], bytes of each line without its newline.
        begins: int64 [n], where the stripped text of each line begins in data.
        ends: int64 [n], and where it ends.
        kinds: uint8 [n], BLANK, TITLE, SENTENCE, INVALID_UTF_8 or TOO_LONG.
    """

    data: bytes
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.uint8]


def is_utf_8(data: bytes, count: int) -> bool:
    """Whether the first count bytes of a buffer are UTF-8, by Arrow's vectorised check."""
    offsets = pa.py_buffer(np.array([0, count], np.int64))
    text = pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(data)])
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def reject_line(file: str, block: LineBlock, line: int, max_line_bytes: int) -> Reject:
    """What is said of a line that is TOO_LONG or, of any other kind, not UTF-8.

    Args:
        file: path of the file.
        block: that the line is of.
        line: its place there.
        max_line_bytes: the limit that a line beyond it is above.
    """
    offset, length = int(block.offsets[line]), int(block.lengths[line])
    if block.kinds[line] == TOO_LONG:
        detail = f"{length} bytes, above --max-line-bytes {max_line_bytes}"
        return Reject(file, offset, length, "line-too-long", detail)
    begin = offset - int(block.offsets[0])
    try:
        detail = str(block.data[begin : begin + length], "utf-8")
    except UnicodeDecodeError as error:
        detail = str(error)
    return Reject(file, offset, length, "invalid-utf-8", detail)


class LineReader:
    """Cuts a stream into blocks of whole lines, holding no line that is too long.

    Args:
        stream: read forward only.
        position: byte of the file at which the stream stands.
        in_long_line: whether that byte lies in a line already known to be too long.
        block_bytes: how much is read at a time.
        max_line_bytes: a longer line is streamed past, and given as TOO_LONG without its bytes.
        titles: whether a text that starts with "=" is a title.
        check_utf_8: whether to look for lines that are INVALID_UTF_8. If not, they are given as
            SENTENCE, for callers whose next step finds them anyway.
        check_titles: whether to look for them among titles, too, for callers that keep these.

    Attributes:
        position: byte of the file up to which the stream was read.
    """

    def __init__(
        self,
        stream: BinaryIO,
        position: int,
        in_long_line: bool,
        block_bytes: int,
        max_line_bytes: int,
        titles: bool,
        check_utf_8: bool = True,
        check_titles: bool = False,
    ) -> None:
        self.position = position
        self._stream = stream
        self._in_long_line = in_long_line
        self._block_bytes = block_bytes
        self._max_line_bytes = max_line_bytes
        self._titles = titles
        self._check_utf_8 = check_utf_8
        self._checked = (TITLE, SENTENCE) if check_titles else (SENTENCE,)

    def __iter__(self) -> Iterator[LineBlock]:
        rest = (yield from self._pass_long_line(0)) if self._in_long_line else b""
        # Reading as much again as is left over keeps the work linear where lines are long.
        while block := self._read(max(self._block_bytes, len(rest))):
            rest = yield from self._whole_lines(rest + block)
            if len(rest) > self._max_line_bytes:
                rest = yield from self._pass_long_line(len(rest))
        if rest:
            yield self._scan(rest, len(rest))

    def _read(self, size: int) -> bytes:
        block = self._stream.read(size)
        self.position += len(block)
        return block

    def _whole_lines(self, data: bytes) -> Generator[LineBlock, None, bytes]:
        """Yield the lines of data that have ended; return what is left of it."""
        whole = data.rfind(b"\n") + 1
        if whole:
            yield self._scan(data, whole)
        return data[whole:]

    def _scan(self, data: bytes, count: int) -> LineBlock:
        """The lines of data[:count], where data ends at the stream's position."""
        base = self.position - len(data)
        marked = base == 0 and data.startswith(BYTE_ORDER_MARK)
        skip = len(BYTE_ORDER_MARK) if marked else 0
        view = np.frombuffer(data, np.uint8, count)
        starts, text, kinds = scan_lines(view, skip, self._max_line_bytes, self._titles)
        if self._check_utf_8 and not is_utf_8(data, count):
            for line in np.flatnonzero(np.isin(kinds, self._checked)):
                sentence = data[text[1, line] : text[2, line]]
                if not is_utf_8(sentence, len(sentence)):
                    kinds[line] = INVALID_UTF_8
        return LineBlock(data, base + starts, text[0] - starts[:-1], text[1], text[2], kinds)

    def _pass_long_line(self, seen: int) -> Generator[LineBlock, None, bytes]:
        """Read to the end of a line of which some bytes were read; yield it without its bytes.

        An empty block after each read lets the reader of a range stop within the line, where it
        started before the range (nothing was seen of it before).
        """
        start = self.position - seen
        while block := self._read(self._block_bytes):
            end = block.find(b"\n")
            if end >= 0:
                after = self.position - len(block) + end + 1
                yield _without_bytes([start, after], [after - 1 - start])
                return (yield from self._whole_lines(block[end + 1 :]))
            yield _without_bytes([start if seen else self.position], [])
        yield _without_bytes([start, self.position], [self.position - start])
        return b""


def _without_bytes(offsets: list[int], lengths: list[int]) -> LineBlock:
    """A block of lines too long to be held."""
    nowhere = np.zeros(len(lengths), np.int64)
    kinds = np.full(len(lengths), TOO_LONG, np.uint8)
    return LineBlock(
        b"", np.array(offsets, np.int64), np.array(lengths, np.int64), nowhere, nowhere, kinds
    )


def seek_line_before(stream: BinaryIO, start: int, max_line_bytes: int) -> tuple[int, bool]:
    """Move a seekable stream to the first byte of the line that holds the byte before start.

    Looks back in windows that double, no further than shows that the line is too long.

    Returns:
        The position that the stream now has, and whether that lies within a line that is too long
        (it is start - 1 then, so that the line's end is still found).
    """
    window, farthest = min(4096, max_line_bytes + 2), min(start, max_line_bytes + 2)
    while True:
        window = min(window, farthest)
        stream.seek(start - window)
        newline = _read_fully(stream, window)[: window - 1].rfind(b"\n")
        if newline >= 0 or window == farthest:
            break
        window *= 2
    in_long_line = newline < 0 and window < start
    position = start - 1 if in_long_line else start - window + newline + 1
    stream.seek(position)
    return position, in_long_line


def _read_fully(stream: BinaryIO, size: int) -> bytes:
    """The next bytes of a stream whose single reads may be short."""
    parts = []
    while size > 0 and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
