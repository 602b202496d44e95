"""The input formats: which ones there are, which one a file has, and what reads it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any, BinaryIO, cast

from corpusmill.corpus.batches import BATCH_BYTES, DocumentBatch, FileRange, ReadCounts
from corpusmill.corpus.content import (
    Content,
    check_compression,
    has_open_line,
    has_returns,
    judge,
    judge_bytes,
)
from corpusmill.corpus.decompression import (
    COMPRESSED_SUFFIXES,
    HEAD_BYTES,
    LINE_HEAD_BYTES,
    DamagedStreamError,
    ReturnReader,
    compression_of,
    has_suffix,
    is_decompressed,
    open_decompressed,
    peek,
)
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.records.csv_rows import check_csv_field, read_csv
from corpusmill.corpus.records.json_lines import check_json_field, read_line_records
from corpusmill.corpus.records.json_values import check_json, read_json
from corpusmill.corpus.records.record_documents import RecordCollector
from corpusmill.corpus.registry import FORMATS, CorpusFormat
from corpusmill.corpus.sentence_splitting import load_splitter, split_sentences
from corpusmill.corpus.tables.arrow import ArrowTable, ParquetTable
from corpusmill.corpus.tables.reading import PIECE_BITS, OpenTable, check_table, read_table
from corpusmill.corpus.text.text_documents import read_text
from corpusmill.errors import UserError, option


def _later(module: str, name: str) -> Any:
    """Return a function of a module whose library is imported when it is called."""

    def call(*arguments: Any) -> Any:
        return getattr(import_module(module), name)(*arguments)

    return call


def _table(
    open_table: OpenTable,
    suffixes: tuple[str, ...],
    compresses: bool = False,
    in_ranges: bool = False,
) -> CorpusFormat:
    return CorpusFormat(
        partial(read_table, open_table),
        suffixes,
        partial(check_table, open_table),
        in_ranges,
        in_compressed=False,
        compresses=compresses,
        has_fields=True,
        piece_bits=PIECE_BITS,
    )


# `corpusmill.corpus.registry.FORMATS` has them by name.
_text = partial(CorpusFormat, is_text=True)
_records = partial(_text, has_fields=True)
TEXT = _text(read_text)
LINES = _text(read_line_records)
_LINES_OF = (".jsonl", ".jsonlines", ".jl", ".ndjson", ".json")
JSON_LINES = _records(read_line_records, _LINES_OF, check_json_field)
JSON = _records(read_json, (), check_json, in_ranges=False)
CSV = _records(read_csv, (".csv",), check_csv_field, in_ranges=False)
TSV = _records(read_csv, (".tsv",), check_csv_field, in_ranges=False)
_archives = partial(_later, "corpusmill.corpus.archives")
_TAR_SUFFIXES = (".tar", ".tgz", ".tbz2", ".txz", ".tzst")
TAR = CorpusFormat(_archives("read_tar"), _TAR_SUFFIXES, _archives("check_tar"), in_ranges=False)
_WET_SUFFIXES = (".wet", ".warc")
WET = CorpusFormat(_archives("read_wet"), _WET_SUFFIXES, _archives("check_wet"), in_ranges=False)
PARQUET = _table(ParquetTable, (".parquet", ".pq"), compresses=True, in_ranges=True)
ARROW = _table(ArrowTable, (".arrow", ".feather"))
AVRO = _table(_later("corpusmill.corpus.tables.avro", "AvroTable"), (".avro",), compresses=True)


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


def look_at(raw: BinaryIO, name: str, most: int = LINE_HEAD_BYTES) -> Content:
    """Judge a file by its first bytes.

    Args:
        raw: the file, seekable, at its beginning.
        name: its name, whose suffix counts if the bytes are neither compressed nor text.
        most: how many bytes of its text are looked at.
    """
    head = peek(raw, HEAD_BYTES)
    compression = compression_of(head, name)
    if problem := check_compression(head, compression):
        return problem
    text = open_decompressed(raw, name) if compression else raw
    return judge(*_peek_head(text, most))._replace(compression=compression)


def _peek_head(stream: BinaryIO, most: int = LINE_HEAD_BYTES) -> tuple[bytes, bool]:
    """Return the first bytes of a stream, by which it is judged, as `peek` does.

    They are more than usual if they hold no whole line, and only the end of the line tells whether
    the text is of JSON lines, or whether carriage returns end its lines.

    Args:
        stream: of `open_decompressed`.
        most: how many bytes they may be.

    Returns:
        The bytes, and whether they are all.
    """
    size = HEAD_BYTES
    while True:
        head = peek(stream, size)
        if len(head) < size or size >= most or not has_open_line(head):
            return head, len(head) < size
        size = min(2 * size, most)


def judge_name(name: str, input_format: str = "") -> Content:
    """Return what the name of a file tells, where nothing is known but a format that was given."""
    return Content(compression_of(b"", name), input_format, is_known=False)


def resolve_format(options: DocumentOptions, files: Mapping[str, Content]) -> DocumentOptions:
    """Return the options with a format: if there is none yet, that of the files.

    Args:
        options: of the corpus.
        files: what the files are, by their names.

    Raises:
        UserError: the files have several formats, one is of no format that is read or of another
            one than the options have, one is compressed whose format cannot be read from a
            compressed file, or fields are kept of a format that has none.
    """
    is_chosen = options.input_format != "auto"
    formats = {
        name: options.input_format if is_chosen else _format_of(name, content)
        for name, content in files.items()
    }
    for name, content in files.items():
        if conflict := find_conflict(content, formats[name], is_chosen):
            raise UserError(option("input", name), *conflict)
    options = _choose_one_format(options, formats)
    if options.text_maker and not FORMATS[options.input_format].has_fields:
        named = option("input_format", options.input_format)
        cause = "its documents have no fields, of which the objective makes a text"
        raise UserError(named, cause, f"Give {_list_with_fields()}")
    if options.keep_fields and not FORMATS[options.input_format].has_fields:
        named = options.mention_field(options.keep_fields[0], options.keep_fields)
        cause = f"documents of the format {options.input_format} have no fields"
        raise UserError(named, cause, f"Leave it out, or give {_list_with_fields()}")
    is_foreign = FORMATS.package_of(options.input_format) is not None
    if options.where is not None and (is_foreign or not FORMATS[options.input_format].has_fields):
        cause = f"documents of the format {options.input_format} have no fields to judge"
        cure = f"Leave it out, or give {_list_with_fields()}"
        raise UserError(option("where", options.where), cause, cure)
    compressed = [name for name, content in files.items() if content.compression]
    if compressed and not FORMATS[options.input_format].in_compressed:
        cause = f"{options.input_format} files cannot be read from a compressed file"
        raise UserError(option("input", compressed[0]), cause, "Decompress it")
    return options


def find_conflict(
    content: Content, input_format: str, is_chosen: bool = True
) -> tuple[str, str] | None:
    """Return why a file is not read in a format, and what cures it; None if nothing speaks against.

    Args:
        content: what the file is.
        input_format: the format.
        is_chosen: whether someone has chosen it, and not what this file or others are.
    """
    reader = FORMATS[input_format]
    if FORMATS.package_of(input_format) is not None:
        return None
    if content.what:
        is_wanted = is_chosen and content.is_text and reader.is_text and not reader.has_fields
        is_left_to_reader = not (reader.is_text or content.is_text or input_format in _MARKED)
        cure = content.cure + AS_TEXT * content.is_text
        return None if is_wanted or is_left_to_reader else (f"it is {content.what}", cure)
    if not content.format and content.is_known and input_format in _MARKED:
        return f"it is text, not {input_format}", "Rename it, or give its format"
    lacks_lines = (content.format, input_format) == ("json", "json-lines")
    is_other = not (is_chosen and content.is_text) or lacks_lines or input_format in _MARKED
    is_same = content.format in {"", input_format} or (content.format, input_format) in _READ_ALIKE
    if is_same or not is_other:
        return None
    cure = f"Give {option('input_format', content.format)}, or leave the option out"
    cure += AS_TEXT * (content.is_text and input_format not in _MARKED)
    return f"it is of the format {content.format}, not {input_format}", cure


# Ends the cure of what may be a text after all.
AS_TEXT = f", or give {option('input_format', 'text')} to train on it as it stands"
# Formats whose files always begin with a mark.
_MARKED = {"parquet", "avro"}
# What a file is, and a format whose reader finds that out by itself.
_READ_ALIKE = {("csv", "tsv"), ("tsv", "csv"), ("json-lines", "json")}


def _format_of(name: str, content: Content) -> str:
    """Return the format of a file: what it certainly is, or else what its name tells."""
    guessed = guess_format(name)
    # Its name makes certain what part of it shows.
    if guessed == "json-lines" and content.resembles == "json":
        return "json"
    if not content.format or FORMATS.package_of(guessed) is not None:
        return guessed
    # What separates cells is found anew by whoever reads them.
    return guessed if {guessed, content.format} == {"csv", "tsv"} else content.format


def _list_with_fields() -> str:
    names = [name for name in FORMATS.names if FORMATS[name].has_fields]
    return f"files of {', '.join(names[:-1])} or {names[-1]}"


def _choose_one_format(options: DocumentOptions, formats: Mapping[str, str]) -> DocumentOptions:
    """Return the options with the format that all files have, by their names."""
    names = {input_format: name for name, input_format in formats.items()}
    if {*names} == {"json", "json-lines"}:  # JSON lines are objects one after the other
        del names["json-lines"]
    if len(names) > 1:
        examples = ", ".join(f"{name} ({known})" for known, name in sorted(names.items()))
        cause = f"the input files have several formats: {examples}"
        cure = f"Build from each format as a source of its own ({option('source', 'NAME=PATH')}), "
        cure += f"or give one format for all files, such as {option('input_format', 'text')}"
        raise UserError(option("input_format", "auto"), cause, cure)
    return replace(options, input_format=next(iter(names)))


def open_range(raw: BinaryIO, part: FileRange) -> tuple[BinaryIO, FileRange]:
    """Open a range of a file, which may be compressed, for `read_corpus`.

    Args:
        raw: the file, seekable, at its beginning.
        part: the range.

    Returns:
        The file itself and the range; or its text and all of it if it is compressed.
    """
    stream = open_decompressed(raw, part.file)
    return stream, replace(part, start=0, end=None) if is_decompressed(stream) else part


def read_file(raw: BinaryIO, part: FileRange) -> Iterator[DocumentBatch]:
    """Read the documents of a range of a file, which may be compressed, as `read_corpus` does.

    Args:
        raw: the file, seekable, at its beginning.
        part: the range; a compressed file is read whole.
    """
    return read_corpus(*open_range(raw, part))


def read_corpus(stream: BinaryIO, part: FileRange) -> Iterator[DocumentBatch]:
    """Read the documents of a range of a file, and split their lines if the options say so.

    Args:
        stream: the file's bytes, decompressed.
        part: the range; without a format in its options, the file itself tells it.

    Yields:
        At least one batch. A file that is not text, where text is read, is a reject, and so is one
        of another format than the options have where nobody has chosen the format.

    Raises:
        UserError: a place in the file does not fit a document id.
    """
    options, is_begin = part.options, not part.start
    is_open = options.input_format == "auto"
    if is_open or (is_begin and FORMATS[options.input_format].is_text):
        head, is_whole = _peek_head(stream)
    if is_open:
        options = replace(options, input_format=_format_of(part.file, judge(head, is_whole)))
    reader, part = FORMATS[options.input_format], replace(part, options=options)
    if is_begin and reader.is_text:
        is_known = part.format_is_known
        found = judge_bytes(head) if is_known else judge(head, is_whole)
        if found and (conflict := find_conflict(found, options.input_format, is_known)):
            return iter([_refuse_file(stream, part, conflict[0])])
        stream = cast(BinaryIO, ReturnReader(stream)) if has_returns(head) else stream
    batches = reader.read(stream, part)
    if options.text_maker:
        batches = _name_file(batches, part.file)
    if options.language is None:
        return batches
    return (split_sentences(batch, options.language) for batch in batches)


def _name_file(batches: Iterator[DocumentBatch], file: str) -> Iterator[DocumentBatch]:
    """Say which file a record is in that stops the build, as no text can be made of it."""
    try:
        yield from batches
    except UserError as error:
        value, cause, cure = error.args
        raise type(error)(value, f"{cause}, which is in {file}", cure) from error


def measure_rest(batch: DocumentBatch, stream: BinaryIO, raw: BinaryIO, size: int) -> int:
    """Return how many stored bytes of a file are lost that could not be read to its end.

    Args:
        batch: the last one of the file.
        stream: what it was read from, as `open_range` opened it.
        raw: the file.
        size: of the file, in bytes.
    """
    # A plain archive is read on to its end, whatever its reader makes of it.
    places = [reject.offset for reject in batch.rejects if reject.length < 0]
    place = raw.tell() if is_decompressed(stream) else max(places, default=0)
    # What a file lacks that breaks off is known to nobody.
    return size - place if place < size else size


def _refuse_file(stream: BinaryIO, part: FileRange, detail: str) -> DocumentBatch:
    """Count a whole file as one reject."""
    size = 0
    with suppress(DamagedStreamError):
        while block := stream.read(BATCH_BYTES):
            size += len(block)
    collector = RecordCollector(part)
    collector.refuse(0, size, "other-format", detail)
    collector.counts += ReadCounts(bytes=size, rejected_bytes=size, unfinished_files=1)
    return collector.take()


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
    reader = FORMATS[options.input_format]
    if reader.is_text and has_returns(_peek_head(stream)[0]):
        stream = cast(BinaryIO, ReturnReader(stream))
    if reader.check:
        reader.check(stream, file, options)
