"""Tar archives and WET files: their members, those that are left out, and damage."""

import gzip
import io
import tarfile
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.corpus.archives import ForwardStream, read_tar
from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.decompression import has_suffix, open_decompressed
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import check_start, read_corpus
from corpusmill.errors import UserError
from tests.tools.knobs import knobs, small_batches
from tests.tools.read_content import Content

TAR = DocumentOptions(input_format="tar")
WET = DocumentOptions(input_format="wet")


def tar_of(
    members: dict[str, bytes],
    kind: int = tarfile.PAX_FORMAT,
    change: Callable[..., None] | None = None,
) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=kind) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        if change:
            change(archive)
    return sink.getvalue()


def wet_record(kind: str, content: bytes) -> bytes:
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content + b"\r\n\r\n"


def read(data: bytes, options: DocumentOptions) -> Content:
    """Read an archive, and check what holds for any archive."""
    part = FileRange("f", 0, options)
    content = Content().add(read_corpus(io.BytesIO(data), part))
    counts = content.balanced(len(data)).counts
    damaged = content.reasons.count("damaged-archive")
    assert counts.rejected_lines + counts.rejected_rows + damaged == len(content.rejects)
    return content


texts = st.text(st.sampled_from("ab \n\té漢=\u2028"), max_size=30).map(str.encode)


def lines_of(content: bytes) -> list[str]:
    return [line.strip() for line in content.decode().split("\n") if line.strip()]


@given(
    st.lists(texts, max_size=6),
    st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT]),
)
def test_each_member_of_a_tar_is_a_document(contents: list[bytes], kind: int) -> None:
    members = {f"folder/{'long' * 12}/{number}.txt": text for number, text in enumerate(contents)}
    data = tar_of(members, kind)
    content = read(data, TAR)
    assert content.texts == list(filter(None, map(lines_of, contents)))
    assert not content.rejects
    for document, sentences in content.documents:
        assert data[document:].decode().lstrip().startswith(sentences[0])


@given(st.lists(texts, max_size=6))
def test_each_page_of_a_wet_file_is_a_document(contents: list[bytes]) -> None:
    pages = b"".join(wet_record("conversion", text) for text in contents)
    data = wet_record("warcinfo", b"software: x\r\n") + pages
    content = read(data, WET)
    assert content.texts == list(filter(None, map(lines_of, contents)))
    assert not content.rejects
    assert content.counts.left_out_members == 1
    for document, sentences in content.documents:
        assert data[document:].decode().lstrip().startswith(sentences[0])


def test_members_that_a_listing_leaves_out_are_counted() -> None:
    def add_others(archive: tarfile.TarFile) -> None:
        for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
            member = tarfile.TarInfo(f"other-{kind!r}.txt")
            member.type, member.linkname = kind, "a.txt"
            archive.addfile(member)

    data = tar_of(
        {"a.txt": b"a", "b/._a.txt": b"x", "c.MD": b"c", "d.html": b"d"}, change=add_others
    )
    assert read(data, TAR).texts == [["a"], ["c"], ["d"]]
    content = read(data, replace(TAR, suffixes=(".txt", ".md")))
    assert content.texts == [["a"], ["c"]]
    assert content.counts.left_out_members == 2 + 3


def test_a_compressed_member_is_refused_by_its_name() -> None:
    content = read(tar_of({"a.txt": b"a", "b.txt.gz": gzip.compress(b"b"), "c.txt": b"c"}), TAR)
    assert content.texts == [["a"], ["c"]]
    [reject] = content.rejects
    assert reject.reason == "unsupported-member"
    assert "b.txt.gz" in reject.detail


def test_bad_lines_are_refused_with_their_place_in_the_archive() -> None:
    data = tar_of({"a.txt": b"one\ntwo\n", "b.txt": b"three\n\xff\nfour\n" + b"x" * 99})
    content = read(data, replace(TAR, max_line_bytes=50))
    assert content.texts == [["one", "two"], ["three", "four"]]
    assert content.reasons == ["invalid-utf-8", "line-too-long"]
    assert data[content.rejects[0].offset :].startswith(b"\xff\nfour")
    assert data[content.rejects[1].offset :].startswith(b"xxx")


def test_a_member_above_the_limit_is_cut() -> None:
    content = read(tar_of({"a": b"aaa\nbbb\nccc\n", "b": b"d"}), replace(TAR, max_document_bytes=6))
    assert content.texts == [["aaa", "bbb"], ["ccc"], ["d"]]
    assert content.counts.cut_documents == 1
    assert len({document for document, _ in content.documents}) == 3


class Zeros(io.RawIOBase):
    """An archive with one large member, made as it is read."""

    def __init__(self, size: int) -> None:
        member = tarfile.TarInfo("a.txt")
        member.size = size
        self._head, self._left = member.tobuf(), size
        self.most = 0

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        self.most = max(self.most, size)
        head, self._head = self._head[:size], self._head[size:]
        body = min(size - len(head), self._left)
        self._left -= body
        return head + b"x" * body


def test_a_very_long_line_in_a_member_is_skipped() -> None:
    stream = Zeros(2**26)
    options = replace(TAR, max_line_bytes=2**20)
    [reject] = Content().add(read_tar(stream, FileRange("f", 0, options))).rejects  # type: ignore[arg-type]
    assert (reject.reason, reject.length) == ("line-too-long", 2**26)
    assert stream.most <= 2**21


@pytest.mark.parametrize("size", [300, 520, 1030, 2000])
def test_a_truncated_tar_keeps_what_comes_before(size: int) -> None:
    data = tar_of({"a.txt": b"one\n" * 120, "b.txt": b"two\n" * 250}, tarfile.USTAR_FORMAT)
    content = read(data[:size], TAR)
    assert content.reasons == ["damaged-archive"]
    assert content.rejects[0].length == -1
    whole = sum(map(len, content.texts))
    assert whole == max(0, min(size - 512, 480)) // 4 + max(0, size - 1536) // 4


@pytest.mark.parametrize("tail", [b"x" * 600, tar_of({"b": b"b"})])
def test_data_after_the_end_of_a_tar_is_reported(tail: bytes) -> None:
    content = read(tar_of({"a": b"a"}) + tail, TAR)
    assert (content.texts, content.reasons) == ([["a"]], ["damaged-archive"])


def test_a_broken_header_ends_a_tar_with_a_reject() -> None:
    data = bytearray(tar_of({"a": b"a", "b": b"b"}, tarfile.USTAR_FORMAT))
    data[1030] ^= 1
    content = read(bytes(data), TAR)
    assert (content.texts, content.reasons) == ([["a"]], ["damaged-archive"])


@pytest.mark.parametrize("options", [TAR, WET])
def test_an_empty_archive_gives_nothing(options: DocumentOptions) -> None:
    assert not read(b"", options).rejects
    assert not read(tar_of({}), TAR).rejects


def test_garbage_is_a_reject() -> None:
    for options in (TAR, WET):
        assert read(b"no archive\n" * 200_000, options).reasons == ["damaged-archive"]
    assert read(b"WARC/1.0\r\n" + b"a: b\r\n" * 200_000, WET).reasons == ["damaged-archive"]
    assert read(b"WARC/1.0\r\nWARC-Type: conversion\r\n\r\ntext", WET).reasons == [
        "damaged-archive"
    ]


def test_a_truncated_wet_file_keeps_what_comes_before() -> None:
    data = wet_record("conversion", b"one\n") + wet_record("conversion", b"two\n" * 9)
    for size in (90, len(data) - 10):
        content = read(data[:size], WET)
        assert content.texts[0] == ["one"]
        assert content.reasons == ["damaged-archive"]


def test_damaged_compression_of_an_archive_is_a_reject() -> None:
    packed = gzip.compress(tar_of({str(n): b"words %d\n" % n * 50 for n in range(900)}))
    stream = open_decompressed(io.BytesIO(packed[: len(packed) // 2]), "f.tgz")
    content = Content().add(read_corpus(stream, FileRange("f.tgz", 0, TAR)))
    assert content.reasons == ["damaged-archive"]
    assert len(content.documents) > 100


def test_pages_that_are_not_text_are_refused() -> None:
    page = wet_record("response", b"HTTP/1.1 200 OK\r\n\r\n<p>")
    content = read(wet_record("conversion", b"a") + page + wet_record("conversion", b"b"), WET)
    assert (content.texts, content.reasons) == ([["a"], ["b"]], ["not-plain-text"])
    with pytest.raises(UserError, match="extract the text first"):
        check_start(io.BytesIO(wet_record("warcinfo", b"") + page), "f.warc", WET)
    check_start(io.BytesIO(wet_record("conversion", b"") + b"x"), "f.wet", WET)


def test_the_suffix_of_a_compression_does_not_count() -> None:
    wanted = (".txt", ".md")
    names = ["a.txt", "A.TXT.GZ", "b.md.zst", "c.html", "d.txt.html", "e.gz", "txt"]
    assert [name for name in names if has_suffix(name, wanted)] == names[:3]
    assert has_suffix("anything", ())
    assert has_suffix("a.txt.gz", (".gz",))


def test_a_forward_stream_only_goes_forward() -> None:
    stream = ForwardStream(io.BytesIO(b"abcdef"))
    assert (stream.seek(2), stream.read(2), stream.tell()) == (2, b"cd", 4)
    with pytest.raises(io.UnsupportedOperation):
        stream.seek(1)
    assert stream.seek(99) == 6


@given(
    st.lists(st.one_of(texts, st.just(b"\xef\xbb\xbfa\nb"), st.just(b"c\n\xff\nd")), max_size=6),
    st.integers(1, 20),
)
def test_small_members_are_read_as_large_ones(contents: list[bytes], size: int) -> None:
    data = tar_of({str(number): text for number, text in enumerate(contents)})
    options = replace(TAR, max_document_bytes=9)
    small = read(data, options)
    with small_batches(size):
        large = read(data, options)
    assert (small.texts, small.rejects, small.counts) == (large.texts, large.rejects, large.counts)


@pytest.mark.parametrize(("extra", "is_read"), [(-1, True), (0, True), (1, False)])
def test_a_header_of_a_record_has_at_most_a_megabyte(extra: int, is_read: bool) -> None:
    start, end = b"WARC/1.0\r\nWARC-Type: conversion\r\nX: ", b"\r\nContent-Length: 1\r\n\r\n"
    head = start + b"x" * (2**20 + extra - len(start) - len(end)) + end
    content = read(head + b"a\r\n\r\n", WET)
    assert content.texts == ([["a"]] if is_read else [])
    assert content.reasons == ([] if is_read else ["damaged-archive"])


def test_the_first_three_records_tell_whether_a_file_holds_text() -> None:
    about, page = wet_record("metadata", b"a"), wet_record("response", b"b")
    check_start(io.BytesIO(about * 3 + page), "f.warc", WET)
    with pytest.raises(UserError, match="extract the text first"):
        check_start(io.BytesIO(about * 2 + page), "f.warc", WET)


@pytest.mark.parametrize("size", [1, 2**20])
def test_a_member_that_is_no_text_is_a_reject(size: int) -> None:
    image = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9
    wide = ("\u4e2d\u6587 a b c d e f g h\n" * 9).encode("utf-16")
    data = tar_of(
        {"a.txt": b"a", "b.png": image, "c.txt": wide, "d.txt": b"d\0d", "e": b"PAR1\x15\x04"}
    )
    with knobs(small_member_bytes=size):
        content = read(data, TAR)
    assert content.texts == [["a"], ["d\0d"]]
    assert content.reasons == ["not-plain-text"] * 3
    assert "image/png" in content.rejects[0].detail
    assert "UTF-16LE" in content.rejects[1].detail
    assert "parquet" in content.rejects[2].detail
    assert content.counts.rejected_bytes == len(image) + len(wide) + 6


def test_members_of_web_dataset_are_told_apart_before_any_work() -> None:
    samples = {f"{n:04}.{suffix}": text for n in range(5) for suffix, text in (
        ("json", b'{"url": "a"}'), ("txt", b"A caption."))}  # fmt: skip
    data = io.BytesIO(tar_of(samples))
    with pytest.raises(UserError, match=r"0000\.json is of the format json-.*--suffixes \.txt"):
        check_start(data, "f.tar", TAR)
    data.seek(0)
    check_start(data, "f.tar", replace(TAR, suffixes=(".txt",)))
    data.seek(0)
    check_start(data, "f.tar", replace(TAR, suffixes=(".json",)))  # somebody wants them


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"<!DOCTYPE html><html>", "HTML"), (bytes(99), "binary"), (b"id,text\n1,a\n2,b\n", "csv")],
)
def test_archives_of_other_files_are_refused(content: bytes, what: str) -> None:
    archive = io.BytesIO(tar_of({"a": content, "more/b": content}))
    with pytest.raises(UserError, match=rf"--input f\.tar: its member a is .*{what}.*unpack"):
        check_start(archive, "f.tar", TAR)


def test_members_beyond_the_first_megabyte_are_left_to_the_run() -> None:
    page = b"<!DOCTYPE html>"
    check_start(io.BytesIO(tar_of({"a.txt": b"x" * 2**20, "b.html": page})), "f.tar", TAR)
    archive = io.BytesIO(tar_of({"a.txt": b"x" * (2**20 - 2**11), "b.html": page}))
    with pytest.raises(UserError, match=r"b\.html is HTML"):
        check_start(archive, "f.tar", TAR)
