"""The formats of a corpus: which there are, which a file has, and who reads it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import BinaryIO, Literal

import orjson

from corpusmill.decompression import COMPRESSED_SUFFIXES
from corpusmill.documents import DocumentBatch, DocumentOptions, read_documents
from corpusmill.faults import UserError
from corpusmill.line_records import read_line_records

Format = Literal["text", "json-lines", "lines"]
Reader = Callable[[BinaryIO, str, int, int, int | None, DocumentOptions], Iterator[DocumentBatch]]

READERS: dict[Format, Reader] = {
    "text": read_documents,
    "json-lines": read_line_records,
    "lines": read_line_records,
}
_SUFFIXES: dict[str, Format] = {
    ".jsonl": "json-lines",
    ".ndjson": "json-lines",
    ".json": "json-lines",
}

# Enough for a first record; a longer one is met by the run itself.
_PROBE_BYTES = 2**20


def guess_format(name: str) -> Format:
    """The format that a file's name tells: `a.jsonl.gz` holds JSON lines."""
    path = PurePosixPath(name.lower())
    if path.suffix in COMPRESSED_SUFFIXES:
        path = path.with_suffix("")
    return _SUFFIXES.get(path.suffix, "text")


def resolve_format(options: DocumentOptions, names: Sequence[str]) -> DocumentOptions:
    """The options with the format that the files' names tell, where none is given.

    Raises:
        UserError: the names tell of several formats.
    """
    if options.input_format != "auto":
        return options
    of_names = {guess_format(name): name for name in names}
    if len(of_names) > 1:
        examples = ", ".join(f"{name} ({of})" for of, name in sorted(of_names.items()))
        raise UserError(
            "--input-format auto",
            f"the names of the input files tell of several formats: {examples}",
            "Give the format, or build a data set from files of one",
        )
    return replace(options, input_format=next(iter(of_names)))


def read_corpus(
    stream: BinaryIO,
    file: str,
    file_index: int,
    start: int,
    end: int | None,
    options: DocumentOptions,
) -> Iterator[DocumentBatch]:
    """The documents of a range of a file; see `corpusmill.documents.read_documents`.

    Args:
        stream: the file's bytes, decompressed.
        file: path for the rejects.
        file_index: index of the file in the sorted list of inputs.
        start: first byte of the range.
        end: byte after the range; None for the end of the file.
        options: without a format, the file's name tells it.
    """
    of_file = guess_format(file) if options.input_format == "auto" else options.input_format
    options = replace(options, input_format=of_file)
    return READERS[of_file](stream, file, file_index, start, end, options)


def check_fields(stream: BinaryIO, file: str, options: DocumentOptions) -> None:
    """Refuse a text field that the first record does not have, before any work.

    Args:
        stream: the start of a file, decompressed.
        file: its path.
        options: with a format.

    Raises:
        UserError: with the fields that exist. A first line that is no record is left to the run.
    """
    if options.input_format != "json-lines":
        return
    lines = stream.read(_PROBE_BYTES).lstrip().split(b"\n", 1)
    try:
        record = orjson.loads(lines[0])
    except orjson.JSONDecodeError:
        return
    if isinstance(record, dict) and options.text_field not in record:
        fields = ", ".join(record) or "none"
        raise UserError(
            f"--text-field {options.text_field}",
            f"the first record of {file} has no such field; its fields are {fields}",
            "Name the field that holds the text",
        )
