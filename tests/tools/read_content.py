"""What was read of a file, put together from its batches."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from corpusmill.corpus.batches import TEXT_SCHEMA, DocumentBatch, ReadCounts, Reject


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
