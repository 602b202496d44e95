"""The part of a corpus that a tokenizer is trained with."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from corpusmill.corpus.options import DocumentOptions
from corpusmill.tokenization.training.sample import draw_pieces
from pipeline.commands.sample_options import SampleOptions
from pipeline.preparation.inputs import InputFile, cut_files, sum_costs
from pipeline.preparation.recipe import estimate_text_bytes
from transforms.ranges import PlannedRange

# A sample consists of about this many pieces, because neighboring documents resemble each other. A
# smaller piece would take longer to open than to read.
_PIECES = 256
_SMALLEST_PIECE, _LARGEST_PIECE = 2**16, 2**24


class Drawn(NamedTuple):
    """What is read of a corpus.

    Attributes:
        ranges: ranges of its files.
        share: the share of their documents that is counted.
    """

    ranges: Sequence[PlannedRange]
    share: float


@dataclass(frozen=True)
class SampledCorpus:
    """A corpus, or a sample of it.

    Attributes:
        files: the input.
        documents: the rules of documents, with a format.
        sample: which part of it is counted.
    """

    files: Sequence[InputFile]
    documents: DocumentOptions
    sample: SampleOptions

    @property
    def bytes(self) -> int:
        """The size of the input; an estimate if files are compressed."""
        return sum_costs(self.files)

    @property
    def is_in_pieces(self) -> bool:
        """Whether only pieces of it are read."""
        return (self.sample.bytes or sys.maxsize) < self._whole_text_bytes

    @property
    def read_bytes(self) -> int:
        """The size of what is read; an estimate if files are compressed."""
        if not self.is_in_pieces:
            return self.bytes
        return sum(self._measure(piece) for piece in self._pieces.ranges)

    @property
    def text_bytes(self) -> int:
        """The bytes of text that are read; exact for plain files."""
        return round(self._whole_text_bytes * self.read_bytes / max(1, self.bytes))

    def draw(self, range_bytes: int = sys.maxsize) -> Drawn:
        """Return what is read.

        Args:
            range_bytes: the longest range of a corpus that is read whole.
        """
        if self.is_in_pieces:
            return self._pieces
        share = self.sample.sample
        ranges = list(cut_files(self.files, self.documents, range_bytes))
        return Drawn(ranges, 1.0 if share is None else share)

    @property
    def _whole_text_bytes(self) -> int:
        return estimate_text_bytes(self.files, self.documents)

    @cached_property
    def _pieces(self) -> Drawn:
        wanted = (self.sample.bytes or 0) * self.bytes / self._whole_text_bytes
        piece_bytes = min(max(round(wanted / _PIECES), _SMALLEST_PIECE), _LARGEST_PIECE)
        pieces = list(cut_files(self.files, self.documents, piece_bytes))
        sizes = np.array([self._measure(piece) for piece in pieces], np.int64)
        numbers, share = draw_pieces(sizes, wanted, self.sample.seed)
        return Drawn([pieces[number] for number in numbers.tolist()], share)

    def _measure(self, part: PlannedRange) -> int:
        return self.files[part.file_index].cost if part.end is None else part.end - part.start
