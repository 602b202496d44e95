"""The lines of a block are counted by kind, and the bad ones are refused."""

import numpy as np
import numpy.typing as npt

from corpusmill.corpus.batches import ReadCounts, Reject
from corpusmill.corpus.collector import Collector
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.text.line_kernels import BLANK, INVALID_UTF_8, SENTENCE, TITLE, TOO_LONG
from corpusmill.corpus.text.lines import LineBlock


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
    try:
        detail = str(block.data[begin : begin + length], "utf-8")
    except UnicodeDecodeError as error:
        detail = str(error)
    return part.reject(offset, length, "invalid-utf-8", detail)


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
    is_long = block.kinds[lines] == TOO_LONG
    for some in (lines[is_long], lines[~is_long]):
        if len(some):
            _refuse_alike(collector, block, some)
    collector.counts += ReadCounts(rejected_bytes=int(np.diff(block.offsets)[lines].sum()))


def _refuse_alike(collector: Collector, block: LineBlock, lines: npt.NDArray[np.int64]) -> None:
    """Refuse lines that have one reason."""

    def explain(index: int) -> str:
        return reject_line(collector.part, block, int(lines[index])).detail

    reason = reject_line(collector.part, block, int(lines[0])).reason
    collector.refuse_many(block.offsets[lines], block.lengths[lines], reason, explain)
