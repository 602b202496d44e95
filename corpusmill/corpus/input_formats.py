"""The input formats: which ones there are, which one a file has, and what reads it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import PurePosixPath
from typing import BinaryIO

from corpusmill.corpus.archives import read_tar
from corpusmill.corpus.batches import DocumentBatch, FileRange
from corpusmill.corpus.decompression import COMPRESSED_SUFFIXES, has_suffix, is_compressed
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.records.csv_rows import check_csv_field, read_csv
from corpusmill.corpus.records.json_lines import check_json_field, read_line_records
from corpusmill.corpus.registry import FORMATS
from corpusmill.corpus.sentence_splitting import load_splitter, split_sentences
from corpusmill.corpus.tables.arrow import ArrowTable
from corpusmill.corpus.tables.parquet import ParquetTable
from corpusmill.corpus.tables.reading import PIECE_BITS, OpenTable, check_table, read_table
from corpusmill.corpus.tables.table import Table, TableStream
from corpusmill.corpus.text.text_documents import read_text
from corpusmill.errors import UserError, option
from corpusmill.limits import RefusalLimits


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
    piece_bits: int = 0


def _table(open_table: OpenTable, suffixes: tuple[str, ...], compresses: bool) -> CorpusFormat:
    read, check = partial(read_table, open_table), partial(check_table, open_table)
    return CorpusFormat(
        read,
        suffixes,
        check,
        in_compressed=False,
        compresses=compresses,
        has_fields=True,
        piece_bits=PIECE_BITS,
    )


def _open_avro(
    stream: TableStream, size: int, options: DocumentOptions, limits: RefusalLimits
) -> Table:
    from corpusmill.corpus.tables.avro import AvroTable  # noqa: PLC0415  imports fastavro

    return AvroTable(stream, size, options, limits)


def _read_wet(stream: BinaryIO, part: FileRange) -> Iterator[DocumentBatch]:
    from corpusmill.corpus.archives import read_wet  # noqa: PLC0415  imports warcio

    return read_wet(stream, part)


def _check_wet(stream: BinaryIO, file: str, options: DocumentOptions) -> None:
    from corpusmill.corpus.archives import check_wet  # noqa: PLC0415  imports warcio

    check_wet(stream, file, options)


# `corpusmill.corpus.registry.FORMATS` has them by name.
TEXT = CorpusFormat(read_text)
JSON_LINES = CorpusFormat(
    read_line_records, (".jsonl", ".ndjson", ".json"), check_json_field, has_fields=True
)
LINES = CorpusFormat(read_line_records)
CSV = CorpusFormat(read_csv, (".csv",), check_csv_field, in_ranges=False, has_fields=True)
TSV = CorpusFormat(read_csv, (".tsv",), check_csv_field, in_ranges=False, has_fields=True)
TAR = CorpusFormat(read_tar, (".tar", ".tgz", ".tbz2", ".txz", ".tzst"), in_ranges=False)
WET = CorpusFormat(_read_wet, (".wet", ".warc"), _check_wet, in_ranges=False)
PARQUET = _table(ParquetTable, (".parquet", ".pq"), compresses=True)
ARROW = _table(ArrowTable, (".arrow", ".feather"), compresses=False)
AVRO = _table(_open_avro, (".avro",), compresses=True)


@cache
def _by_suffix() -> dict[str, str]:
    """Map the ends of file names to formats; another package cannot take those of ours."""
    formats = zip(reversed(FORMATS.names), reversed(FORMATS.values()), strict=True)
    return {suffix: name for name, this in formats for suffix in this.suffixes}


def guess_format(name: str) -> str:
    """Return the format that a file's name tells: `a.jsonl.gz` holds JSON lines."""
    path, formats = PurePosixPath(name.lower()), _by_suffix()
    if path.suffix in COMPRESSED_SUFFIXES and path.suffix not in formats:
        path = path.with_suffix("")
    return formats.get(path.suffix, "text")


def take_suffixes(folder: str, names: Sequence[str], suffixes: Sequence[str]) -> list[str]:
    """Return the files of a folder with one of some suffixes; if there are none, its tar archives.

    Args:
        folder: as the user named it.
        names: its files.
        suffixes: the wanted ones, of files and of members of archives; all files if there are none.

    Raises:
        UserError: there is no such file; the message names the suffixes of the files.
    """
    chosen = [name for name in names if has_suffix(name, suffixes)]
    chosen = chosen or [name for name in names if guess_format(name) == "tar"]
    if not chosen:
        existing = ", ".join(sorted({PurePosixPath(name).suffix or "none" for name in names}))
        cause = f"no file of {folder} ends with one of them; there are {existing}"
        cure = "Give the suffixes of the files to read"
        raise UserError(option("suffixes", suffixes), cause, cure)
    return chosen


def reads_in_ranges(options: DocumentOptions) -> bool:
    """Whether plain files of the options' format may be read in byte ranges."""
    if options.input_format == "text" and options.document_rule == "whole-file":
        # A document is read by the range of its first byte, which would be the first range. Only a
        # file that is cut at multiples of the limit has documents in other ranges.
        return options.keeps_text
    return FORMATS[options.input_format].in_ranges


def piece_bits(options: DocumentOptions) -> int:
    """Return `CorpusFormat.piece_bits` of the options' format."""
    return FORMATS[options.input_format].piece_bits


def resolve_format(options: DocumentOptions, names: Sequence[str]) -> DocumentOptions:
    """Return the options with a format: if there is none yet, that of the files' names.

    Raises:
        UserError: the names tell several formats, a file is compressed whose format cannot be read
            from a compressed file, or fields are kept of a format that has none.
    """
    if options.input_format == "auto":
        options = _guess_one_format(options, names)
    if options.keep_fields and not FORMATS[options.input_format].has_fields:
        named = option("keep_fields", options.keep_fields)
        cause = f"documents of the format {options.input_format} have no fields"
        raise UserError(named, cause, f"Leave it out, or give {_list_with_fields()}")
    compressed = [name for name in names if is_compressed(name)]
    if compressed and not FORMATS[options.input_format].in_compressed:
        cause = f"{options.input_format} files cannot be read from a compressed file"
        raise UserError(option("input", compressed[0]), cause, "Decompress it")
    return options


def _list_with_fields() -> str:
    names = [name for name in FORMATS.names if FORMATS[name].has_fields]
    return f"files of {', '.join(names[:-1])} or {names[-1]}"


def _guess_one_format(options: DocumentOptions, names: Sequence[str]) -> DocumentOptions:
    formats = {guess_format(name): name for name in names}
    if len(formats) > 1:
        examples = ", ".join(f"{name} ({known})" for known, name in sorted(formats.items()))
        cause = f"the names of the input files tell several formats: {examples}"
        cure = f"Build from each format as a source of its own ({option('source', 'NAME=PATH')}), "
        cure += "or give one format for all files"
        raise UserError(option("input_format", "auto"), cause, cure)
    return replace(options, input_format=next(iter(formats)))


def read_corpus(stream: BinaryIO, part: FileRange) -> Iterator[DocumentBatch]:
    """Read the documents of a range of a file, and split their lines if the options say so.

    Args:
        stream: the file's bytes, decompressed.
        part: the range; without a format in its options, the file's name tells it.

    Yields:
        At least one batch.

    Raises:
        UserError: a place in the file does not fit a document id.
    """
    options = part.options
    if options.input_format == "auto":
        options = _guess_one_format(options, [part.file])
    batches = FORMATS[options.input_format].read(stream, replace(part, options=options))
    if options.language is None:
        return batches
    return (split_sentences(batch, options.language) for batch in batches)


def check_start(stream: BinaryIO, file: str, options: DocumentOptions) -> None:
    """Refuse options that do not suit a file, as far as its start shows, before any work.

    Args:
        stream: a file, decompressed.
        file: its path.
        options: with a format.

    Raises:
        UserError: for instance, the first record lacks the text field (the message names the
            existing ones), or there is no splitter for the language.
    """
    if options.language is not None:
        load_splitter(options.language)
    check = FORMATS[options.input_format].check
    if check:
        check(stream, file, options)
