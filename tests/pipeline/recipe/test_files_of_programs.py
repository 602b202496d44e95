"""Files as other programs write them, under the names that they get, without a word of options."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from itertools import product
from pathlib import Path

import lz4.frame
import pandas as pd
import polars as pl
import pytest
import zstandard
from rich.console import Console

from corpusmill.corpus.batches import Reject
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import read_file
from corpusmill.errors import UserError
from pipeline.recipe.inputs import cut_files
from pipeline.recipe.sources import find_documents
from tests.tools.knobs import knobs
from tests.tools.table_rows import check_rows

TEXTS = [f'Boat {n}, the "Ida", came\nup the river; it rained.\n\tA line.' for n in range(40)]
RECORDS = [{"id": n, "text": text, "score": float("nan")} for n, text in enumerate(TEXTS)]
FRAME = pd.DataFrame(RECORDS)
LAZY = pl.DataFrame(RECORDS)
Write = Callable[[Path], object]


def read_in_ranges(
    folder: Path, options: DocumentOptions, range_bytes: int = 10**9
) -> tuple[list[str], list[Reject]]:
    """Return the texts and rejects of a folder's files, read in ranges as a build reads them."""
    console, temp = Console(record=True), str(folder.parent / "t")
    files, options = find_documents([str(folder)], options, temp, console)
    texts, rejects = list[str](), list[Reject]()
    for planned in cut_files(files, options, range_bytes):
        with open(planned.file, "rb") as raw:  # noqa: PTH123  the path is text
            for batch in read_file(raw, planned.read_as(options)):
                rejects += batch.rejects
                texts += batch.documents.column("sentences").flatten().to_pylist()
    return texts, rejects


def read_as_given(folder: Path, options: DocumentOptions, range_bytes: int = 10**9) -> list[str]:
    """Return the texts of a folder's files, none of which has rejects."""
    texts, rejects = read_in_ranges(folder, options, range_bytes)
    assert not rejects
    return texts


LINES = "".join(json.dumps(record) + "\n" for record in RECORDS).encode()
WRITERS: dict[str, Write] = {
    "pandas.csv": FRAME.to_csv,
    "pandas-semicolon.csv": lambda path: FRAME.to_csv(path, sep=";", index=False),
    "pandas.tsv": lambda path: FRAME.to_csv(path, sep="\t", index=False),
    "pandas-quoted.tsv": lambda path: FRAME.to_csv(path, sep="\t", quoting=1),
    "pandas-escaped.csv": lambda path: FRAME.to_csv(
        path, quoting=1, doublequote=False, escapechar="\\"
    ),
    "pandas-lines.json": lambda path: FRAME.to_json(path, orient="records", lines=True),
    "pandas-records.json": lambda path: FRAME.to_json(path, orient="records"),
    "pandas-pretty.json": lambda path: FRAME.to_json(path, orient="records", indent=4),
    "pandas.parquet": FRAME.to_parquet,
    "pandas.feather": FRAME.to_feather,
    "pandas.jsonl": lambda path: FRAME.to_json(
        path, orient="records", lines=True, compression="gzip"
    ),
    "polars.csv": LAZY.write_csv,
    "polars.txt": lambda path: LAZY.write_csv(path, separator="\t"),
    "polars.ndjson": LAZY.write_ndjson,
    "polars.json": LAZY.write_json,
    "polars.parquet": LAZY.write_parquet,
    "polars.arrow": LAZY.write_ipc,
    "polars.arrows": LAZY.write_ipc_stream,
    "polars.avro": LAZY.write_avro,
    "part-00000": lambda path: path.write_bytes(LINES),
    "lines.txt": lambda path: path.write_bytes(LINES),
    "lines.jl": lambda path: path.write_bytes(LINES),
    "lines.jsonlines": lambda path: path.write_bytes(LINES),
    "lines.json": lambda path: path.write_bytes(LINES),
    "array.txt": lambda path: path.write_text(json.dumps(RECORDS)),
    "lines-in-array.json": lambda path: path.write_text(
        "[\n" + ",\n".join(map(json.dumps, RECORDS)) + "\n]\n"
    ),
    "objects.json": lambda path: path.write_text(
        "\n".join(json.dumps(record, indent=2) for record in RECORDS)
    ),
    "part-r-00000.lz4": lambda path: path.write_bytes(lz4.frame.compress(LINES)),
    "dump": lambda path: path.write_bytes(zstandard.compress(LINES)),
    "dump.bin": lambda path: path.write_bytes(bz2.compress(LINES)),
    "dump.txt": lambda path: path.write_bytes(lzma.compress(LINES)),
    "dump.gz": lambda path: path.write_bytes(LINES),
    "twice.bz2": lambda path: path.write_bytes(gzip.compress(LINES) + gzip.compress(b"")),
}


def test_records_are_read_whatever_their_file_is_called(tmp_path: Path) -> None:
    def check(name: str) -> None:
        folder = tmp_path / name / "in"
        folder.mkdir(parents=True)
        WRITERS[name](folder / name)
        options = DocumentOptions(sentence_rule="document")
        if name == "polars.arrows":  # streams begin with no mark, so that a name must tell them
            options = DocumentOptions(input_format="arrow", sentence_rule="document")
        assert read_as_given(folder, options) == TEXTS
        assert read_as_given(folder, options, 700) == TEXTS

    check_rows(WRITERS, check)


def test_lines_of_text_end_as_any_system_ends_them(tmp_path: Path) -> None:
    lines = [f"Line {n} of a letter." for n in range(30)]
    options = DocumentOptions(document_rule="blank-lines")
    (tmp_path / "in").mkdir()

    def check(row: tuple[str, str, int]) -> None:
        ending, mark, range_bytes = row
        (tmp_path / "in" / "a").write_bytes((mark + ending.join([*lines, ""])).encode())
        assert read_as_given(tmp_path / "in", options, range_bytes) == lines

    check_rows(product(("\n", "\r\n", "\r"), ("", "\ufeff"), (10**6, 50)), check)


def test_a_folder_of_spark_is_read(tmp_path: Path) -> None:
    """With what it leaves beside the data."""
    folder = tmp_path / "out"
    folder.mkdir()
    for number in range(2):
        FRAME.to_parquet(folder / f"part-{number:05}-c000.snappy.parquet")
        (folder / f".part-{number:05}-c000.snappy.parquet.crc").write_bytes(b"crc\0")
    (folder / "_SUCCESS").write_text("")
    (folder / "_common_metadata").write_bytes(b"PAR1" + bytes(9))
    assert read_as_given(folder, DocumentOptions(sentence_rule="document")) == TEXTS * 2


NO_TEXT = {
    "a.txt": b"PK\x03\x04" + bytes(99),
    "b.jsonl": json.dumps(RECORDS[0]).encode("utf-16"),
    "b.csv": "id,text\n1,a\n".encode("utf-16"),
    "c.parquet": LINES,
    "d.md": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
}


def test_one_file_that_is_no_text_among_many_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(20):
        (tmp_path / "in" / f"a{number}.txt").write_text("A line.\n")

    def check(name: str) -> None:
        (tmp_path / "in" / name).write_bytes(NO_TEXT[name])
        with pytest.raises(UserError, match=rf"{name}"):
            read_as_given(tmp_path / "in", DocumentOptions())
        (tmp_path / "in" / name).unlink()

    check_rows(NO_TEXT, check)


OTHERS = {
    "json-lines": LINES,
    "csv": FRAME.to_csv().encode(),
    "HTML": b"<!DOCTYPE html>\n<html><body><p>A boat.</p></body></html>\n",
    "json": json.dumps(RECORDS).encode(),
    "UTF-16LE": "\n".join(TEXTS).encode("utf-16"),
}


def test_no_file_is_read_as_what_others_are_unless_someone_says_so(tmp_path: Path) -> None:
    """Of files that take long to look at, not all are: here ten, or nine of them, with a store's.

    Only every second one is looked at where there are more than are to be.
    """

    def check(row: tuple[str, bool, int]) -> None:
        kind, chosen, looked_at = row
        for number in range(10):
            content = OTHERS[kind] if number == 9 else b"Some text .\n"
            (tmp_path / f"{number}.bz2").write_bytes(bz2.compress(content))
        options = DocumentOptions("text" if chosen else "auto", sentence_rule="document")
        is_readable = chosen and kind != "UTF-16LE"
        with knobs(looked_at_files=10 * looked_at):
            if looked_at == 10 and not is_readable:
                with pytest.raises(UserError, match=rf"{kind}"):
                    read_in_ranges(tmp_path, options)
                return
            texts, rejects = read_in_ranges(tmp_path, options)
        assert texts.count("Some text .") == 9
        assert (len(texts) > 9) == is_readable == (not rejects)
        if rejects:
            assert [(each.file, each.reason) for each in rejects] == [("9.bz2", "other-format")]
            assert kind in rejects[0].detail

    check_rows(product(OTHERS, (False, True), (9, 10)), check)
