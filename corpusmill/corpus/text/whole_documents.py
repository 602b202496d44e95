"""Documents of a text file as they stand: each is one text, with its line breaks and white space.

Nothing is stripped, joined or written anew: a document is the bytes of its lines, without those
that are rejected.
"""

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.kernel_cache import njit
from corpusmill.corpus.batches import REJECTS_PER_BATCH, DocumentBatch, ReadCounts, text_batch
from corpusmill.corpus.options import DocumentOptions
from corpusmill.corpus.text.boundaries import Boundaries
from corpusmill.corpus.text.line_documents import (
    RangeCollector,
    last_byte,
    read_documents,
    read_with,
)
from corpusmill.corpus.text.line_kernels import (
    BLANK,
    FOREIGN,
    INVALID_UTF_8,
    NOBODYS,
    OURS,
    join_text,
)
from corpusmill.corpus.text.lines import BYTE_ORDER_MARK, LineBlock

# Columns of the texts that have ended: byte of the file, bytes of text, how many of these are the
# line break at its end that is left out, whether it is given, and whether it goes on with another.
_OFFSET, _BYTES, _BREAK, _GIVEN, _CONTINUED = range(5)


class OpenText(NamedTuple):
    """The text that the last line read belongs to, as far as it was read."""

    owner: int  # NOBODYS after a separator, OURS, or FOREIGN where another range has it
    offset: int  # byte of the file at which it starts (its last piece, where it was cut)
    text_bytes: int
    break_bytes: int  # of the last line's line break, if it is left out at the end
    has_text: bool  # other than white space
    pieces: int  # of the same document that were given before, at most 1


@njit
def measure_breaks(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.uint8],
) -> npt.NDArray[np.int64]:
    r"""Bytes of the line break at each line's end: 1 of "\n", 2 of "\r\n", 0 where a file ends.

    Args:
        data: uint8 [bytes].
        starts: int64 [n + 1] of each line, and of what follows the last one.
        lengths: int64 [n], bytes of each line without its newline.
        kinds: uint8 [n] kind of each line; of rejected ones nothing is said.
    """
    breaks = np.zeros(kinds.size, np.int64)
    for line in range(kinds.size):
        end = starts[line] + lengths[line]
        if kinds[line] < INVALID_UTF_8 and end < starts[line + 1]:
            breaks[line] = 2 if lengths[line] and data[end - 1] == 0x0D else 1
    return breaks


@njit
def group_texts(
    block_offsets: npt.NDArray[np.int64],
    line_bytes: npt.NDArray[np.int64],
    breaks: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.uint8],
    boundaries: Boundaries,
    text: OpenText,
    start: int,
    end: int,
    max_text_bytes: int,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64], OpenText]:
    """Find the texts that end among some lines, and the lines that are the range's.

    Args:
        block_offsets: int64 [n + 1], byte of the file at which each line starts.
        line_bytes: int64 [n], bytes of each line, line break included.
        breaks: int64 [n], how many of these are left out where the line ends a document.
        kinds: uint8 [n], kind of each line.
        boundaries: of documents.
        text: the one left open by the lines before.
        start: first byte of the range.
        end: byte after the range.
        max_text_bytes: a text is cut before the line that goes beyond.

    Returns:
        bool [n] whether each line is the range's; int64 [m, 5] of each text that ended its offset,
        bytes, bytes left out at its end, whether it is given (is more than white space) and whether
        another given before it was cut from the same document; the text left open.
    """
    ours = np.zeros(kinds.size, np.bool_)
    ended = np.empty((kinds.size, 5), np.int64)
    count = 0
    owner, offset, held, last_break, has_text, pieces = text
    for line in range(kinds.size):
        at = block_offsets[line]
        is_other = boundaries.separators[line] or boundaries.begins[line]
        is_kept = kinds[line] < INVALID_UTF_8 and not boundaries.separators[line]
        if held and (is_other or (is_kept and held + line_bytes[line] > max_text_bytes)):
            left_out = last_break if is_other else 0
            ended[count, _OFFSET], ended[count, _BYTES] = offset, held
            ended[count, _BREAK], ended[count, _GIVEN] = left_out, has_text
            ended[count, _CONTINUED] = pieces
            count += 1
            if has_text:
                pieces = 1
            offset, held, has_text = at, 0, False
        if is_other:
            owner, pieces = NOBODYS, 0
        in_range = start <= at < end
        if boundaries.separators[line]:
            ours[line] = in_range
            continue
        if owner == NOBODYS:
            owner, offset = OURS if in_range else FOREIGN, at
        ours[line] = owner == OURS
        if ours[line] and is_kept:
            held, last_break = held + line_bytes[line], breaks[line]
            if kinds[line] != BLANK:
                has_text = True
    return ours, ended[:count], OpenText(owner, offset, held, last_break, has_text, pieces)


class _TextCollector(RangeCollector):
    """Gathers documents that are one text each."""

    def __init__(
        self, file: str, file_index: int, start: int, end: int, options: DocumentOptions
    ) -> None:
        super().__init__(file, file_index, start, end, options)
        self._text = OpenText(NOBODYS, 0, 0, 0, False, 0)
        self._ended = [np.empty((0, 5), np.int64)]
        self._is_file = options.document_rule == "whole-file"
        # A file's own cuts are at multiples of the limit.
        self._max_text_bytes = 2**62 if self._is_file else options.max_document_bytes
        self._leaves_breaks = options.document_rule in {None, "wikitext", "blank-lines"}

    @property
    def is_open(self) -> bool:
        return self._text.owner == OURS

    def add(self, block: LineBlock, boundaries: Boundaries) -> None:
        data = np.frombuffer(block.data, np.uint8)
        bounds = block.offsets - block.offsets[0]
        starts = bounds.copy()
        if block.offsets[0] == 0 and block.data.startswith(BYTE_ORDER_MARK):
            starts[0] = len(BYTE_ORDER_MARK)
        line_bytes = bounds[1:] - starts[:-1]
        breaks = np.zeros_like(line_bytes)
        if self._leaves_breaks:
            breaks = measure_breaks(data, bounds, block.lengths, block.kinds)
        ours, ended, self._text = group_texts(
            block.offsets, line_bytes, breaks, block.kinds, boundaries, self._text,
            *self._range, self._max_text_bytes,
        )  # fmt: skip
        kept = ours & (block.kinds < INVALID_UTF_8) & ~boundaries.separators
        self._texts.append(join_text(data, starts[:-1][kept], bounds[1:][kept]))
        self._end(ended)
        self._counts += self._count_lines(block, ours)

    def _end(self, ended: npt.NDArray[np.int64]) -> None:
        given = ended[:, _GIVEN] > 0
        continued = ended[:, _OFFSET] > 0 if self._is_file else ended[:, _CONTINUED] > 0
        self._ended.append(ended)
        self._counts += ReadCounts(
            sentences=int(given.sum()),
            documents=int(given.sum()),
            cut_documents=int((given & continued).sum()),
        )

    def is_full(self, batch_bytes: int) -> bool:
        # Half the wish, as blocks arrive with as much text each.
        ended_bytes = sum(int(ended[:, _BYTES].sum()) for ended in self._ended)
        return 2 * ended_bytes >= batch_bytes or len(self.rejects) >= REJECTS_PER_BATCH

    def close(self) -> None:
        _, offset, held, last_break, has_text, pieces = self._text
        if held:
            row = offset, held, last_break, has_text, pieces
            self._end(np.array([row], np.int64))

    def take(self) -> DocumentBatch:
        ended, text = np.concatenate(self._ended), np.concatenate(self._texts)
        bounds = np.concatenate([[0], np.cumsum(ended[:, _BYTES])])
        given = ended[:, _GIVEN] > 0
        begins, ends = bounds[:-1][given], (bounds[1:] - ended[:, _BREAK])[given]
        ids = self._make_ids(ended[given, _OFFSET])
        joined = join_text(text, begins, ends)
        documents = text_batch(ids, np.ones(len(ids), np.int64), ends - begins, joined)
        self._texts, self._ended = [text[bounds[-1] :].copy()], [ended[:0]]
        return self._take_batch(documents)


def read_text(
    stream: BinaryIO,
    file: str,
    file_index: int,
    start: int,
    end: int | None,
    options: DocumentOptions,
    batch_bytes: int = 2**20,
) -> Iterator[DocumentBatch]:
    r"""Read the documents whose first byte lies in a byte range of a text file.

    As `corpusmill.corpus.text.line_documents.read_documents`, which reads those of lines. Where the
    sentence rule is "document", a document has one sentence, its text as it stands, by the document
    rule:

    - "whole-file": all of the file but a byte order mark. A file is cut before the first line that
      begins at or behind each multiple of `max_document_bytes`, whatever it holds, so that its
      ranges are read apart; the pieces one after the other are the file.
    - "wikitext-articles": from a title of the first level up to the next, titles and blank lines
      included; what stands before the first title is a document, too. The documents one after the
      other are the file.
    - "wikitext" and "blank-lines": the lines between two separators, without the line break ("\n"
      or "\r\n") of the last one.

    Lines that are rejected are left out with their line breaks. What is nothing but white space is
    no document; nor is a piece that is cut off one.
    """
    if not options.keeps_text:
        return read_documents(stream, file, file_index, start, end, options, batch_bytes)
    collector = _TextCollector(file, file_index, start, last_byte(end), options)
    return read_with(collector, stream, file, start, end, options, batch_bytes)
