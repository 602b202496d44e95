"""The lines of a stream, block by block: where their text is, and of which kind they are.

A line ends at a newline byte and nowhere else. Its text is what Python's `str.strip` leaves, found
in UTF-8 without decoding; a compiled loop (line_kernels.py) does so for a megabyte at a time.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.corpus.batches import (
    BATCH_BYTES,
    Collector,
    DocumentBatch,
    FileRange,
    ReadCounts,
    Reject,
)
from corpusmill.corpus.decompression import DamagedStreamError, read_fully
from corpusmill.corpus.text.line_kernels import (
    BLANK,
    INVALID_UTF_8,
    SENTENCE,
    TITLE,
    TOO_LONG,
    find_invalid_utf_8,
    measure_breaks,
    scan_lines,
)
from corpusmill.knobs import knob

BLOCK_LINES = knob("block_lines", 2**16, test=125)
"""The lines of a block of text; a block of more, which are short or blank, is divided."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_Block = TypeVar("_Block")


@dataclass(frozen=True)
class LineBlock:
    """n lines that follow each other in a file.

    Attributes:
        data: the lines' bytes, and perhaps more after them; empty for a line that was skipped.
        offsets: int64[n + 1], the byte of the file at which each line starts, and at which the
            line after the last one will. With n = 0, the start of an incomplete line, or a byte
            in it.
        lengths: int64[n], bytes of each line without its newline.
        begins: int64[n], where the stripped text of each line begins in data.
        ends: int64[n], where it ends.
        kinds: uint8[n], BLANK, TITLE, SENTENCE, INVALID_UTF_8 or TOO_LONG.
    """

    data: bytes
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.uint8]

    @property
    def view(self) -> npt.NDArray[np.uint8]:
        """The data as uint8[bytes]."""
        return np.frombuffer(self.data, np.uint8)

    def whole_lines(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return int64[n] begins and ends in data of whole lines, without a byte order mark."""
        bounds = self.offsets - self.offsets[0]
        begins = bounds[:-1].copy()
        if self.offsets[0] == 0 and self.data.startswith(BYTE_ORDER_MARK):
            begins[0] = len(BYTE_ORDER_MARK)
        return begins, bounds[1:]

    def line_breaks(self) -> npt.NDArray[np.int64]:
        """Return int64[n], the bytes of each line's line break; 0 for lines that are rejects."""
        breaks: npt.NDArray[np.int64] = measure_breaks(
            self.view, self.offsets - self.offsets[0], self.lengths, self.kinds
        )
        return breaks


def is_utf_8(data: bytes, count: int) -> bool:
    """Whether the first count bytes of a buffer are UTF-8, by Arrow's vectorised check."""
    offsets = pa.py_buffer(np.array([0, count], np.int64))
    text = pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(data)])
    return are_utf_8(text)


def are_utf_8(texts: pa.Array) -> bool:
    """Whether all texts of pa.large_string, which may come from bytes, are UTF-8."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


class LineReader:
    """Cuts a range of a stream into blocks of whole lines, holding no line that is too long.

    It starts with the line before the range, as that one tells whether a document of another range
    continues, and does not stop at the end of the range.

    Args:
        stream: the file's bytes, decompressed; sought in only to read a part of the file.
        part: the range.
        titles: whether a text that starts with "=" is a title.
        check_utf_8: whether to look for lines that are INVALID_UTF_8. If not, they are SENTENCE,
            for callers whose next step detects them anyway.
        check_titles: whether to look for such lines among titles, too, for callers that keep
            titles.

    Attributes:
        position: byte of the file up to which the stream was read.
    """

    def __init__(
        self,
        stream: BinaryIO,
        part: FileRange,
        titles: bool = False,
        check_utf_8: bool = True,
        check_titles: bool = False,
    ) -> None:
        self.position = 0
        self._stream, self._part = stream, part
        self._max_line_bytes = part.options.max_line_bytes
        self._titles, self._check_utf_8 = titles, check_utf_8
        self._checked = (TITLE, SENTENCE) if check_titles else (SENTENCE,)

    def __iter__(self) -> Iterator[LineBlock]:
        rest = (yield from self._skip_long_line(0)) if self._seek_start() else b""
        # Reading as much again as is left over keeps the work linear where lines are long.
        while block := self._read(size := max(BATCH_BYTES, len(rest))):
            data = rest + block
            if len(block) < size and self._part.end is not None:
                # A plain file is at its end: its last line is no block of its own, as that takes as
                # long as all of a small file. Of a compressed one, what was read comes first.
                more = self._read(1)
                data += more
                if not more:
                    yield from _split_block(self._scan(data, len(data)))
                    return
            rest = yield from self._whole_lines(data)
            if len(rest) > self._max_line_bytes:
                rest = yield from self._skip_long_line(len(rest))
        if rest:
            yield self._scan(rest, len(rest))

    def _seek_start(self) -> bool:
        """Move to the line before the range; return whether that is within a line too long."""
        start, in_long_line = self._part.start, False
        if start:
            limit = self._max_line_bytes
            self.position, in_long_line = seek_line_before(self._stream, start, limit)
        elif self._part.end is not None:
            self._stream.seek(0)
        return in_long_line

    def _read(self, size: int) -> bytes:
        block = self._stream.read(size)
        self.position += len(block)
        return block

    def _whole_lines(self, data: bytes) -> Generator[LineBlock, None, bytes]:
        """Yield the complete lines of data; return the rest."""
        whole = data.rfind(b"\n") + 1
        if whole:
            yield from _split_block(self._scan(data, whole))
        return data[whole:]

    def _scan(self, data: bytes, count: int) -> LineBlock:
        """Find the lines of data[:count], where data ends at the stream's position."""
        base = self.position - len(data)
        marked = base == 0 and data.startswith(BYTE_ORDER_MARK)
        skip = len(BYTE_ORDER_MARK) if marked else 0
        view = np.frombuffer(data, np.uint8, count)
        starts, text, kinds = scan_lines(view, skip, self._max_line_bytes, self._titles)
        if self._check_utf_8 and not is_utf_8(data, count):
            checked = np.flatnonzero(np.isin(kinds, self._checked))
            invalid = find_invalid_utf_8(view, text[1, checked], text[2, checked])
            kinds[checked[invalid]] = INVALID_UTF_8
        return LineBlock(data, base + starts, text[0] - starts[:-1], text[1], text[2], kinds)

    def _skip_long_line(self, seen: int) -> Generator[LineBlock, None, bytes]:
        """Read to the end of a line of which some bytes were read; yield it without its bytes.

        An empty block after each read lets the reader of a range stop within the line, if it
        started before the range (so that nothing of it was seen before).
        """
        start = self.position - seen
        while block := self._read(BATCH_BYTES):
            end = block.find(b"\n")
            if end >= 0:
                after = self.position - len(block) + end + 1
                yield _without_bytes([start, after], [after - 1 - start])
                return (yield from self._whole_lines(block[end + 1 :]))
            yield _without_bytes([start if seen else self.position], [])
        yield _without_bytes([start, self.position], [self.position - start])
        return b""


def _split_block(block: LineBlock) -> Iterator[LineBlock]:
    """Yield blocks with a bounded number of lines: each may become an object, such as a reject."""
    if len(block.kinds) <= BLOCK_LINES:
        yield block
        return
    for first in range(0, len(block.kinds), BLOCK_LINES):
        lines = slice(first, first + BLOCK_LINES)
        offsets = block.offsets[first : first + BLOCK_LINES + 1]
        begin, end = (offsets[[0, -1]] - block.offsets[0]).tolist()
        yield LineBlock(
            block.data[begin:end], offsets, block.lengths[lines], block.begins[lines] - begin,
            block.ends[lines] - begin, block.kinds[lines],
        )  # fmt: skip


def _without_bytes(offsets: list[int], lengths: list[int]) -> LineBlock:
    """Make a block of lines that are too long to be held."""
    nowhere = np.zeros(len(lengths), np.int64)
    kinds = np.full(len(lengths), TOO_LONG, np.uint8)
    return LineBlock(
        b"", np.array(offsets, np.int64), np.array(lengths, np.int64), nowhere, nowhere, kinds
    )


class SupportsPosition(Protocol):
    """A reader that knows the byte of the file up to which it has read."""

    position: int


def collect_lines(
    lines: SupportsPosition,
    blocks: Iterable[_Block],
    add: Callable[[_Block], bool],
    collector: Collector,
) -> Iterator[DocumentBatch]:
    """Read a range of lines, or of records, into batches; damage ends the file with a reject.

    Args:
        lines: the range.
        blocks: the lines themselves, or what was made of them.
        add: adds a block to the collector; returns whether more of the range may follow.
        collector: gathers the documents.

    Yields:
        At least one batch.
    """
    try:
        for block in blocks:
            if not add(block):
                break
            if collector.is_full:
                yield collector.take()
    except DamagedStreamError as damage:
        collector.refuse(lines.position, -1, "damaged-compression", str(damage))
        collector.counts += ReadCounts(unfinished_files=1)
    collector.close()
    yield collector.take()


def seek_line_before(stream: BinaryIO, start: int, max_line_bytes: int) -> tuple[int, bool]:
    """Move a seekable stream to the first byte of the line that holds the byte before start.

    Looks back in windows that double, and no further than shows that the line is too long.

    Returns:
        The new position of the stream, and whether it lies within a line that is too long (it is
        start - 1 then, so that the line's end is still found).
    """
    window, farthest = min(4096, max_line_bytes + 2), min(start, max_line_bytes + 2)
    while True:
        window = min(window, farthest)
        stream.seek(start - window)
        newline = read_fully(stream, window)[: window - 1].rfind(b"\n")
        if newline >= 0 or window == farthest:
            break
        window *= 2
    in_long_line = newline < 0 and window < start
    position = start - 1 if in_long_line else start - window + newline + 1
    stream.seek(position)
    return position, in_long_line


def reject_line(part: FileRange, block: LineBlock, line: int) -> Reject:
    """Make the reject for a line that is TOO_LONG or, if it is of another kind, not UTF-8.

    Args:
        part: the range that is read.
        block: the lines.
        line: index of the line in the block.
    """
    offset, length = int(block.offsets[line]), int(block.lengths[line])
    if block.kinds[line] == TOO_LONG:
        detail = f"{length} bytes, above --max-line-bytes {part.options.max_line_bytes}"
        return part.reject(offset, length, "line-too-long", detail)
    begin = offset - int(block.offsets[0])
    detail = explain_utf_8(block.data[begin : begin + length])
    return part.reject(offset, length, "invalid-utf-8", detail)


def explain_utf_8(data: bytes | pa.Buffer) -> str:
    """Return why bytes are not UTF-8; the text itself if they are."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        return str(error)


def count_lines(collector: Collector, block: LineBlock, ours: npt.NDArray[np.bool_]) -> None:
    """Count those lines of a block that are the range's, and refuse the bad ones.

    Args:
        collector: receives the counts and the rejects.
        block: n lines.
        ours: bool[n], whether each is the range's.
    """
    refused = np.flatnonzero(ours & (block.kinds >= INVALID_UTF_8))
    refuse_lines(collector, block, refused)
    kinds = np.bincount(block.kinds[ours], minlength=3)
    collector.counts += ReadCounts(
        bytes=int(np.diff(block.offsets)[ours].sum()),
        lines=int(ours.sum()),
        blank_lines=int(kinds[BLANK]),
        title_lines=int(kinds[TITLE]),
        sentence_lines=int(kinds[SENTENCE]),
        rejected_lines=len(refused),
    )


def refuse_lines(collector: Collector, block: LineBlock, lines: npt.NDArray[np.int64]) -> None:
    """Refuse lines that are TOO_LONG or, if they are of another kind, not UTF-8.

    Args:
        collector: receives the rejects and their bytes.
        block: the lines.
        lines: int64[n], their indices in the block, ascending.
    """
    if not len(lines):
        return
    is_long = block.kinds[lines] == TOO_LONG
    for alike in (lines[is_long], lines[~is_long]):
        if len(alike):
            reason = reject_line(collector.part, block, int(alike[0])).reason
            explain = partial(_explain, collector.part, block, alike)
            collector.refuse_many(block.offsets[alike], block.lengths[alike], reason, explain)
    collector.counts += ReadCounts(rejected_bytes=int(np.diff(block.offsets)[lines].sum()))


def _explain(part: FileRange, block: LineBlock, lines: npt.NDArray[np.int64], index: int) -> str:
    return reject_line(part, block, int(lines[index])).detail
