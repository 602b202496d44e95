"""Documents of a text file: runs of sentence lines between separators, read range by range.

The document rule is that of seed 000 (WikiText), or Google BERT's blank lines. A file may be cut
into byte ranges anywhere; each document is read by the range that holds its first byte.
"""

from collections.abc import Iterator
from typing import BinaryIO, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.corpus.batches import (
    REJECTS_PER_BATCH,
    DocumentBatch,
    ReadCounts,
    Reject,
    document_id,
    text_batch,
)
from corpusmill.corpus.decompression import DamagedStreamError
from corpusmill.corpus.options import DocumentOptions
from corpusmill.corpus.text.boundaries import Boundaries, find_boundaries
from corpusmill.corpus.text.line_kernels import (
    BLANK,
    INVALID_UTF_8,
    NOBODYS,
    OURS,
    SENTENCE,
    TITLE,
    OpenDocument,
    group_lines,
    join_text,
)
from corpusmill.corpus.text.lines import LineBlock, LineReader, reject_line, seek_line_before


class Collector(Protocol):
    """Gathers the documents of one range until they are taken as a batch.

    Attributes:
        rejects: of the lines that were refused since the last `take`.
    """

    rejects: list[Reject]

    @property
    def is_open(self) -> bool:
        """Whether the line behind those that were added may still be the range's."""

    def add(self, block: LineBlock, boundaries: Boundaries) -> None:
        """Take the lines of a block that are the range's."""

    def is_full(self, batch_bytes: int) -> bool:
        """Whether enough was gathered."""

    def close(self) -> None:
        """End the open document at the end of the file or of what could be read of it."""

    def take(self) -> DocumentBatch:
        """Give the documents that have ended, and what was counted; keep the open one."""


class RangeCollector:
    """What collectors share: whose lines are taken, and what is said of them.

    Args:
        file: path for the rejects.
        file_index: index of the file in the sorted list of inputs.
        start: first byte of the range.
        end: byte after the range.
        options: document rule and limits.
    """

    def __init__(
        self, file: str, file_index: int, start: int, end: int, options: DocumentOptions
    ) -> None:
        self.rejects: list[Reject] = []
        self._file, self._first_id, self._options = file, document_id(file_index, 0), options
        self._range = (start, end)
        self._counts = ReadCounts()
        self._texts = [np.empty(0, np.uint8)]

    def _count_lines(self, block: LineBlock, ours: npt.NDArray[np.bool_]) -> ReadCounts:
        """Count the lines of a block that are the range's, and note the rejects."""
        refused = np.flatnonzero(ours & (block.kinds >= INVALID_UTF_8))
        limit = self._options.max_line_bytes
        self.rejects.extend(reject_line(self._file, block, int(at), limit) for at in refused)
        kinds = np.bincount(block.kinds[ours], minlength=3)
        return ReadCounts(
            bytes=int(np.diff(block.offsets)[ours].sum()),
            lines=int(ours.sum()),
            blank_lines=int(kinds[BLANK]),
            title_lines=int(kinds[TITLE]),
            sentence_lines=int(kinds[SENTENCE]),
            rejected_lines=len(refused),
        )

    def _make_ids(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """The ids of documents that start at some bytes of the file, in ascending order."""
        if len(offsets):
            document_id(0, int(offsets[-1]))  # refuses an offset that does not fit an id
        return offsets.astype(np.uint64) + np.uint64(self._first_id)

    def _take_batch(self, documents: pa.RecordBatch) -> DocumentBatch:
        batch = DocumentBatch(documents, tuple(self.rejects), self._counts)
        self.rejects, self._counts = [], ReadCounts()
        return batch


class _LineCollector(RangeCollector):
    """Gathers documents whose sentences are lines."""

    def __init__(
        self, file: str, file_index: int, start: int, end: int, options: DocumentOptions
    ) -> None:
        super().__init__(file, file_index, start, end, options)
        self._document = OpenDocument(NOBODYS, 0, 0, 0)
        self._lengths = [np.empty(0, np.int64)]
        self._ended = [np.empty((0, 3), np.int64)]

    @property
    def is_open(self) -> bool:
        return self._document.owner == OURS

    def add(self, block: LineBlock, boundaries: Boundaries) -> None:
        ours, ended, cuts, self._document = group_lines(
            block.offsets, block.ends - block.begins, block.kinds, self._document,
            *self._range, self._options.max_document_bytes, boundaries.separators,
        )  # fmt: skip
        sentences = ours & (block.kinds == SENTENCE)
        begins, ends = block.begins[sentences], block.ends[sentences]
        self._texts.append(join_text(np.frombuffer(block.data, np.uint8), begins, ends))
        self._lengths.append(ends - begins)
        self._ended.append(ended)
        self._counts += self._count_lines(block, ours)
        self._counts += ReadCounts(sentences=len(begins), documents=len(ended), cut_documents=cuts)

    def is_full(self, batch_bytes: int) -> bool:
        # Half the wish, as blocks arrive with as much text each.
        ended_bytes = sum(int(ended[:, 2].sum()) for ended in self._ended)
        return 2 * ended_bytes >= batch_bytes or len(self.rejects) >= REJECTS_PER_BATCH

    def close(self) -> None:
        _, offset, sentences, text_bytes = self._document
        if sentences:
            self._ended.append(np.array([[offset, sentences, text_bytes]], np.int64))
            self._counts += ReadCounts(documents=1)

    def take(self) -> DocumentBatch:
        ended = np.concatenate(self._ended)
        text, lengths = np.concatenate(self._texts), np.concatenate(self._lengths)
        sentences, text_bytes = ended[:, 1].sum(), ended[:, 2].sum()
        ids = self._make_ids(ended[:, 0])
        documents = text_batch(ids, ended[:, 1], lengths[:sentences], text[:text_bytes])
        self._texts, self._lengths = [text[text_bytes:].copy()], [lengths[sentences:].copy()]
        self._ended = [ended[:0]]
        return self._take_batch(documents)


def read_documents(
    stream: BinaryIO,
    file: str,
    file_index: int,
    start: int,
    end: int | None,
    options: DocumentOptions,
    batch_bytes: int = 2**20,
) -> Iterator[DocumentBatch]:
    """Read the documents whose first byte lies in a byte range of a file.

    Ranges that together cover a file give the same documents, rejects and total counts as the
    whole file in one range, wherever the cuts fall. A damaged compressed stream ends the file with
    a reject; every line that was complete by then stays.

    Args:
        stream: the file's bytes, decompressed; sought in only if a part of the file is asked for.
        file: path for the rejects.
        file_index: index of the file in the sorted list of inputs, for the documents' ids.
        start: first byte of the range.
        end: byte after the range; None for the end of the file.
        options: document rule and limits.
        batch_bytes: how much is read at a time, and about how much text a batch has.

    Yields:
        At least one batch; the text of an open document waits for its end, so that memory is
        bounded by a few times batch_bytes, max_document_bytes and max_line_bytes.

    Raises:
        UserError: for a file index or an offset that does not fit a document id.
    """
    collector = _LineCollector(file, file_index, start, last_byte(end), options)
    return read_with(collector, stream, file, start, end, options, batch_bytes)


def last_byte(end: int | None) -> int:
    """The byte after a range that may go to the end of a file."""
    return 2**62 if end is None else end


def read_with(
    collector: Collector,
    stream: BinaryIO,
    file: str,
    start: int,
    end: int | None,
    options: DocumentOptions,
    batch_bytes: int,
) -> Iterator[DocumentBatch]:
    """Read the lines of a range into a collector; see `read_documents`.

    Args:
        collector: of the range.
        stream: the file's bytes, decompressed.
        file: path for the rejects.
        start: first byte of the range.
        end: byte after the range; None for the end of the file.
        options: document rule, sentence rule and limits.
        batch_bytes: about how much text a batch has.
    """
    position, in_long_line = 0, False
    # From the line before the range, as that tells whether a document of another range goes on.
    if start > 0:
        position, in_long_line = seek_line_before(stream, start, options.max_line_bytes)
    elif end is not None:
        stream.seek(0)
    lines = LineReader(
        stream, position, in_long_line, batch_bytes, options.max_line_bytes,
        titles=options.document_rule in {None, "wikitext", "wikitext-articles"},
        check_titles=options.keeps_text and options.document_rule == "wikitext-articles",
    )  # fmt: skip
    batches = 0
    try:
        for block, boundaries in find_boundaries(iter(lines), options):
            collector.add(block, boundaries)
            if block.offsets[-1] >= last_byte(end) and not collector.is_open:
                break
            if collector.is_full(batch_bytes):
                yield collector.take()
                batches += 1
    except DamagedStreamError as damage:
        reject = Reject(file, lines.position, -1, "damaged-compression", str(damage))
        collector.rejects.append(reject)
    collector.close()
    rest = collector.take()
    if not batches or rest.rejects or rest.counts != ReadCounts():
        yield rest
