"""From rows to the documents, the places in files and the text that they are made of."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.shards import read_tokenizer
from corpusmill.location import Location
from corpusmill.provenance.read_again import Inputs
from corpusmill.provenance.store import (
    DocumentRecord,
    Follow,
    OriginStore,
    RowOrigin,
    Span,
    pass_on,
)

if TYPE_CHECKING:
    from corpusmill.provenance.texts import Texts


@dataclass(frozen=True)
class TracedDocument:
    """A document, and where it stands.

    Attributes:
        record: what the data set keeps of it.
        file: name of its file, as the manifest lists it.
        place: where it begins there: a byte after decompression, or in tables the number of a row.
        source: name of its source; None where no part of the corpus has a name.
    """

    record: DocumentRecord
    file: str
    place: int
    source: str | None

    def to_json(self) -> dict[str, Any]:
        """Return it in JSON's types."""
        record = self.record
        return {
            "document": record.document,
            "file": self.file,
            "place": self.place,
            **{name: getattr(record, name) for name in ("length", "tokens", "digest")},
            **({"source": self.source} if self.source else {}),
            **({"fields": dict(record.fields)} if record.fields else {}),
        }


@dataclass(frozen=True)
class TracedSpan:
    """Tokens of a row.

    Attributes:
        span: which tokens of which document they are.
        document: that document.
        text: their text; None if it was not read.
    """

    span: Span
    document: TracedDocument
    text: str | None = None


@dataclass(frozen=True)
class TracedRow:
    """A row, and all that it is made of.

    Attributes:
        origin: where it comes from.
        documents: the documents in it, each once.
        spans: the tokens in it, in their order.
        missing: why texts could not be read; empty if they were, or were not asked for.
        read: when a run read it, by name (epoch, step, rank, sample); empty where that is not
            asked.
    """

    origin: RowOrigin
    documents: tuple[TracedDocument, ...]
    spans: tuple[TracedSpan, ...]
    missing: str = ""
    read: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it in JSON's types."""
        names = ("split", "row", "shard", "shard_row", "repeat")
        return {
            **{name: getattr(self.origin, name) for name in names},
            **self.read,
            "documents": [document.to_json() for document in self.documents],
            "spans": [
                vars(traced.span) | ({} if traced.text is None else {"text": traced.text})
                for traced in self.spans
            ],
            **({"missing": self.missing} if self.missing else {}),
        }


class Tracer:
    """Traces rows to documents and text, and documents to rows.

    Args:
        folder: of the data set.
        manifest: of the data set.
        inputs: where the corpus is; None if no text is wanted.
        follow: shows how much is done.

    Attributes:
        store: the provenance of the data set.

    Raises:
        UserError: the data set was built without provenance, or its tokenizer is damaged.
    """

    def __init__(
        self,
        folder: Location,
        manifest: Manifest,
        inputs: Inputs | None = None,
        follow: Follow = pass_on,
    ) -> None:
        self.store = OriginStore(folder, manifest, follow)
        self._manifest, self._follow = manifest, follow
        self._texts = None if inputs is None else _texts_of(folder, manifest, inputs)

    def trace(self, split: str, rows: Sequence[int]) -> list[TracedRow]:
        """Trace rows of a split.

        Args:
            split: name of the split.
            rows: their numbers in it.

        Raises:
            IndexError: there is no such row.
            UserError: a file of provenance is damaged.
        """
        found = self.find_origins(split, rows)
        return self.describe([found[row] for row in rows])

    def find_origins(self, split: str, rows: Iterable[int]) -> Mapping[int, RowOrigin]:
        """Find where rows of a split come from, by their numbers in it.

        Raises:
            IndexError: there is no such row.
            UserError: a file of provenance is damaged.
        """
        return {origin.row: origin for origin in self.store.origins(split, [*rows])}

    def describe(self, origins: Sequence[RowOrigin]) -> list[TracedRow]:
        """Add documents and texts to the origins of rows.

        Each document is read, and its text tokenized, once for all rows.

        Raises:
            UserError: a file of provenance is damaged.
        """
        ids = {number for origin in origins for number in origin.documents}
        records = self.store.documents(ids)
        documents = {number: self.locate(record) for number, record in records.items()}
        texts, missing = dict[Span, str](), dict[int, str]()
        if self._texts:
            spans = dict.fromkeys(span for origin in origins for span in origin.spans)
            read = self._texts.read_spans(records, spans)
            for number, own, cause in self._follow(read, len(records), "documents read"):
                texts |= own
                if cause:
                    missing[number] = cause
        rows = []
        for origin in origins:
            traced = (
                TracedSpan(part, documents[part.document], texts.get(part)) for part in origin.spans
            )
            named = tuple(documents[number] for number in origin.documents)
            causes = [missing[number] for number in origin.documents if number in missing]
            rows.append(TracedRow(origin, named, tuple(traced), causes[-1] if causes else ""))
        return rows

    def locate(self, record: DocumentRecord) -> TracedDocument:
        """Name the file and the source of a document."""
        corpus, number = self._manifest.corpus, record.file_number
        place = record.place >> self.store.piece_bits_of(number)
        return TracedDocument(record, corpus.files[number].path, place, corpus.source_of(number))


def _texts_of(folder: Location, manifest: Manifest, inputs: Inputs) -> "Texts":
    """Return the texts of a data set's documents."""
    from corpusmill.provenance.texts import Texts  # noqa: PLC0415  imports tokenizers

    tokenizer = manifest.tokenizer.to_tokenizer(read_tokenizer(folder, manifest))
    return Texts(manifest, tokenizer, inputs)
