"""Documents of a text: runs of lines between boundaries.

A rule says of each line whether a document begins or ends there; the default is that of seed 000
(WikiText). With the sentence rule "document" a run of lines is one text as it stands, with its line
breaks and white space: nothing is stripped, joined or rewritten. Otherwise its stripped lines are
sentences.

A text file may be cut into byte ranges anywhere: each document is read by the range that holds its
first byte.
"""

from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.kernel_cache import njit
from corpusmill.corpus.batches import (
    Collector,
    DocumentBatch,
    FileRange,
    ReadCounts,
    add_facts,
    text_batch,
)
from corpusmill.corpus.decompression import DamagedStreamError
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.text.line_kernels import (
    BLANK,
    INVALID_UTF_8,
    SENTENCE,
    TITLE,
    TOO_LONG,
    join_text,
)
from corpusmill.corpus.text.lines import LineBlock, LineReader, collect_lines, count_lines

_EQUALS, _SPACE = 0x3D, 0x20
_SHORTEST_HEADING = len("= T =")


class Boundaries(NamedTuple):
    """Where documents begin and end among n lines.

    Attributes:
        separators: bool[n], lines that end the document before them and are part of none.
        begins: bool[n], lines that end the document before them and begin another.
    """

    separators: npt.NDArray[np.bool_]
    begins: npt.NDArray[np.bool_]


BoundedLines = tuple[LineBlock, Boundaries]


def find_boundaries(
    blocks: Iterable[LineBlock], options: DocumentOptions
) -> Iterator[BoundedLines]:
    """Find the boundaries of documents in each block of lines of a file.

    Args:
        blocks: lines that follow each other, of the whole file or a part of it.
        options: document rule and sentence rule.

    Raises:
        DamagedStreamError: as the blocks do, after everything that came before.
    """
    match options.document_rule:
        case "wikitext-articles":
            for block, headings in _with_headings(blocks):
                nothing = np.zeros_like(headings)
                # A whole document begins with its title; a document of sentences leaves it out.
                order = (nothing, headings) if options.keeps_text else (headings, nothing)
                yield block, Boundaries(*order)
        case "whole-file" if options.keeps_text:
            yield from _at_multiples(blocks, options.max_document_bytes)
        case rule:
            for block in blocks:
                nothing = np.zeros(len(block.kinds), np.bool_)
                ending = nothing if rule == "whole-file" else block.kinds <= TITLE
                yield block, Boundaries(ending, nothing)


@njit
def find_headings(
    data: npt.NDArray[np.uint8],
    begins: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.uint8],
    blank_after: bool,
) -> npt.NDArray[np.bool_]:
    r"""Find the titles of articles of WikiText (Merity et al. 2016), raw or tokenized.

    Such a title stands between single equals signs, " = Title = ", while those of sections have
    more, " = = Section = = ". The line after it is blank: articles also have lines of text such as
    " = Played , W = ", where a legend was broken into lines, and other text follows these.

    Args:
        data: uint8[bytes].
        begins: int64[n], where the stripped text of each line begins.
        ends: int64[n], where it ends.
        kinds: uint8[n], kind of each line.
        blank_after: whether the line after the last one is blank, or the file ends there.

    Returns:
        bool[n]. "= T =\n\n= = S = =\n\n= Won , L =\nLost" gives [True, False, False, ...].
    """
    headings = np.zeros(kinds.size, np.bool_)
    for line in range(kinds.size):
        begin, end = begins[line], ends[line]
        if kinds[line] == TOO_LONG or end - begin < _SHORTEST_HEADING or data[begin] != _EQUALS:
            continue
        spaced = data[begin + 1] == _SPACE and data[end - 2] == _SPACE and data[end - 1] == _EQUALS
        is_first_level = data[begin + 2] != _EQUALS and data[end - 3] != _EQUALS
        followed = kinds[line + 1] == BLANK if line + 1 < kinds.size else blank_after
        headings[line] = spaced and is_first_level and followed
    return headings


def _with_headings(
    blocks: Iterable[LineBlock],
) -> Iterator[tuple[LineBlock, npt.NDArray[np.bool_]]]:
    """Yield blocks with their headings; one that may end in a heading waits for the next line."""
    waiting: tuple[LineBlock, npt.NDArray[np.bool_]] | None = None
    try:
        for block in blocks:
            if waiting:
                # A block without lines is part of a line that is too long to be held.
                waiting[1][-1] = len(block.kinds) > 0 and block.kinds[0] == BLANK
                yield waiting
            headings = find_headings(block.view, block.begins, block.ends, block.kinds, True)
            waiting = (block, headings) if headings[-1:].any() else None
            if not waiting:
                yield block, headings
    except DamagedStreamError:
        if waiting:
            yield waiting
        raise
    if waiting:
        yield waiting


def _at_multiples(blocks: Iterable[LineBlock], size: int) -> Iterator[BoundedLines]:
    """Cut a file before the first line that begins at or after each multiple of a size.

    The places do not depend on what else was read of the file. There is also a cut after a line
    that is too long to be held, as the reader of a range may not know where that line begins,
    unless the cut would lie before the first multiple.
    """
    before, after_long = 0, False
    for block in blocks:
        starts, is_long = block.offsets[:-1], block.kinds == TOO_LONG
        previous = np.concatenate([[before], starts])
        long_before = np.concatenate([[after_long], is_long])
        begins = (starts // size != previous[:-1] // size) | long_before[:-1]
        begins &= starts >= size
        before, after_long = int(previous[-1]), bool(long_before[-1])
        yield block, Boundaries(np.zeros_like(begins), begins)


# The owner of the document that a line belongs to: none, this range, or another one.
NOBODYS, OURS, FOREIGN = range(3)
# Columns of documents that have ended: byte of the file, bytes of text, how many of these are a
# line break at its end that is left out, sentences, whether it continues another piece of the same
# document, and the byte of the file after its last line.
_OFFSET, _BYTES, _BREAK, _SENTENCES, _CONTINUES, _END = range(6)


class OpenDocument(NamedTuple):
    """The document that the last line belongs to, as far as it was read.

    Attributes:
        owner: NOBODYS after a separator, OURS, or FOREIGN if another range reads it.
        offset: byte of the file at which it starts, or its last piece if it was cut.
        text_bytes: bytes of the lines that it keeps.
        break_bytes: bytes of the last line's line break, if it is left out at the end.
        sentences: how many lines that it keeps are more than white space.
        continues: 1 if a piece of the same document has text and has ended, else 0.
        end: byte of the file after the text of the last line that it keeps.
    """

    owner: int
    offset: int
    text_bytes: int
    break_bytes: int
    sentences: int
    continues: int
    end: int


class KeptLines(NamedTuple):
    """What n lines add to documents.

    Attributes:
        begins: int64[n], where the text of each line begins in the block's data.
        ends: int64[n], where it ends.
        breaks: int64[n], how many of these bytes are left out where the line ends a document.
        is_kept: bool[n], whether the text is kept at all.
    """

    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    breaks: npt.NDArray[np.int64]
    is_kept: npt.NDArray[np.bool_]


@njit
def group_lines(
    block_offsets: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.uint8],
    kept: KeptLines,
    boundaries: Boundaries,
    document: OpenDocument,
    limits: tuple[int, int],
    max_bytes: int,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64], OpenDocument]:
    """Find the documents that end among some lines, and the lines that are the range's.

    Args:
        block_offsets: int64[n + 1], byte of the file at which each line starts.
        kinds: uint8[n], kind of each line.
        kept: what each line adds to its document.
        boundaries: of documents.
        document: the one that the lines before left open.
        limits: first byte of the range, and the byte after it.
        max_bytes: a document is cut before the line that would exceed this.

    Returns:
        ours: bool[n], whether each line is the range's.
        ended: int64[m, 6], for each document that ended its offset, its bytes, the bytes left out
            at its end, its kept lines with text, whether it continues another piece, and the byte
            of the file after the text of its last kept line.
        document: the one that is left open.
    """
    ours = np.zeros(kinds.size, np.bool_)
    ended = np.empty((kinds.size, 6), np.int64)
    count = 0
    owner, offset, text_bytes, last_break, sentences, continues, end = document
    for line in range(kinds.size):
        position = block_offsets[line]
        line_bytes = kept.ends[line] - kept.begins[line]
        is_other = boundaries.separators[line] or boundaries.begins[line]
        is_full = kept.is_kept[line] and text_bytes + line_bytes > max_bytes
        if text_bytes and (is_other or is_full):
            left_out = last_break if is_other else 0
            ended[count] = offset, text_bytes, left_out, sentences, continues, end
            count, continues = count + 1, continues | int(sentences > 0)
            offset, text_bytes, sentences = position, 0, 0
        if is_other:
            owner, continues = NOBODYS, 0
        in_range = limits[0] <= position < limits[1]
        if boundaries.separators[line]:
            ours[line] = in_range
            continue
        if owner == NOBODYS:
            owner, offset = OURS if in_range else FOREIGN, position
        ours[line] = owner == OURS
        if ours[line] and kept.is_kept[line]:
            text_bytes, last_break = text_bytes + line_bytes, kept.breaks[line]
            sentences += kinds[line] != BLANK
            end = block_offsets[0] + kept.ends[line]
    document = OpenDocument(owner, offset, text_bytes, last_break, sentences, continues, end)
    # A view would keep the memory of a document for each line.
    return ours, ended[:count].copy(), document


class TextDocuments(Collector):
    """Gathers the documents of a text.

    Args:
        part: the range.
    """

    # Half a batch is enough, as each block of lines has as much text as a whole one.
    enough = 0.5

    def __init__(self, part: FileRange) -> None:
        super().__init__(part)
        options = part.options
        self._open = OpenDocument(NOBODYS, 0, 0, 0, 0, 0, 0)
        self._texts, self._lengths = [np.empty(0, np.uint8)], [np.empty(0, np.int64)]
        self._ended = [np.empty((0, 6), np.int64)]
        self._keeps_text = options.keeps_text
        self._is_file = self._keeps_text and options.document_rule == "whole-file"
        # A whole file is cut at multiples of the limit, which are boundaries.
        self._max_bytes = 2**62 if self._is_file else options.max_document_bytes

    def add(self, lines: BoundedLines) -> bool:
        """Add the lines that are the range's; return whether more of them may follow."""
        block, boundaries = lines
        kept = self._choose(lines)
        ours, ended, self._open = group_lines(
            block.offsets, block.kinds, kept, boundaries, self._open, self.part.bounds,
            self._max_bytes,
        )  # fmt: skip
        ours_kept = ours & kept.is_kept
        begins, ends = kept.begins[ours_kept], kept.ends[ours_kept]
        # Lines without text add nothing, as there may be any number of them in a batch.
        if len(begins):
            self._texts.append(join_text(block.view, begins, ends))
            if not self._keeps_text:
                self._lengths.append(ends - begins)
        if len(ended):
            self._end(ended)
        count_lines(self, block, ours)
        return block.offsets[-1] < self.part.bounds[1] or self._open.owner == OURS

    def _choose(self, lines: BoundedLines) -> KeptLines:
        block, boundaries = lines
        nothing = np.zeros(len(block.kinds), np.int64)
        if not self._keeps_text:
            is_sentence = (block.kinds == SENTENCE) & ~boundaries.separators
            return KeptLines(block.begins, block.ends, nothing, is_sentence)
        leaves_breaks = self.part.options.document_rule in {None, "wikitext", "blank-lines"}
        breaks = block.line_breaks() if leaves_breaks else nothing
        is_kept = (block.kinds < INVALID_UTF_8) & ~boundaries.separators
        return KeptLines(*block.whole_lines(), breaks, is_kept)

    def _end(self, ended: npt.NDArray[np.int64]) -> None:
        has_text = ended[:, _SENTENCES] > 0
        if self._keeps_text:
            ended[:, _SENTENCES] = has_text
        continues = ended[:, _OFFSET if self._is_file else _CONTINUES] > 0
        self._ended.append(ended)
        self.text_bytes += int(ended[:, _BYTES].sum())
        self.counts += ReadCounts(
            sentences=int(ended[:, _SENTENCES].sum()),
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
        lengths = np.concatenate(self._lengths)
        sizes, sentences = ended[:, _BYTES], ended[:, _SENTENCES]
        has_text, size, count = sentences > 0, sizes.sum(), sentences.sum()
        self._texts, self._lengths = [text[size:].copy()], [lengths[count:].copy()]
        self._ended = [ended[:0]]
        text, lengths = text[:size], lengths[:count]
        if self._keeps_text:
            ends = np.cumsum(sizes)
            begins, ends = (ends - sizes)[has_text], (ends - ended[:, _BREAK])[has_text]
            text, lengths = join_text(text, begins, ends), ends - begins
        ended = ended[has_text]
        ids = self.part.ids(ended[:, _OFFSET])
        documents = text_batch(ids, ended[:, _SENTENCES], lengths, text)
        spans = ended[:, _END] - ended[:, _BREAK] - ended[:, _OFFSET]
        return self._to_batch(add_facts(documents, spans.astype(np.uint64)))


def read_text(stream: BinaryIO, part: FileRange) -> Iterator[DocumentBatch]:
    r"""Read the documents whose first byte lies in a byte range of a text file.

    Ranges that together cover a file give the same documents, rejects and total counts as the
    whole file in one range, wherever the cuts fall. A damaged compressed stream ends the file with
    a reject; every line that was complete by then is kept.

    By default the sentences of a document are its lines. With the sentence rule "document", a
    document has one sentence, its text as it stands. The document rule decides which text that is:

    - "whole-file": the whole file without a byte order mark. A file is cut before the first line
      that begins at or after each multiple of `max_document_bytes`, so that its ranges are read
      independently; all pieces together are the file.
    - "wikitext-articles": from one title of the first level to the next, titles and blank lines
      included. Text before the first title is a document, too. All documents together are the file.
    - "wikitext" and "blank-lines": the lines between two separators, without the line break ("\n"
      or "\r\n") of the last one.

    Rejected lines are left out with their line breaks. White space alone is not a document, nor is
    a piece of one.

    Args:
        stream: the file's bytes, decompressed; sought in only to read a part of the file.
        part: the range, with the document rule.

    Yields:
        At least one batch. The text of an open document waits for its end, so memory is bounded by
        a few times the bytes of a batch, max_document_bytes and max_line_bytes.

    Raises:
        UserError: an offset does not fit a document id.
    """
    options = part.options
    lines = LineReader(
        stream,
        part,
        titles=options.document_rule in {None, "wikitext", "wikitext-articles"},
        check_titles=options.keeps_text and options.document_rule == "wikitext-articles",
    )
    documents = TextDocuments(part)
    return collect_lines(lines, find_boundaries(lines, options), documents.add, documents)
