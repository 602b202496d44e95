"""Where the documents of a text begin and end, line by line: the rules of documents."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.kernel_cache import njit
from corpusmill.corpus.decompression import DamagedStreamError
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.text.line_kernels import BLANK, TITLE, TOO_LONG
from corpusmill.corpus.text.lines import LineBlock

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
