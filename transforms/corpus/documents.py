"""Documents as a collection, for pipelines of one's own: read, tokenize, and then whatever comes.

    documents = pipeline | ReadDocuments("corpus/*.txt")
    tokenized = documents[DOCUMENTS] | TokenizeDocuments("tokenizer.json")
    lengths = tokenized | beam.FlatMap(count_tokens)

An element is a `pyarrow.RecordBatch` with some hundreds of documents, as calls for each document
would take longer than the work:

- text: `document` uint64, the id, and `sentences` list<string>; with `sentence_rule="document"` a
  document is one sentence (`corpusmill.corpus.batches.TEXT_SCHEMA`), and then what is known of the
  document: `length` uint64, and the kept fields (`corpusmill.arrays.text_hashes`);
- tokenized: `document` uint64 and `sentences` list<list<int16 or int32>>, without special tokens
  (`corpusmill.tokenization.encoding.tokenized_schema`).

A document has the id that it has in a data set from the same files, however these are cut into
ranges. The job itself uses `transforms.corpus.prepare` instead, whose tasks can be resumed.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam import coders
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.shared import Shared

from corpusmill.corpus.batches import DocumentBatch
from corpusmill.corpus.conditions import settle_condition
from corpusmill.corpus.content import Content
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import look_at, read_file, reads_in_ranges, resolve_format
from corpusmill.errors import UserError
from corpusmill.tokenization.encoding import encode_documents
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer, load_sentence_tokenizer
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from transforms.coders import NamedOutputs
from transforms.corpus.listed import open_listed
from transforms.corpus.read import REJECTS
from transforms.elements import PlannedRange, cut_ranges
from transforms.storage.files import find_files, open_file, read_existing

DOCUMENTS = "documents"


class RejectedRecord(NamedTuple):
    """An input record that became no document.

    Attributes:
        file: path of its file.
        offset: its first byte, after decompression.
        length: its bytes; -1 if its end was never seen.
        reason: such as "invalid-utf-8".
        detail: what the decoder or parser says; empty after the first 100 of a reason in a range.
    """

    file: str
    offset: int
    length: int
    reason: str
    detail: str


class RecordBatchCoder(coders.Coder):
    """Encodes a batch as an Arrow IPC stream; to pickle a slice would send all of its parent."""

    def encode(self, value: pa.RecordBatch) -> bytes:
        """Return the stream."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write_batch(value)
        content: bytes = sink.getvalue().to_pybytes()
        return content

    def decode(self, encoded: bytes) -> pa.RecordBatch:
        """Return the batch of a stream."""
        with pa.ipc.open_stream(encoded) as reader:
            return reader.read_next_batch()

    def estimate_size(self, value: pa.RecordBatch) -> int:
        """Return about how many bytes a batch takes."""
        return int(value.nbytes)

    def is_deterministic(self) -> bool:
        """Equal batches may have different buffers, so that a batch is no key."""
        return False


coders.registry.register_coder(pa.RecordBatch, RecordBatchCoder)
coders.registry.register_coder(RejectedRecord, coders.RowCoder)


class _ReadRange(beam.DoFn):
    """Read the documents of a range."""

    def __init__(self, options: DocumentOptions) -> None:
        self._options = options

    def process(self, element: PlannedRange) -> Iterator[Any]:
        with open_listed(element) as raw:
            for batch in read_file(raw, element.read_as(self._options)):
                yield from (TaggedOutput(REJECTS, one) for one in _list_rejects(batch))
                if batch.documents.num_rows:
                    yield batch.documents


def _list_rejects(batch: DocumentBatch) -> Iterator[RejectedRecord]:
    for reject in batch.rejects:
        places = reject.offset, reject.length
        yield RejectedRecord(reject.file, *places, reject.reason, reject.detail)
    for some in batch.more_rejects:
        for offset, length in zip(some.offsets.tolist(), some.lengths.tolist(), strict=True):
            yield RejectedRecord(some.file, offset, length, some.reason, "")


class ReadDocuments(beam.PTransform):
    """Read the documents of files, in ranges that all workers share.

    Returns the collections DOCUMENTS, of batches of text, and `transforms.corpus.read.REJECTS`, of
    `RejectedRecord`.

    Args:
        patterns: a path, or several: files or globs, local or in object stores.
        options: how files become documents; by default, lines of text are sentences and WikiText's
            titles and empty lines separate documents.
        range_bytes: the longest range of a file; compressed files are read whole.

    Raises:
        UserError: a pattern matches no file, the files have several formats, or one has none; or
            records are to be joined.
    """

    def __init__(
        self,
        patterns: str | Sequence[str],
        options: DocumentOptions | None = None,
        range_bytes: int = 64 * 2**20,
    ) -> None:
        super().__init__()
        paths = [patterns] if isinstance(patterns, str) else list(patterns)
        sizes = dict[str, int]()
        for path in paths:
            if not (files := find_files(path)):
                raise UserError(path, "no such file", "Give files, or a glob that matches some")
            sizes |= {file.path: file.bytes for file in files}
        names, contents = sorted(sizes), dict[str, Content]()
        for name in names:
            with open_file(name, sizes[name]) as raw:
                contents[name] = look_at(raw, name)
        options = options or DocumentOptions()
        options.refuse_groups()
        resolved = resolve_format(options, contents)
        openers = [partial(open_file, name, sizes[name]) for name in names]
        self._options = settle_condition(resolved, openers)
        in_ranges = reads_in_ranges(self._options)
        ends = {name: in_ranges and contents[name].is_in_ranges for name in names}
        planned = [
            PlannedRange(name, name, 0, 0, sizes[name] if ends[name] else None, sizes[name])
            for name in names
        ]
        self._ranges = list(cut_ranges(planned, range_bytes))

    def expand(self, begin: beam.pvalue.PBegin) -> NamedOutputs:
        """Spread the ranges, and read each of them."""
        read = beam.ParDo(_ReadRange(self._options)).with_output_types(
            pa.RecordBatch, **{REJECTS: RejectedRecord}
        )
        return (
            begin
            | "ListRanges" >> beam.Create(self._ranges).with_output_types(PlannedRange)
            | "SpreadRanges" >> beam.Reshuffle()
            | "ReadRange" >> read.with_outputs(REJECTS, main=DOCUMENTS)
        )


class _Tokenize(beam.DoFn):
    """Tokenize batches; the tokenizer is loaded once in each process."""

    def __init__(self, tokenizer: TokenizerFile) -> None:
        self._json, self._dtype = tokenizer.json, tokenizer.token_dtype
        self._tag, self._shared = tokenizer.digest, Shared()
        self._special_tokens_in_text = tokenizer.options.special_tokens_in_text

    def setup(self) -> None:
        self._tokenizer = self._shared.acquire(self._load, tag=self._tag)

    def _load(self) -> SentenceTokenizer:
        return load_sentence_tokenizer(
            self._json, self._dtype, False, self._special_tokens_in_text, ""
        )

    def process(self, element: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        documents = encode_documents(self._tokenizer, element).documents
        if documents.num_rows:
            yield documents


class TokenizeDocuments(beam.PTransform):
    """Tokenize batches of text; sentences and documents without tokens are left out.

    Args:
        tokenizer: a tokenizer, or its path (`corpusmill.tokenization.sources.read`).

    Raises:
        UserError: there is no such tokenizer.
    """

    def __init__(self, tokenizer: str | TokenizerFile) -> None:
        super().__init__()
        if isinstance(tokenizer, str):
            tokenizer = read_tokenizer(tokenizer, read_existing)
        self._tokenizer = tokenizer

    def expand(self, documents: beam.PCollection[pa.RecordBatch]) -> beam.PCollection:
        """Apply one DoFn."""
        tokenize = beam.ParDo(_Tokenize(self._tokenizer))
        return documents | "Tokenize" >> tokenize.with_output_types(pa.RecordBatch)
