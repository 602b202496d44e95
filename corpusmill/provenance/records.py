"""What a data set keeps of a document, and of a row."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from corpusmill.arrays.text_hashes import DOCUMENT_COLUMNS
from corpusmill.corpus.batches import OFFSET_BITS


class UnreadableTextError(Exception):
    """The text of a document cannot be read again; the message says why."""


@dataclass(frozen=True)
class DocumentRecord:
    """What a data set keeps of a document.

    Attributes:
        document: its id.
        length: bytes of its record in its file, after decompression; 1 in tables; 0 if its reader
            does not tell.
        tokens: its number of tokens.
        digest: of its text (`corpusmill.arrays.text_hashes`).
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


@dataclass(frozen=True)
class Span:
    """Tokens of a document.

    Attributes:
        document: id of the document.
        first_token: the place of the first one among the document's tokens.
        tokens: their number.
    """

    document: int
    first_token: int
    tokens: int


@dataclass(frozen=True)
class RowOrigin:
    """Where a row comes from.

    Attributes:
        split: the split.
        row: number of the row in the split.
        shard: file name of its shard.
        shard_row: number of the row in its shard.
        document: id of the document from which it was built; the first one, if it joins several.
        repeat: in which pass over the document.
        spans: the tokens in it, in their order, without special tokens; empty if the objective does
            not tell them.
    """

    split: str
    row: int
    shard: str
    shard_row: int
    document: int
    repeat: int
    spans: tuple[Span, ...]

    @property
    def documents(self) -> tuple[int, ...]:
        """The ids of all documents in it, each once."""
        named = (span.document for span in self.spans)
        return tuple(dict.fromkeys((self.document, *named) if not self.spans else named))


def records_of(table: pa.Table) -> Iterator[DocumentRecord]:
    """Yield the documents of a table (`corpusmill.provenance.documents_table`)."""
    for row in table.to_pylist():
        document, length, tokens, digest = (row.pop(name) for name in DOCUMENT_COLUMNS)
        fields = {name: value for name, value in row.items() if value is not None}
        yield DocumentRecord(document, length, tokens, digest, fields)
