"""Which format a file has, and which reader reads it."""

import io

import pytest

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.content import Content
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import (
    check_start,
    guess_format,
    judge_name,
    read_corpus,
    resolve_format,
)
from corpusmill.errors import UserError


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.txt", "text"), ("wiki.train.tokens", "text"), ("a", "text"), ("a.txt.gz", "text"),
        ("a.jsonl", "json-lines"), ("gs://b/A.JSONL.GZ", "json-lines"), ("x.ndjson", "json-lines"),
        ("x.json.zst", "json-lines"), ("jsonl", "text"), ("a.jsonl/b.txt", "text"),
        ("a.parquet", "parquet"), ("A.PQ", "parquet"), ("a.arrow", "arrow"), ("a.feather", "arrow"),
        ("a.avro", "avro"),
    ],
)  # fmt: skip
def test_names_tell_formats(name: str, expected: str) -> None:
    assert guess_format(name) == expected


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


@pytest.mark.parametrize("start", [b'{"body": 1}', b"{", b"", b"[3]", b"\xff"])
def test_what_the_run_itself_judges_is_accepted(start: bytes) -> None:
    check_start(
        io.BytesIO(start), "f", DocumentOptions(input_format="json-lines", text_field="body")
    )
    check_start(io.BytesIO(b'{"x": 1}'), "f", DocumentOptions(input_format="lines"))
