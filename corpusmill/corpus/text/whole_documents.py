"""Documents that are one text each, as it stands, with its line breaks and white space.

Nothing is stripped, joined or rewritten: a document is the bytes of its lines, without those that
are rejected.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.kernel_cache import njit
from corpusmill.corpus.batches import DocumentBatch, ReadCounts, text_batch
from corpusmill.corpus.collector import Collector
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.text.boundaries import Boundaries, BoundedLines
from corpusmill.corpus.text.line_kernels import (
    BLANK,
    FOREIGN,
    INVALID_UTF_8,
    NOBODYS,
    OURS,
    join_text,
)
from corpusmill.corpus.text.lines import count_lines

# Columns of texts that have ended: byte of the file, bytes of text, how many of these are a line
# break at its end that is left out, whether the text is a document (is more than white space), and
# whether it continues another piece of the same document.
_OFFSET, _BYTES, _BREAK, _HAS_TEXT, _CONTINUES = range(5)


class OpenText(NamedTuple):
    """The text that the last line belongs to, as far as it was read.

    Attributes:
        owner: NOBODYS after a separator, OURS, or FOREIGN if another range reads it.
        offset: byte of the file at which it starts, or its last piece if it was cut.
        text_bytes: bytes of its lines.
        break_bytes: bytes of the last line's line break, if it is left out at the end.
        has_text: whether there is more than white space.
        continues: 1 if a piece of the same document has text and has ended, else 0.
    """

    owner: int
    offset: int
    text_bytes: int
    break_bytes: int
    has_text: bool
    continues: int


@njit
def group_texts(
    block_offsets: npt.NDArray[np.int64],
    line_bytes: npt.NDArray[np.int64],
    breaks: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.uint8],
    boundaries: Boundaries,
    text: OpenText,
    limits: tuple[int, int],
    max_text_bytes: int,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64], OpenText]:
    """Find the texts that end among some lines, and the lines that are the range's.

    Args:
        block_offsets: int64[n + 1], byte of the file at which each line starts.
        line_bytes: int64[n], bytes of each line, line break included.
        breaks: int64[n], how many of these are left out where the line ends a document.
        kinds: uint8[n], kind of each line.
        boundaries: of documents.
        text: the one that the lines before left open.
        limits: first byte of the range, and the byte after it.
        max_text_bytes: a text is cut before the line that would exceed this.

    Returns:
        ours: bool[n], whether each line is the range's.
        ended: int64[m, 5], for each text that ended its offset, its bytes, the bytes left out at
            its end, whether it is more than white space, and whether it continues another piece.
        text: the one that is left open.
    """
    ours = np.zeros(kinds.size, np.bool_)
    ended = np.empty((kinds.size, 5), np.int64)
    count = 0
    owner, offset, text_bytes, last_break, has_text, continues = text
    for line in range(kinds.size):
        position = block_offsets[line]
        is_other = boundaries.separators[line] or boundaries.begins[line]
        is_kept = kinds[line] < INVALID_UTF_8 and not boundaries.separators[line]
        is_full = is_kept and text_bytes + line_bytes[line] > max_text_bytes
        if text_bytes and (is_other or is_full):
            left_out = last_break if is_other else 0
            ended[count] = offset, text_bytes, left_out, int(has_text), continues
            count, continues = count + 1, continues | int(has_text)
            offset, text_bytes, has_text = position, 0, False
        if is_other:
            owner, continues = NOBODYS, 0
        in_range = limits[0] <= position < limits[1]
        if boundaries.separators[line]:
            ours[line] = in_range
            continue
        if owner == NOBODYS:
            owner, offset = OURS if in_range else FOREIGN, position
        ours[line] = owner == OURS
        if ours[line] and is_kept:
            text_bytes, last_break = text_bytes + line_bytes[line], breaks[line]
            if kinds[line] != BLANK:
                has_text = True
    return ours, ended[:count], OpenText(owner, offset, text_bytes, last_break, has_text, continues)


class WholeDocuments(Collector):
    """Gathers documents that are one text each.

    Args:
        part: the range.
    """

    # Half a batch is enough, as each block of lines has as much text as a whole one.
    enough = 0.5

    def __init__(self, part: FileRange) -> None:
        super().__init__(part)
        rule = part.options.document_rule
        self._open = OpenText(NOBODYS, 0, 0, 0, False, 0)
        self._texts = [np.empty(0, np.uint8)]
        self._ended = [np.empty((0, 5), np.int64)]
        self._is_file = rule == "whole-file"
        # A whole file is cut at multiples of the limit, which are boundaries.
        self._max_text_bytes = 2**62 if self._is_file else part.options.max_document_bytes
        self._leaves_breaks = rule in {None, "wikitext", "blank-lines"}

    def add(self, lines: BoundedLines) -> bool:
        """Add the lines that are the range's; return whether more of them may follow."""
        block, boundaries = lines
        begins, ends = block.whole_lines()
        breaks = np.zeros_like(begins)
        if self._leaves_breaks:
            breaks = block.line_breaks()
        ours, ended, self._open = group_texts(
            block.offsets, ends - begins, breaks, block.kinds, boundaries, self._open,
            self.part.limits, self._max_text_bytes,
        )  # fmt: skip
        kept = ours & (block.kinds < INVALID_UTF_8) & ~boundaries.separators
        self._texts.append(join_text(block.view, begins[kept], ends[kept]))
        self._end(ended)
        count_lines(self, block, ours)
        return block.offsets[-1] < self.part.limits[1] or self._open.owner == OURS

    def _end(self, ended: npt.NDArray[np.int64]) -> None:
        has_text = ended[:, _HAS_TEXT] > 0
        continues = ended[:, _OFFSET] > 0 if self._is_file else ended[:, _CONTINUES] > 0
        self._ended.append(ended)
        self.text_bytes += int(ended[:, _BYTES].sum())
        self.counts += ReadCounts(
            sentences=int(has_text.sum()),
            documents=int(has_text.sum()),
            cut_documents=int((has_text & continues).sum()),
        )

    def close(self) -> None:
        """End the open document."""
        if self._open.text_bytes:
            self._end(np.array([self._open[1:]], np.int64))

    def take(self) -> DocumentBatch:
        """Return the complete documents, with the counts and rejects; keep the open one."""
        ended, text = np.concatenate(self._ended), np.concatenate(self._texts)
        bounds = np.concatenate([[0], np.cumsum(ended[:, _BYTES])])
        has_text = ended[:, _HAS_TEXT] > 0
        begins, ends = bounds[:-1][has_text], (bounds[1:] - ended[:, _BREAK])[has_text]
        ids = self.part.ids(ended[has_text, _OFFSET])
        joined = join_text(text, begins, ends)
        documents = text_batch(ids, np.ones(len(ids), np.int64), ends - begins, joined)
        self._texts, self._ended = [text[bounds[-1] :].copy()], [ended[:0]]
        return self._to_batch(documents)
