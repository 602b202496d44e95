"""The table of input formats, each imported when it is needed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from corpusmill.corpus.batches import DocumentBatch, FileRange
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.plugins import Plugins


@dataclass(frozen=True)
class CorpusFormat:
    """An input format.

    Attributes:
        read: reads the documents of a range of a file, as `text.reading.read_text` does.
        suffixes: ends of file names that tell the format.
        check: refuses with a UserError what the start of a file shows to be wrong with the options.
        in_ranges: whether a plain file may be read in byte ranges.
        in_compressed: whether a file may be compressed as a whole.
        compresses: whether the format usually compresses the text itself.
        has_fields: whether a record has fields beside its text, which `keep_fields` may name.
        is_text: whether files are text in UTF-8, whose lines may end with carriage returns alone.
        piece_bits: how many of the last bits of a document's place number the pieces of its record;
            the other ones number the record in its file. 0 where a place is a byte.
    """

    read: Callable[[BinaryIO, FileRange], Iterator[DocumentBatch]]
    suffixes: tuple[str, ...] = ()
    check: Callable[[BinaryIO, str, DocumentOptions], None] | None = None
    in_ranges: bool = True
    in_compressed: bool = True
    compresses: bool = False
    has_fields: bool = False
    is_text: bool = False
    piece_bits: int = 0


_NAMES = (
    "text", "json-lines", "json", "lines", "csv", "tsv", "tar", "wet", "parquet", "arrow", "avro",
)  # fmt: skip

FORMATS: Plugins[CorpusFormat] = Plugins(
    "corpusmill.input_formats",
    "input_format",
    {name: f"corpusmill.corpus.input_formats:{name.upper().replace('-', '_')}" for name in _NAMES},
    lambda value: value if isinstance(value, CorpusFormat) else None,
    "a corpusmill.extending.CorpusFormat",
)
