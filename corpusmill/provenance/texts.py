"""The text of documents and of spans, read again from the input of a data set."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from itertools import groupby, pairwise
from typing import BinaryIO, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from corpusmill.arrays import ragged
from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import CorpusReading, make_texts_of
from corpusmill.dataset.manifest import Manifest
from corpusmill.errors import catch_panics
from corpusmill.knobs import knob
from corpusmill.objectives.objective import Objective
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.provenance.read_again import CHANGED, Inputs, UnreadableTextError, find_again
from corpusmill.provenance.store import DocumentRecord, Span
from corpusmill.tokenization.growth import load_tokenizer
from corpusmill.tokenization.marked_texts import MarkedTokenizer
from corpusmill.tokenization.text_cuts import Cuts, TextMarks, remove_marks
from corpusmill.tokenization.tokenizer_file import TokenizerFile

# A document as `corpusmill.corpus.batches.TEXT_SCHEMA` has it, one row; or why it cannot be read.
Document: TypeAlias = pa.RecordBatch | UnreadableTextError

_FEWER_TOKENS = "its text has fewer tokens than when the data set was built"
_WANTED = pa.schema([(name, pa.uint64()) for name in ("document", "length", "digest")])

TOKENIZED_PIECES = knob("tokenized_pieces", 256, test=3)
"""The pieces of a text that are tokenized together when it is traced."""


class Texts:
    """Reads documents of a data set again, and finds the text of their tokens.

    Args:
        manifest: of the data set.
        tokenizer: of the data set.
        inputs: where the corpus is.

    Attributes:
        tokenizer: the tokenizer.
    """

    def __init__(self, manifest: Manifest, tokenizer: TokenizerFile, inputs: Inputs) -> None:
        self._manifest, self._inputs, self.tokenizer = manifest, inputs, tokenizer

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = load_tokenizer(self.tokenizer.encoding_json)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = not self.tokenizer.options.special_tokens_in_text
        return tokenizer

    @cached_property
    def _objective(self) -> Objective:
        entry = self._manifest.objective
        options = OBJECTIVES.load_recorded(entry.name, entry.package)
        made = msgspec.convert(dict(entry.options), options)
        return made.bind(self.tokenizer)

    @cached_property
    def _reading(self) -> CorpusReading:
        maker = self._objective.text_maker(self.tokenizer.json)
        return make_texts_of(self._manifest.corpus.reading.without_fields(), maker)

    @cached_property
    def _cuts(self) -> Cuts | None:
        return self._objective.text_cuts(self._manifest.seed)

    @cached_property
    def _marked(self) -> MarkedTokenizer:
        in_text = self.tokenizer.options.special_tokens_in_text
        return MarkedTokenizer(self.tokenizer.json, in_text)

    def read_spans(
        self, records: Mapping[int, DocumentRecord], spans: Iterable[Span]
    ) -> Iterator[tuple[int, dict[Span, str], str]]:
        """Yield documents with the texts of their spans; each is read and tokenized once.

        Args:
            records: the documents of the spans, by id, and any others.
            spans: the spans, each once.

        Yields:
            The id of each document, the texts of its spans, and why it cannot be read; empty if it
            can.
        """
        of_documents: dict[int, list[Span]] = {number: [] for number in records}
        for span in spans:
            of_documents[span.document].append(span)
        for number, document in self.read_all(records.values()):
            own = of_documents[number]
            try:
                texts = dict(zip(own, self.spell(_readable(document), own), strict=True))
                yield number, texts, ""
            except UnreadableTextError as error:
                yield number, {}, str(error)

    def read(self, record: DocumentRecord) -> pa.RecordBatch:
        """Return a document as `corpusmill.corpus.batches.TEXT_SCHEMA` has it, one row.

        Raises:
            UnreadableTextError: its file is not there, or has another text now.
        """
        [(_, document)] = self.read_all([record])
        return _readable(document)

    def read_all(self, records: Iterable[DocumentRecord]) -> Iterator[tuple[int, Document]]:
        """Yield documents by their ids, each once; those of a file are read together."""
        in_order = sorted(records, key=lambda record: record.document)
        for number, own in groupby(in_order, lambda record: record.file_number):
            yield from self._read_file(number, {record.document: record for record in own})

    def _read_file(
        self, number: int, records: dict[int, DocumentRecord]
    ) -> Iterator[tuple[int, Document]]:
        """Yield documents of a file; those that are found are taken from `records`."""
        name = self._manifest.corpus.files[number].path
        file = FileRange(name, number, self._reading.of_file(number))
        cause = UnreadableTextError(f"{name} {CHANGED}")
        try:
            for stream in self._inputs.open(name):
                columns = [
                    np.array([getattr(record, name) for record in records.values()], np.uint64)
                    for name in _WANTED.names
                ]
                wanted = pa.Table.from_batches([ragged.to_batch(columns, _WANTED)])

                def rewind(stream: BinaryIO = stream) -> AbstractContextManager[BinaryIO]:
                    stream.seek(0)
                    return nullcontext(stream)

                for documents in find_again(rewind, file, wanted):
                    for row, document in enumerate(documents.column("document").to_pylist()):
                        del records[document]
                        yield document, documents.slice(row, 1)
                if not records:
                    return
        except UnreadableTextError as error:
            cause = error
        yield from ((document, cause) for document in records)

    @catch_panics("the tokenizers library")
    def spell(self, document: pa.RecordBatch, spans: Sequence[Span]) -> list[str]:
        """Return the text of spans of a document.

        Args:
            document: the document, as `read` returns it.
            spans: its spans.

        Raises:
            UnreadableTextError: the tokenizer gives the document fewer tokens than a span asks for.
        """
        bounds = [(span.first_token, span.first_token + span.tokens - 1) for span in spans]
        if isinstance(self._cuts, TextMarks):
            text = document.column("sentences").flatten()[0].as_py()
            pieces, encoding = self._marked.encode(text)
            whole, places = "".join(pieces), encoding.offsets
            if any(last >= len(places) for _, last in bounds):
                raise UnreadableTextError(_FEWER_TOKENS)
            return [
                remove_marks(whole[places[first][0] : places[last][1]]) for first, last in bounds
            ]
        pieces = self.pieces(document)
        separator = "\n" if self._cuts is None else ""
        tokens = sorted({token for pair in bounds for token in pair})
        found = dict(zip(tokens, self._locate(pieces, len(separator), tokens), strict=False))
        if len(found) < len(tokens):
            raise UnreadableTextError(_FEWER_TOKENS)
        whole = separator.join(pieces)
        return [whole[found[first][0] : found[last][1]] for first, last in bounds]

    def _locate(
        self, pieces: Sequence[str], gap: int, tokens: Sequence[int]
    ) -> Iterator[tuple[int, int]]:
        """Yield where tokens, in ascending order, begin and end in the pieces, which gaps separate.

        The tokens of some pieces are in memory at a time; as many pieces are tokenized as it takes.
        """
        token = character = 0
        wanted = iter(tokens)
        following = next(wanted, None)
        for begin in range(0, len(pieces), TOKENIZED_PIECES):
            part = pieces[begin : begin + TOKENIZED_PIECES]
            if following is None:
                return
            encodings = self._tokenizer.encode_batch(part, add_special_tokens=False)
            for piece, encoding in zip(part, encodings, strict=True):
                while following is not None and following < token + len(encoding):
                    place = encoding.token_to_chars(following - token)
                    assert place  # noqa: S101  it has this token
                    yield character + place[0], character + place[1]
                    following = next(wanted, None)
                token, character = token + len(encoding), character + len(piece) + gap

    def pieces(self, document: pa.RecordBatch) -> list[str]:
        """Return the sentences of a document, or the pieces into which its objective cuts it.

        Args:
            document: the document, as `read` returns it.
        """
        sentences = document.column("sentences").flatten()
        if self._cuts is None:
            return [str(text) for text in sentences.to_pylist()]
        if isinstance(self._cuts, TextMarks):
            return [remove_marks(str(text)) for text in sentences.to_pylist()]
        text, offsets = ragged.from_arrow(sentences)
        ids = document.column("document").to_numpy()
        bounds, _ = self._cuts(ids, text, offsets.astype(np.int64))
        data = text.tobytes()
        return [data[start:end].decode() for start, end in pairwise(bounds.tolist())]


def _readable(document: Document) -> pa.RecordBatch:
    """Return a document.

    Raises:
        UnreadableTextError: it is why there is none.
    """
    if isinstance(document, UnreadableTextError):
        raise document
    return document
