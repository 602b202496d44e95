"""The text of documents and of spans, read again from the input of a data set."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import BinaryIO

import msgspec
import numpy as np
import pyarrow as pa
from tokenizers import Encoding, Tokenizer

from corpusmill.arrays import ragged
from corpusmill.arrays.document_facts import digests_of
from corpusmill.corpus.decompression import open_decompressed
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.input_formats import read_corpus
from corpusmill.corpus.options import DocumentOptions
from corpusmill.dataset.manifest import Manifest
from corpusmill.errors import catch_panics
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.provenance.inputs import Inputs
from corpusmill.provenance.read_again import list_ranges
from corpusmill.provenance.records import DocumentRecord, Span, UnreadableTextError
from corpusmill.tokenization.text_cuts import TextCuts
from corpusmill.tokenization.tokenizer_file import TokenizerFile


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
        options = msgspec.convert(dict(manifest.corpus.options), DocumentOptions)
        self._options = replace(options, keep_fields=())

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.from_str(self.tokenizer.json)
        tokenizer.encode_special_tokens = not self.tokenizer.options.special_tokens_in_text
        return tokenizer

    @cached_property
    def _cuts(self) -> TextCuts | None:
        entry = self._manifest.objective
        options = OBJECTIVES.load_recorded(entry.name, entry.package)
        made = msgspec.convert(dict(entry.options), options)
        return made.bind(self.tokenizer).text_cuts(self._manifest.seed)

    def read(self, record: DocumentRecord) -> pa.RecordBatch:
        """Return a document as `corpusmill.corpus.batches.TEXT_SCHEMA` has it, one row.

        Raises:
            UnreadableTextError: its file is not there, or has another text now.
        """
        name = self._manifest.corpus.files[record.file_number].path
        file = FileRange(name, record.file_number, self._options)
        for part in list_ranges(file, record.place, record.place):
            for stream in self._inputs.open(name):
                document = _find(open_decompressed(stream, name), part, record)
                if document is not None:
                    return document
        raise UnreadableTextError(f"{name} is not what it was when the data set was built")

    @catch_panics("the tokenizers library")
    def spell(self, document: pa.RecordBatch, spans: Iterable[Span]) -> list[str]:
        """Return the text of spans of a document.

        Args:
            document: the document, as `read` returns it.
            spans: its spans.

        Raises:
            UnreadableTextError: the tokenizer gives the document fewer tokens than a span asks for.
        """
        pieces = self.pieces(document)
        separator = "\n" if self._cuts is None else ""
        starts = [*accumulate((len(piece) + len(separator) for piece in pieces), initial=0)]
        whole = separator.join(pieces)
        encodings: list[Encoding] = []
        ends, texts = [0], []
        for span in spans:
            last = span.first_token + span.tokens
            while ends[-1] < last and len(encodings) < len(pieces):
                encoded = self._tokenizer.encode(pieces[len(encodings)], add_special_tokens=False)
                encodings.append(encoded)
                ends.append(ends[-1] + len(encoded))
            if ends[-1] < last:
                cause = "its text has fewer tokens than when the data set was built"
                raise UnreadableTextError(cause)
            bounds = []
            for token, side in ((span.first_token, 0), (last - 1, 1)):
                piece = bisect_right(ends, token) - 1
                bounds.append(starts[piece] + encodings[piece].offsets[token - ends[piece]][side])
            texts.append(whole[slice(*bounds)])
        return texts

    def pieces(self, document: pa.RecordBatch) -> list[str]:
        """Return the sentences of a document, or the pieces into which its objective cuts it.

        Args:
            document: the document, as `read` returns it.
        """
        sentences = document.column("sentences").flatten()
        if self._cuts is None:
            return [str(text) for text in sentences.to_pylist()]
        text, offsets = ragged.from_arrow(sentences)
        ids, provenance = document.column("document").to_numpy(), self._manifest.provenance
        # Cuts are drawn by the ids from before any merge.
        own = provenance.own_ids(ids) if provenance else ids
        bounds, _ = self._cuts(own, text, offsets.astype(np.int64))
        data = text.tobytes()
        return [data[start:end].decode() for start, end in pairwise(bounds.tolist())]


def _find(stream: BinaryIO, part: FileRange, record: DocumentRecord) -> pa.RecordBatch | None:
    """Return a document with its id and its digest, one row, if a range of a file holds it."""
    for batch in read_corpus(stream, part):
        ids = batch.documents.column("document").to_numpy()
        for row in np.flatnonzero(ids == record.document).tolist():
            document = batch.documents.slice(row, 1)
            if digests_of(document)[0] == record.digest:
                return document
    return None
