"""What files are, by their first bytes: a table of what programs write, and text that is text."""

import bz2
import csv
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.content import (
    Content,
    find_compression,
    judge,
    judge_bytes,
)
from corpusmill.corpus.decompression import HEAD_BYTES, LINE_HEAD_BYTES
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import look_at, read_file, resolve_format
from corpusmill.errors import UserError

TEXTS = [f'A boat came up the river, and number {n} said "no".\nIt rained.' for n in range(60)]
RECORDS = [{"text": text, "id": n} for n, text in enumerate(TEXTS)]
LINES = "".join(json.dumps(record) + "\n" for record in RECORDS)


def look(data: bytes, name: str = "a.txt") -> Content:
    return look_at(io.BytesIO(data), name)


def write_rows(delimiter: str, ending: str = "\n", header: tuple[str, str] = ("id", "text")) -> str:
    sink = io.StringIO()
    writer = csv.writer(sink, delimiter=delimiter, lineterminator=ending)
    writer.writerows([header, *enumerate(TEXTS)])
    return sink.getvalue()


def pack_tar() -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        entry = tarfile.TarInfo("a.txt")
        entry.size = 3
        archive.addfile(entry, io.BytesIO(b"abc"))
    return sink.getvalue()


def pack_zip() -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("a.txt", TEXTS[0])
    return sink.getvalue()


FORMATS: list[tuple[str | bytes, str]] = [
    (LINES, "json-lines"),
    ("\ufeff" + LINES, "json-lines"),
    (LINES.replace("\n", "\r\n"), "json-lines"),
    ('{"text": "one record"}', "json-lines"),
    ('{"text": "NaN is no JSON", "score": NaN}\n', "json-lines"),
    (json.dumps(RECORDS), "json"),
    (json.dumps(RECORDS, indent=2), "json"),
    ("[\n" + ",\n".join(map(json.dumps, RECORDS)) + "\n]\n", "json"),
    (json.dumps(RECORDS[0], indent=4), "json"),
    (json.dumps({"text": "long " * HEAD_BYTES}), "json-lines"),
    ('{"text": "' + "long " * HEAD_BYTES + '",\n "id": 1}\n', "json"),
    (json.dumps([{"text": "long " * HEAD_BYTES}]), "json"),
    ("[]", "json"),
    (json.dumps(TEXTS), "json"),
    (write_rows(","), "csv"),
    (write_rows(",", "\r\n"), "csv"),
    (write_rows(",", "\r"), "csv"),
    (write_rows(";"), "csv"),
    (write_rows("|"), "csv"),
    (write_rows("\t"), "tsv"),
    (write_rows(",", header=("", "body")), "csv"),
    ("id\ttext\n" + "".join(f'{n}\t"{text[:9]}\n' for n, text in enumerate(TEXTS)), "tsv"),
    ("WARC/1.0\r\nWARC-Type: conversion\r\n", "wet"),
    (pack_tar(), "tar"),
    (b"PAR1\x15\x04", "parquet"),
    (b"ARROW1\0\0\xff\xff\xff\xff", "arrow"),
    (b"Obj\x01\x04\x14avro.codec", "avro"),
]  # fmt: skip


def test_the_format_is_what_the_file_is() -> None:
    wrong = []
    for data, expected in FORMATS:
        content = data if isinstance(data, bytes) else data.encode()
        packed = look(gzip.compress(content), "a")
        told = look(content).format, packed.format, packed.compression
        if told != (expected, expected, ".gz"):
            wrong.append((content[:40], expected, told))
    assert not wrong


@pytest.mark.parametrize(
    ("data", "words", "cure"),
    [
        ("<!DOCTYPE html>\n<html><head><title>a</title></head>", "HTML", "Extract its text"),
        ("<html lang='en'><body><p>a</p>", "HTML", "--input-format text"),
        ("\n <div class='a'><p>One</p><p>Two</p></div>", "HTML", "Extract"),
        ('<?xml version="1.0"?>\n<TEI>', "XML", "Extract"),
        ("<mediawiki xml:lang='en'>\n", "XML", "Extract"),
        ('<doc id="12" url="https://a" title="A">\nA\n\nText .\n</doc>\n', "<doc>", "--json"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "Git LFS", "git lfs pull"),
        (">P1|A\n" + "MKTAYIAKQRQISFVKSHFSRQ\n" * 3 + ">b\nACDEFGHIKLMNPQRSTVWYAC\n", "FASTA", ""),
        ("@read1\nACGTACGT\n+\nIIIIHHHH\n", "FASTQ", ""),
        ("WEBVTT\n\n00:01.000 --> 00:02.000\nHello .\n", "subtitles", "--input-format text"),
        ("1\r\n00:00:01,000 --> 00:00:02,500\r\nHello .\r\n", "subtitles", "spoken"),
        ("# sent_id = 1\n1\tBoats\tboat\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\n", "CoNLL-U", "a line"),
        ("\n".join(map(repr, RECORDS)), "Python", "json.dumps"),
        (repr(RECORDS), "Python", "json.dumps"),
        ("From a@b.org Sat Nov 28 05:00:00 2026\nSubject: a\n\nText .\n", "mailbox", "messages"),
        ("-- MySQL dump 10.13  Distrib 8.0\n", "dump of a database", "Export"),
        ("PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n", "dump of a database", "Export"),
        ("\0".join(TEXTS), "text with NUL bytes", r"tr '\0' '\n'"),
        (pack_zip(), "ZIP", "Unpack"),
        (b"ORC\x08\x03\x10", "ORC", "Parquet"),
        (b"%PDF-1.7\n", "PDF", "Extract"),
        (b"SQLite format 3\0" + bytes(90), "SQLite", ""),
        (b"\x89PNG\r\n\x1a\n" + bytes(60), "image/png", ""),
        (b"\x93NUMPY\x01\0v\0{'descr'", "NumPy", ""),
        (bytes(range(256)) * 40, "binary", ""),
        (lzma.compress(b"a" * 999, lzma.FORMAT_ALONE) * 9, "binary", ""),
        *(("old river \u4e2d\u6587 .\n" * 9, name, f"iconv -f {name}")
          for name in ("UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE")),
        ("\u043c\u044f\u0433\u043a\u0438\u0445 \u0447\u0430\u0439\n" * 9, "UTF-16LE", "iconv"),
        ("\u4e00\u65e5\u4e4b\u8ba1\uff0c\u5728\u4e8e\u6668\u3002\n" * 9, "UTF-16BE", "iconv"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused_by_its_name(data: str | bytes, words: str, cure: str) -> None:
    encoding = words if words.startswith("UTF-") else "utf-8"
    marked = data if isinstance(data, bytes) else data.encode(encoding)
    for stored in (marked, gzip.compress(marked)):
        with pytest.raises(UserError, match=r"--input a\.txt: it is ") as caught:
            resolve_format(DocumentOptions(), {"a.txt": look(stored)})
        assert words in str(caught.value)
        assert cure in str(caught.value)
    # Text may be read as it stands, and nothing else.
    options, content = DocumentOptions(input_format="text"), look(marked)
    if content.is_text:
        assert resolve_format(options, {"a.txt": content}) == options
    else:
        with pytest.raises(UserError, match=r"--input a\.txt: it is "):
            resolve_format(options, {"a.txt": content})


def test_a_mark_of_utf_16_is_enough_where_no_utf_8_follows() -> None:
    assert look("\u4e2d\u6587".encode("utf-16")).what == "text in UTF-16LE"
    assert look("a\n".encode("utf-16")).what == "text in UTF-16LE"
    assert not look(b"\xff\xfe\nA line.\n").what


TEXT = [
    "", "\n", "a", "{", "[", "[Music] he sings\n", "{{Infobox}}\n", "[1] A note.\n[2] One.\n",
    " = Title = \n\n The <unk> river , \n", "<s> the river </s>\n<s> the boat </s>\n",
    "Roses are red, violets are blue,\nSugar is sweet, and so are you.\n" * 9,
    "Paris, France\nBerlin, Germany\n" * 9, "one, two, three\n" * 9,
    "> a quoted line\n> of a letter\n", "def f(a, b):\n    return a, b\n" * 5,
    "# A heading\n\n| a | b |\n|---|---|\n| 1 | 2 |\n" * 3, "a\0b and a line of text\n" * 5,
    "PARENTS, AND PARKS\n", "PAR1 IS A NAME\n", "ORC\nAn orc is a monster.\n", "Obj 1\n",
    "<div align='center'><h1>A</h1><p>b</p></div>\n" + "A line of Markdown.\n" * 9,
    "x" * 257 + "ustar is no archive\n", "PK is short for park\n",
    "It says <b>no</b>.\n", "I <3 you\n", "x < y\n", "@user hello\nACGT\n",
    "\u4e2d\u6587\u3002\n" * 50, "key: value\nother: value\n",
]  # fmt: skip


def test_text_is_text() -> None:
    judged = {text: judge(text.encode(), is_whole=True) for text in TEXT}
    assert not {text for text, content in judged.items() if content.format or content.what}


@given(st.text())
def test_any_text_is_judged(text: str) -> None:
    content = look(text.encode())
    assert not (content.format and content.what)


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress,
    ".zst": zstandard.compress, ".lz4": lz4.frame.compress,
}  # fmt: skip


def test_text_between_nuls_is_told_from_binary_data() -> None:
    assert "text with NUL" in look(b"boat\0" * 200).what
    assert "binary data" in look(b"se\0" * 200).what


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("size", [0, 1, 10**5])
def test_compression_is_told_by_marks(suffix: str, size: int) -> None:
    data = COMPRESS[suffix](b"a" * size)
    assert find_compression(data) == suffix
    assert look(data).compression == look(data, f"a{suffix}").compression == suffix


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("data", [b"\x1f", bytes(4096), b"\0\0\x12\xac\0\0\x02\x69\xf1\x1d{"])
def test_a_file_that_only_its_name_calls_compressed_is_refused(suffix: str, data: bytes) -> None:
    """The last one is how Hadoop begins a block of LZ4."""
    name = f"a.txt{suffix}"
    with pytest.raises(UserError, match=rf"--input a\.txt\{suffix}: it is no {suffix} file"):
        resolve_format(DocumentOptions(), {name: look(data, name)})


@pytest.mark.parametrize("known_size", [False, True])
@pytest.mark.parametrize(("log", "is_read"), [(27, True), (28, False), (31, False)])
def test_a_window_that_no_reader_holds_is_refused(
    log: int, is_read: bool, known_size: bool
) -> None:
    parameters = zstandard.ZstdCompressionParameters(
        window_log=log, enable_ldm=True, write_content_size=known_size
    )
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj(
        size=200 if known_size else -1
    )
    data = compressor.compress(b"the sea\n" * 25) + compressor.flush()
    content = look(data, "a.txt.zst")
    if is_read or known_size:
        assert not content.what
    else:
        assert "without --long" in content.cure
        with pytest.raises(UserError, match=r"--input a\.txt\.zst: .*window of"):
            resolve_format(DocumentOptions(), {"a.txt.zst": content})


@pytest.mark.parametrize(
    ("options", "data", "message"),
    [
        ("parquet", LINES.encode(), "--input-format json-lines"),
        ("parquet", b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ("json-lines", b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ("tar", b"<!DOCTYPE html>", "HTML"),
        ("csv", b"<!DOCTYPE html>", "HTML"),
        ("text", b"PAR1\x15\x04", "--input-format parquet"),
        ("csv", b"Obj\x01\x04", "--input-format avro"),
        ("json-lines", json.dumps(RECORDS).encode(), "--input-format json"),
    ],
)
def test_a_chosen_format_must_be_that_of_the_file(options: str, data: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        resolve_format(DocumentOptions(input_format=options), {"a": look(data, "a")})


@pytest.mark.parametrize("name", ["a.parquet", "a.avro"])
@pytest.mark.parametrize(
    ("data", "what"), [(b"a line\n", "text, not"), (bytes(99), "binary data"), (b"PK\3\4", "a ZIP")]
)
def test_a_name_is_not_enough(name: str, data: bytes, what: str) -> None:
    with pytest.raises(UserError, match=rf"--input {name}: it is {what}"):
        resolve_format(DocumentOptions(), {name: look(data, name)})


def test_what_has_no_mark_is_left_to_its_reader() -> None:
    stream = LINES.encode("utf-16")[2:] + bytes(range(256)) * 9
    assert resolve_format(DocumentOptions(), {"a.arrow": look(stream, "a.arrow")})
    assert resolve_format(DocumentOptions(input_format="tar"), {"a": look(bytes(9999), "a")})


def test_json_of_both_kinds_is_read_together() -> None:
    files = {"a.json": look(json.dumps(RECORDS).encode()), "b.json": look(LINES.encode())}
    assert resolve_format(DocumentOptions(), files).input_format == "json"


def test_text_may_have_a_nul_now_and_then() -> None:
    sizes = [(7, 8), (8, 9), (8, 500), (9, 999)]
    judged = [judge_bytes(b"\0" * nuls + b"x" * (size - nuls)) for nuls, size in sizes]
    assert [content is None for content in judged] == [True, False, True, False]


def test_many_sequences_before_other_text_are_judged_at_once() -> None:
    """With a choice at each of them a regular expression would not come to an end."""
    sequences, ends = (
        ">a\nMKTAYIAKQRQISFVKSHFSRQ\n\n" * 999,
        (">b\nACDEF\n", ">b\nIt is 9.\n", "\n"),
    )
    judged = [look((sequences + end).encode()).what for end in ends]
    assert judged == ["", "", "sequences of FASTA or FASTQ"]


def test_many_marks_that_may_be_of_two_kinds_are_judged_at_once() -> None:
    for text, what in (
        ("> a\n" + "-" * 20, ""),
        ("<!-- a -->", ""),
        ("<?xml a?>\n<!-- -->", "XML"),
    ):
        assert look(f"{text}\n".encode() * 999 + b"The king saw a river.\n").what == what
    assert look(b"<!-- a -->\n" * 999 + b"<html>\n<p>a</p>\n").what == "HTML"


def test_a_fragment_of_html_has_three_ends_of_tags() -> None:
    assert [look(b"<p>a" + b"</p>\n" * tags).what for tags in (2, 3)] == ["", "HTML"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("gb", "json"), ("gbbg", "json"), ("gbg", "json-lines"), ("bgg", "json-lines"),
        ("tg", "json-lines"), ("gt", "json-lines"), ("t", "json-lines"), ("tbg", "json"),
    ],
)  # fmt: skip
def test_most_of_the_first_three_lines_tell_json_lines(lines: str, expected: str) -> None:
    """A torn line is of none of the formats, and does not count."""
    kinds = {"g": '{"text": "a \\" boat"}\n', "b": '{"text": {}\n', "t": '{"text": "a \\" bo\n'}
    content = look("".join(map(kinds.__getitem__, lines)).encode())
    assert content.format == expected
    chosen = DocumentOptions(input_format="json-lines")
    if expected == "json-lines":
        assert resolve_format(chosen, {"a": content}) == chosen


@pytest.mark.parametrize("beyond", [-1, 0, 1])
@pytest.mark.parametrize(("size", "is_known_beyond"), [(HEAD_BYTES, 1), (LINE_HEAD_BYTES, 0)])
def test_a_long_first_line_tells_the_format_by_its_end(
    size: int, is_known_beyond: bool, beyond: int
) -> None:
    begin, end = b'{"text": "', b'"}\n'
    line = begin + b"a" * (size + beyond - len(begin + end)) + end
    content = look(line + LINES.encode(), "a.txt")
    is_seen = is_known_beyond or beyond <= 0
    assert content.format == ("json-lines" if is_seen else "json")
    assert content.has_open_line != is_seen
    chosen = DocumentOptions(input_format="json-lines")
    if is_seen:
        assert resolve_format(chosen, {"a": content}) == chosen


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("size", [9, HEAD_BYTES])
def test_a_carriage_return_in_a_long_line_ends_none(size: int, end: str) -> None:
    line = "a" * 9 + "\r" + "b" * size
    content = look(f"{line}{end}{line}{end}".encode())
    assert content.has_returns == (end == "\r")
    assert content.is_in_ranges == (end != "\r")


def test_a_long_first_record_of_chosen_lines_is_read() -> None:
    records = [{"text": "long " * HEAD_BYTES}, *RECORDS]
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    for input_format in ("auto", "json-lines"):
        options = DocumentOptions(input_format=input_format)
        [*batches] = read_file(io.BytesIO(data), FileRange("a.jsonl", 0, options))
        assert sum(batch.counts.documents for batch in batches) == len(records)
        assert sum(batch.counts.lines for batch in batches) == len(records)


@pytest.mark.parametrize(("rows", "expected"), [(4, ""), (5, "csv")])
def test_a_table_without_usual_names_has_five_rows(rows: int, expected: str) -> None:
    """Verses and plays may have as many separators in each line: values tell a table."""
    assert look(b"first,second\n" + b"a,7\n" * (rows - 1)).format == expected
    verse = look(b"first,second\n" + b"a,b\n" * (rows - 1))
    assert (verse.format, verse.resembles) == ("", expected)
    assert look(b"title,second\na,b\n").format == "csv"


def test_wide_text_may_have_few_strange_characters() -> None:
    for strange, what in ((2, "text in UTF-16LE"), (3, "binary data")):
        text = "a word, " * 16 + "\ue0e0" * strange  # for private use
        assert look(text.encode("utf-16-le")).what.startswith(what)
