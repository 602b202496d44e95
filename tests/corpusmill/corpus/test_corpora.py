"""Which format a file has, and which reader reads it."""

import gzip
import io
from collections.abc import Callable

import pytest

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.content import Content
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import (
    check_start,
    guess_format,
    judge_name,
    read_corpus,
    read_file,
    resolve_format,
)
from corpusmill.errors import UserError


def test_names_tell_formats() -> None:
    expected = {
        "text": "a.txt wiki.train.tokens a a.txt.gz jsonl a.jsonl/b.txt",
        "json-lines": "a.jsonl gs://b/A.JSONL.GZ x.ndjson x.json.zst",
        "csv": "a.csv.gz",
        "tsv": "a.tsv",
        "parquet": "a.parquet A.PQ",
        "arrow": "a.arrow a.feather",
        "avro": "a.avro",
        "tar": "a.tar a.tar.gz a.TGZ a.tar.zst a.tzst",
        "wet": "a.warc.wet.gz a.warc.gz",
    }
    told = {name: guess_format(name) for names in expected.values() for name in names.split()}
    assert told == {name: known for known, names in expected.items() for name in names.split()}


def by_names(*names: str) -> dict[str, Content]:
    return {name: judge_name(name) for name in names}


def test_a_format_in_the_options_wins() -> None:
    options = DocumentOptions(input_format="lines")
    assert resolve_format(options, by_names("a.jsonl", "b.txt")) == options
    guessed = resolve_format(DocumentOptions(), by_names("a.jsonl", "b.jsonl.gz"))
    assert guessed == DocumentOptions(input_format="json-lines")


@pytest.mark.parametrize("input_format", ["auto", "avro"])
def test_compressed_files_of_a_table_are_refused(input_format: str) -> None:
    options = DocumentOptions(input_format=input_format)
    with pytest.raises(UserError, match=r"--input b\.avro\.gz: .* Decompress it"):
        resolve_format(options, by_names("a.avro", "b.avro.gz"))


def test_names_of_several_formats_are_refused() -> None:
    with pytest.raises(UserError, match=r"a\.jsonl \(json-lines\), b\.txt \(text\)"):
        resolve_format(DocumentOptions(), by_names("a.jsonl", "b.txt"))


@pytest.mark.parametrize(
    ("name", "input_format", "sentences"),
    [
        ("f", "auto", [["a", "b"]]),
        ("f", "lines", [["a"], ["b"]]),
        ("f.jsonl", "text", [["a", "b"]]),
    ],
)
def test_each_format_has_its_reader(name: str, input_format: str, sentences: object) -> None:
    options = DocumentOptions(input_format=input_format)
    [batch] = read_corpus(io.BytesIO(b"a\nb\n"), FileRange(name, 0, options))
    assert batch.documents.column("sentences").to_pylist() == sentences


def test_a_missing_field_is_refused_with_the_names_of_the_existing_ones() -> None:
    options = DocumentOptions(input_format="json-lines", text_field="body")
    with pytest.raises(UserError, match=r"--text-field body: .*its fields are id, text"):
        check_start(io.BytesIO(b'\n{"id": 1, "text": "a"}\n'), "f", options)


@pytest.mark.parametrize("start", [b'{"body": null}', b"{", b"", b"[3]", b"\xff"])
def test_what_the_run_itself_judges_is_accepted(start: bytes) -> None:
    check_start(
        io.BytesIO(start), "f", DocumentOptions(input_format="json-lines", text_field="body")
    )
    check_start(io.BytesIO(b'{"x": 1}'), "f", DocumentOptions(input_format="lines"))


@pytest.mark.parametrize("input_format", ["text", "lines", "json-lines", "json", "csv"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_that_nobody_looked_at_is_a_reject_if_it_is_no_text(
    input_format: str, pack: Callable[[bytes], bytes]
) -> None:
    data = ("\u4e2d\u6587 a b c d e f\n" * 20).encode("utf-16")
    options = DocumentOptions(input_format=input_format, keep_fields=("id",))
    [batch] = read_file(io.BytesIO(pack(data)), FileRange("f", 0, options))
    assert batch.documents.num_rows == 0
    [reject] = batch.rejects
    assert (reject.offset, reject.length, reject.reason) == (0, len(data), "other-format")
    assert "UTF-16LE" in reject.detail
    assert batch.counts.bytes == batch.counts.rejected_bytes == len(data)
    assert batch.counts.unfinished_files == 1


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("input_format", "text"),
    [
        ("text", "one\rtwo\r\r= A =\rthree"),
        ("lines", "one\rtwo\r"),
        ("csv", 'id,text\r1,"one\rtwo"\r2,three\r'),
        ("json-lines", '{"text": "one"}\r{"text": "two"}\r'),
    ],
)
def test_carriage_returns_alone_end_lines(
    input_format: str, text: str, pack: Callable[[bytes], bytes]
) -> None:
    options = DocumentOptions(input_format=input_format)
    results = []
    for data in (text, text.replace("\r", "\n")):
        part = FileRange("f", 0, options, 0, None if pack is not bytes else len(data))
        [batch] = read_file(io.BytesIO(pack(data.encode())), part)
        results.append((batch.documents.to_pydict(), batch.counts, batch.rejects))
        check_start(io.BytesIO(data.encode()), "f", options)
    assert results[0] == results[1]
    assert results[0][1].documents > 1
