"""The formats of a corpus: which there are, which a file has, and who reads it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from corpusmill.corpus.archives.tar import read_tar
from corpusmill.corpus.archives.wet import check_wet, read_wet
from corpusmill.corpus.batches import DocumentBatch, ReadCounts
from corpusmill.corpus.decompression import COMPRESSED_SUFFIXES, has_suffix, is_compressed
from corpusmill.corpus.options import DocumentOptions
from corpusmill.corpus.records.csv_rows import check_csv_field, read_csv
from corpusmill.corpus.records.json_lines import check_json_field, read_line_records
from corpusmill.corpus.sentence_splitting import load_splitter, split_sentences
from corpusmill.corpus.tables.arrow import ArrowTable
from corpusmill.corpus.tables.avro import AvroTable
from corpusmill.corpus.tables.parquet import ParquetTable
from corpusmill.corpus.tables.reading import OpenTable, check_table, read_table
from corpusmill.corpus.text.whole_documents import read_text
from corpusmill.errors import UserError

Read = Callable[[BinaryIO, str, int, int, int | None, DocumentOptions], Iterator[DocumentBatch]]
Check = Callable[[BinaryIO, str, DocumentOptions], None]


def _check_nothing(stream: BinaryIO, file: str, options: DocumentOptions) -> None:
    pass


class CorpusFormat(NamedTuple):
    """What the job knows of a format.

    Attributes:
        read: reads the documents of a range of a file, as `line_documents.read_documents` does.
        suffixes: ends of file names that tell of it.
        check: refuses with a UserError what the start of a file shows to be wrong with the options.
        in_ranges: whether a plain file may be read in byte ranges.
        in_compressed: whether a file may be compressed as a whole.
        compresses: whether the format itself compresses the text as a rule.
    """

    read: Read
    suffixes: tuple[str, ...] = ()
    check: Check = _check_nothing
    in_ranges: bool = True
    in_compressed: bool = True
    compresses: bool = False


def _table(open_table: OpenTable, suffixes: tuple[str, ...], compresses: bool) -> CorpusFormat:
    read, check = partial(read_table, open_table), partial(check_table, open_table)
    return CorpusFormat(read, suffixes, check, in_compressed=False, compresses=compresses)


FORMATS: dict[str, CorpusFormat] = {
    "text": CorpusFormat(read_text),
    "json-lines": CorpusFormat(read_line_records, (".jsonl", ".ndjson", ".json"), check_json_field),
    "lines": CorpusFormat(read_line_records),
    "csv": CorpusFormat(read_csv, (".csv",), check_csv_field, in_ranges=False),
    "tsv": CorpusFormat(read_csv, (".tsv",), check_csv_field, in_ranges=False),
    "tar": CorpusFormat(read_tar, (".tar", ".tgz", ".tbz2", ".txz", ".tzst"), in_ranges=False),
    "wet": CorpusFormat(read_wet, (".wet", ".warc"), check_wet, in_ranges=False),
    "parquet": _table(ParquetTable, (".parquet", ".pq"), compresses=True),
    "arrow": _table(ArrowTable, (".arrow", ".feather"), compresses=False),
    "avro": _table(AvroTable, (".avro",), compresses=True),
}
_BY_SUFFIX = {suffix: name for name, of in FORMATS.items() for suffix in of.suffixes}


def guess_format(name: str) -> str:
    """The format that a file's name tells: `a.jsonl.gz` holds JSON lines."""
    path = PurePosixPath(name.lower())
    if path.suffix in COMPRESSED_SUFFIXES and path.suffix not in _BY_SUFFIX:
        path = path.with_suffix("")
    return _BY_SUFFIX.get(path.suffix, "text")


def take_suffixes(folder: str, names: Sequence[str], suffixes: Sequence[str]) -> list[str]:
    """The files of a folder that end with one of some suffixes; else the tar archives in it.

    Args:
        folder: as the user named it.
        names: its files.
        suffixes: those that are wanted, of files and of members of archives; none for all.

    Raises:
        UserError: there is no such file, with the suffixes that there are.
    """
    taken = [name for name in names if has_suffix(name, suffixes)]
    taken = taken or [name for name in names if guess_format(name) == "tar"]
    if not taken:
        found = ", ".join(sorted({PurePosixPath(name).suffix or "none" for name in names}))
        raise UserError(
            f"--suffixes {' '.join(suffixes)}",
            f"no file of {folder} ends with one of them; there are {found}",
            "Give those of the files to take",
        )
    return taken


def reads_in_ranges(options: DocumentOptions) -> bool:
    """Whether plain files of the options' format may be read in byte ranges."""
    if options.input_format == "text" and options.document_rule == "whole-file":
        # A document is of the range of its first byte: of such a file, the first. Only where it is
        # cut by place, its pieces are documents of their own ranges.
        return options.keeps_text
    return FORMATS[options.input_format].in_ranges


def resolve_format(options: DocumentOptions, names: Sequence[str]) -> DocumentOptions:
    """The options with the format that the files' names tell, where none is given.

    Raises:
        UserError: the names tell of several formats, or of a compressed file of a format that is
            not read from such.
    """
    if options.input_format == "auto":
        options = _guess_of_all(options, names)
    compressed = [name for name in names if is_compressed(name)]
    if compressed and not FORMATS[options.input_format].in_compressed:
        cause = f"{options.input_format} files are sought in, which a compressed file cannot be"
        raise UserError(f"--input {compressed[0]}", cause, "Decompress it")
    return options


def _guess_of_all(options: DocumentOptions, names: Sequence[str]) -> DocumentOptions:
    of_names = {guess_format(name): name for name in names}
    if len(of_names) > 1:
        examples = ", ".join(f"{name} ({of})" for of, name in sorted(of_names.items()))
        raise UserError(
            "--input-format auto",
            f"the names of the input files tell of several formats: {examples}",
            "Give the format, or build a data set from files of one",
        )
    return replace(options, input_format=next(iter(of_names)))  # type: ignore[arg-type]


def read_corpus(
    stream: BinaryIO,
    file: str,
    file_index: int,
    start: int,
    end: int | None,
    options: DocumentOptions,
) -> Iterator[DocumentBatch]:
    """Read the documents of a range of a file, as `line_documents.read_documents` does.

    Where the options say so, their lines are split into sentences.

    Args:
        stream: the file's bytes, decompressed.
        file: path for the rejects.
        file_index: index of the file in the sorted list of inputs.
        start: first byte of the range.
        end: byte after the range; None for the end of the file.
        options: without a format, the file's name tells it.
    """
    of_file = guess_format(file) if options.input_format == "auto" else options.input_format
    options = replace(options, input_format=of_file)  # type: ignore[arg-type]
    batches = FORMATS[of_file].read(stream, file, file_index, start, end, options)
    if options.language is None:
        return batches
    return (_split(batch, options.language) for batch in batches)


def _split(batch: DocumentBatch, language: str) -> DocumentBatch:
    documents, unsplit = split_sentences(batch.documents, language)
    more = _count_sentences(documents) - _count_sentences(batch.documents)
    counts = batch.counts + ReadCounts(sentences=more, unsplit_lines=unsplit)
    return replace(batch, documents=documents, counts=counts)


def _count_sentences(documents: pa.RecordBatch) -> int:
    return len(documents.column("sentences").flatten())


def check_start(stream: BinaryIO, file: str, options: DocumentOptions) -> None:
    """Refuse what is wrong with the options, as far as a file's start shows, before any work.

    Args:
        stream: a file, decompressed.
        file: its path.
        options: with a format.

    Raises:
        UserError: say for a text field that the first record lacks, with those that exist, or a
            language whose sentences nothing here can split.
    """
    if options.language is not None:
        load_splitter(options.language)
    FORMATS[options.input_format].check(stream, file, options)
