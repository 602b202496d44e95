"""What a data set keeps of a document."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from corpusmill.arrays.document_facts import DOCUMENT_COLUMNS
from corpusmill.corpus.batches import OFFSET_BITS


@dataclass(frozen=True)
class DocumentRecord:
    """What a data set keeps of a document.

    Attributes:
        document: its id.
        length: bytes of its record in its file, after decompression; 1 in tables; 0 if its reader
            does not tell.
        tokens: its number of tokens.
        digest: of its text (`corpusmill.arrays.document_facts`).
        fields: the kept fields that it has, by name.
    """

    document: int
    length: int
    tokens: int
    digest: int
    fields: Mapping[str, str]

    @property
    def file_number(self) -> int:
        """The number of its file among those of the corpus."""
        return self.document >> OFFSET_BITS

    @property
    def place(self) -> int:
        """Where it begins in its file: a byte after decompression; in tables row << 12 | piece."""
        return self.document & ((1 << OFFSET_BITS) - 1)


def records_of(table: pa.Table) -> Iterator[DocumentRecord]:
    """Yield the documents of a table (`corpusmill.provenance.documents`)."""
    for row in table.to_pylist():
        document, length, tokens, digest = (row.pop(name) for name in DOCUMENT_COLUMNS)
        fields = {name: value for name, value in row.items() if value is not None}
        yield DocumentRecord(document, length, tokens, digest, fields)
