"""What was read of a file, put together from its batches."""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa

from corpusmill.arrays.text_hashes import LENGTH
from corpusmill.corpus.batches import (
    OFFSET_BITS,
    TEXT_SCHEMA,
    DocumentBatch,
    FileRange,
    ReadCounts,
    Reject,
)
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import read_corpus


@dataclass
class Content:
    """The documents, rejects and counts of some batches.

    Attributes:
        documents: id and sentences of each.
        lengths: of each document's record.
        fields: the kept fields of each document, by their names.
        rejects: in the order of the batches.
        counts: the sum of those of the batches.
        largest: the most bytes that one batch counts.
    """

    documents: list[tuple[int, list[str]]] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    fields: list[dict[str, str | None]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    counts: ReadCounts = field(default_factory=ReadCounts)
    largest: int = field(default=0, compare=False)

    def add(self, batches: Iterable[DocumentBatch]) -> "Content":
        """Add what a reader yields for a range, which is at least one batch."""
        batch = None
        for batch in batches:
            assert list(batch.documents.schema)[:3] == [*TEXT_SCHEMA, LENGTH]
            batch.documents.validate(full=True)
            for document, sentences, length, *values in rows_of(batch.documents):
                self.documents.append((document, sentences))
                self.lengths.append(length)
                names = [name.removeprefix("field:") for name in batch.documents.schema.names[3:]]
                self.fields.append(dict(zip(names, values, strict=True)))
            self.rejects += batch.rejects
            for some in batch.more_rejects:
                places = zip(some.offsets.tolist(), some.lengths.tolist(), strict=True)
                self.rejects += [Reject(some.file, *place, some.reason, "") for place in places]
            self.counts += batch.counts
            self.largest = max(self.largest, batch.counts.bytes)
        assert batch
        return self

    def balanced(self, size: int) -> "Content":
        """Return it, if its counts are those of a file of records of this size."""
        counts = self.counts
        assert counts.bytes == size
        kinds = (counts.blank_lines, counts.rejected_lines, counts.records, counts.rejected_rows)
        assert counts.lines + counts.rows == sum(kinds)
        assert counts.records - counts.empty_records == counts.documents - counts.cut_documents
        assert counts.documents == len(self.documents)
        assert counts.sentences == len(self.sentences)
        return self

    @property
    def records(self) -> list[tuple[int, int]]:
        """Place and end of each document's record in its file."""
        places = [document % 2**OFFSET_BITS for document, _ in self.documents]
        return [(place, place + size) for place, size in zip(places, self.lengths, strict=True)]

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


def rows_of(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """The values of each row."""
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def read_ranges(data: bytes, options: DocumentOptions, cuts: Sequence[int] = ()) -> Content:
    """Read all ranges between the cuts."""
    stream, content = io.BytesIO(data), Content()
    for start, end in pairwise([0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]):
        part = FileRange("f", 3, options, start, end)
        content.add(read_corpus(stream, part))
    return content
