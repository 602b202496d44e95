"""What was read of a file, put together from its batches."""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from corpusmill.corpus.batches import TEXT_SCHEMA, DocumentBatch, ReadCounts, Reject
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.input_formats import read_corpus
from corpusmill.corpus.options import DocumentOptions


@dataclass
class Content:
    """The documents, rejects and counts of some batches.

    Attributes:
        documents: id and sentences of each.
        rejects: in the order of the batches.
        counts: the sum of those of the batches.
        largest: the most bytes that one batch counts.
    """

    documents: list[tuple[int, list[str]]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    counts: ReadCounts = field(default_factory=ReadCounts)
    largest: int = field(default=0, compare=False)

    def add(self, batches: Iterable[DocumentBatch]) -> "Content":
        """Add what a reader yields for a range, which is at least one batch."""
        batch = None
        for batch in batches:
            assert batch.documents.schema == TEXT_SCHEMA
            batch.documents.validate(full=True)
            columns = batch.documents.to_pydict()
            self.documents += zip(columns["document"], columns["sentences"], strict=True)
            self.rejects += batch.rejects
            self.counts += batch.counts
            self.largest = max(self.largest, batch.counts.bytes)
        assert batch
        return self

    @property
    def texts(self) -> list[list[str]]:
        """The sentences of each document."""
        return [sentences for _, sentences in self.documents]

    @property
    def sentences(self) -> list[str]:
        """The sentences of all documents."""
        return [sentence for sentences in self.texts for sentence in sentences]

    @property
    def reasons(self) -> list[str]:
        """The reason of each reject."""
        return [reject.reason for reject in self.rejects]

    @property
    def places(self) -> list[tuple[int, int, str]]:
        """Offset, length and reason of each reject."""
        return [(reject.offset, reject.length, reject.reason) for reject in self.rejects]


def read_ranges(
    data: bytes, options: DocumentOptions, cuts: Sequence[int] = (), batch_bytes: int = 2**20
) -> Content:
    """Read all ranges between the cuts."""
    stream, content = io.BytesIO(data), Content()
    for start, end in pairwise([0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]):
        content.add(read_corpus(stream, FileRange("f", 3, options, start, end, batch_bytes)))
    return content
