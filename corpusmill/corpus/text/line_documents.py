"""Documents of sentences: runs of lines between separators."""

import numpy as np

from corpusmill.corpus.batches import DocumentBatch, ReadCounts, text_batch
from corpusmill.corpus.collector import Collector
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.text.boundaries import BoundedLines
from corpusmill.corpus.text.line_kernels import (
    NOBODYS,
    OURS,
    SENTENCE,
    OpenDocument,
    group_lines,
    join_text,
)
from corpusmill.corpus.text.lines import count_lines


class LineDocuments(Collector):
    """Gathers documents whose sentences are lines.

    Args:
        part: the range.
    """

    # Half a batch is enough, as each block of lines has as much text as a whole one.
    enough = 0.5

    def __init__(self, part: FileRange) -> None:
        super().__init__(part)
        self._open = OpenDocument(NOBODYS, 0, 0, 0)
        self._texts, self._lengths = [np.empty(0, np.uint8)], [np.empty(0, np.int64)]
        self._ended = [np.empty((0, 3), np.int64)]

    def add(self, lines: BoundedLines) -> bool:
        """Add the lines that are the range's; return whether more of them may follow."""
        block, boundaries = lines
        ours, ended, cuts, self._open = group_lines(
            block.offsets, block.ends - block.begins, block.kinds, self._open,
            self.part.limits, self.part.options.max_document_bytes, boundaries.separators,
        )  # fmt: skip
        sentences = ours & (block.kinds == SENTENCE)
        begins, ends = block.begins[sentences], block.ends[sentences]
        self._texts.append(join_text(block.view, begins, ends))
        self._lengths.append(ends - begins)
        self._ended.append(ended)
        self.text_bytes += int(ended[:, 2].sum())
        count_lines(self, block, ours)
        self.counts += ReadCounts(sentences=len(begins), documents=len(ended), cut_documents=cuts)
        return block.offsets[-1] < self.part.limits[1] or self._open.owner == OURS

    def close(self) -> None:
        """End the open document."""
        if self._open.sentences:
            self._ended.append(np.array([self._open[1:]], np.int64))
            self.counts += ReadCounts(documents=1)

    def take(self) -> DocumentBatch:
        """Return the complete documents, with the counts and rejects; keep the open one."""
        ended = np.concatenate(self._ended)
        text, lengths = np.concatenate(self._texts), np.concatenate(self._lengths)
        sentences, text_bytes = ended[:, 1].sum(), ended[:, 2].sum()
        ids = self.part.ids(ended[:, 0])
        documents = text_batch(ids, ended[:, 1], lengths[:sentences], text[:text_bytes])
        self._texts, self._lengths = [text[text_bytes:].copy()], [lengths[sentences:].copy()]
        self._ended = [ended[:0]]
        return self._to_batch(documents)
