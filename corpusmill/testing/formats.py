"""Checks of input and output formats, as the job, `verify` and the readers use them."""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pyarrow as pa

from corpusmill.arrays.columns import arrow_schema
from corpusmill.corpus.batches import DocumentBatch, FileRange, ReadCounts
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import guess_format, read_corpus
from corpusmill.corpus.registry import FORMATS as INPUT_FORMATS
from corpusmill.dataset.accounting import Expected, find_imbalances
from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS as OUTPUT_FORMATS
from corpusmill.formats.shard_formats import Columns, resolve
from corpusmill.layout.sorting import sort_rows
from corpusmill.objectives.bert import BertOptions
from corpusmill.objectives.gpt import GptOptions
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.testing.datasets import SmallBuild, keyed_rows, small_text, write_dataset
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from corpusmill.verification.check_data_set import verify

_MANY = 10**9
# Rows of every kind: padded lists of several columns, and one list of any length.
_OBJECTIVES: tuple[ObjectiveOptions, ...] = (
    BertOptions(max_seq_length=32, duplicates=2),
    GptOptions(mode="pack", max_seq_length=48),
    GptOptions(),
)


def check_input_format(
    name: str, content: bytes, options: DocumentOptions | None = None, documents: int = 1
) -> None:
    """Check that an input format keeps what the job relies on.

    Args:
        name: the format.
        content: a sound file.
        options: how it is read.
        documents: the least number of documents in the file.

    Raises:
        AssertionError: it does not; the message says what differs.
    """
    assert name in INPUT_FORMATS, f"no entry point of {INPUT_FORMATS.group} is called {name!r}"
    known = INPUT_FORMATS[name]
    for suffix in known.suffixes:
        assert guess_format(f"a{suffix}") == name, f"files that end with {suffix} have another"
    rules = replace(options or DocumentOptions(), input_format=name).or_else("wikitext", "line")
    whole = _read_batches(content, FileRange("a", 0, rules))
    assert sum(batch.documents.num_rows for batch in whole) >= documents, "documents are missing"
    for size in (1, 100):
        with patch("corpusmill.corpus.batches.BATCH_BYTES", size):
            again = _read_batches(content, FileRange("a", 0, rules))
        assert _rows(again) == _rows(whole), "other documents where batches are small"
    if known.in_ranges:
        middle = len(content) // 3
        parts = [
            *_read_batches(content, FileRange("a", 0, rules, 0, middle)),
            *_read_batches(content, FileRange("a", 0, rules, middle, len(content))),
        ]
        assert _rows(parts) == _rows(whole), "other documents where the file is read in two ranges"
    for damaged in (content[: len(content) // 2], content + b"\xff", b""):
        _read_batches(damaged, FileRange("a", 0, rules))


def _read_batches(content: bytes, part: FileRange) -> list[DocumentBatch]:
    """Read a range, and check what it counts."""
    batches = list(read_corpus(io.BytesIO(content), part))
    assert batches, "it yields no batch"
    counts = sum((batch.counts for batch in batches), ReadCounts())
    documents = sum(batch.documents.num_rows for batch in batches)
    assert counts.documents == documents, f"it counts {counts.documents} documents of {documents}"
    if part.start == 0 and part.end is None:
        assert counts.bytes == len(content), f"it counts {counts.bytes} bytes of {len(content)}"
    rejects = sum(batch.count_rejects().total() for batch in batches)
    named = {f"read.{name}": number for name, number in vars(counts).items()}
    named |= {"tokenize.documents": documents, "build.passes": documents, "read.rejects": rejects}
    problems = find_imbalances(named, Expected(0, -1, 0, 1), 0, 0)
    assert not problems, f"its counts do not balance: {problems[0]}"
    return batches


def _rows(batches: list[DocumentBatch]) -> list[object]:
    rows: list[object] = [row for batch in batches for row in batch.documents.to_pylist()]
    assert len({str(row) for row in rows}) == len(rows), "two documents have one id"
    return rows


def check_output_format(name: str, tokenizer: TokenizerFile) -> None:
    """Check that an output format keeps what the job, `verify` and the readers rely on.

    It is tried with rows of `bert`, packed rows and a stream of `gpt`, padded where they can be;
    those that it refuses are left out.

    Args:
        name: the format.
        tokenizer: with [CLS] and the like and with <|endoftext|> (`small_tokenizer`).

    Raises:
        AssertionError: it does not; the message says what differs.
    """
    assert name in OUTPUT_FORMATS, f"no entry point of {OUTPUT_FORMATS.group} is called {name!r}"
    tried = 0
    for objective in _OBJECTIVES:
        for padding in ("do_not_pad", "max_length"):
            options = OutputOptions(output_format=name, padding=padding)
            build = SmallBuild(objective, tokenizer, small_text(20), output=options)
            try:
                resolve(options, build.bind().columns)
            except UserError:
                continue
            tried += 1
            _check_shards(build)
            with TemporaryDirectory(prefix="corpusmill-") as folder:
                write_dataset(Path(folder, "data"), build)
                problems = verify(Path(folder, "data"))
                assert not problems, f"`verify` finds {problems[0]}"
    assert tried, "it refuses all rows"


def _check_shards(build: SmallBuild) -> None:
    objective = build.bind()
    columns, options = objective.columns, resolve(build.output, objective.columns)
    built = pa.concat_batches(objective.pack(sort_rows(keyed_rows(build), _MANY)))
    rows = objective.finish(built, options.is_padded)
    files = _write_shard([rows], columns, options)
    pieces = [rows.slice(place, 3) for place in range(0, rows.num_rows, 3)]
    for size in (1, 7, rows.num_rows):
        read = list(_read_back(files, columns, options, size))
        assert all(batch.num_rows <= size for batch in read), "a batch has too many rows"
        assert pa.Table.from_batches(read, rows.schema) == pa.Table.from_batches([rows]), (
            "the rows that are read are not those that were written"
        )
    assert _write_shard([rows], columns, options) == files, "the bytes differ from time to time"
    parts = pa.Table.from_batches(
        _read_back(_write_shard(pieces, columns, options), columns, options, 10), rows.schema
    )
    assert parts == pa.Table.from_batches([rows]), "rows that arrive in pieces are not read back"
    assert not list(_read_back(_write_shard([], columns, options), columns, options, 10)), (
        "an empty shard has rows"
    )
    _check_cut(files, rows, columns, options)


def _check_cut(
    files: list[bytes], rows: pa.RecordBatch, columns: Columns, options: OutputOptions
) -> None:
    """A file that lacks its last byte is refused, and one that lacks more has no other rows."""
    for missing in (1, len(files[0]) // 3):
        cut = [file[: max(0, len(file) - missing)] for file in files]
        try:
            left = list(_read_back(cut, columns, options, 10))
        except (ValueError, OSError):
            continue
        assert missing > 1, "a file that lacks its last byte is read"
        read = pa.Table.from_batches(left, rows.schema)
        whole = pa.Table.from_batches([rows.slice(0, read.num_rows)])
        assert read == whole, "a file that was cut off has other rows than were written"


def _write_shard(
    batches: list[pa.RecordBatch], columns: Columns, options: OutputOptions
) -> list[bytes]:
    shard_format = OUTPUT_FORMATS[options.output_format]
    sinks = [io.BytesIO() for _ in shard_format.suffixes(options)]
    writer = shard_format.open_writer(sinks, columns, options)
    for batch in batches:
        writer.write(batch)
    writer.close()
    return [sink.getvalue() for sink in sinks]


def _read_back(
    files: list[bytes], columns: Columns, options: OutputOptions, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    sources = [io.BytesIO(file) for file in files]
    for batch in OUTPUT_FORMATS[options.output_format].read(sources, columns, options, batch_rows):
        assert batch.schema == arrow_schema(columns, options.is_padded), "another schema is read"
        yield batch
