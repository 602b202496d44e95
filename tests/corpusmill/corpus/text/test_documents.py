"""Documents of a text, in ranges of any size, against a plain-Python reading of the file."""

import gzip
import io
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, cast, get_args

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from corpusmill.corpus.batches import FileRange, ReadCounts, Reject, document_id
from corpusmill.corpus.content import has_returns, judge_bytes
from corpusmill.corpus.decompression import DamagedStreamError, open_decompressed
from corpusmill.corpus.document_options import DocumentOptions, DocumentRule
from corpusmill.corpus.text.text_documents import read_text
from corpusmill.errors import UserError
from tests.tools.knobs import small_batches
from tests.tools.plain_reading import read_plainly
from tests.tools.read_content import Content, read_ranges

TINY = DocumentOptions(max_line_bytes=20, max_document_bytes=50)
ALL_OPTIONS = {
    f"{rule}, {sentence_rule}s": replace(TINY, document_rule=rule, sentence_rule=sentence_rule)
    for rule in get_args(DocumentRule)
    for sentence_rule in ("line", "document")
}


NASTY = [
    *(b"", b" ", b"\t\r", "\u3000".encode(), b"\xc2\x85\xe2\x80\xa8"),
    *(b"= title =", b" = = b = =", b"\xc2\xa0= nbsp", b"=\xff", b"=" * 20, b"=" * 21, b" " * 21),
    *(b"a", b"some words", b" padded \r", b"crlf\r", b"x" * 20, b"y" * 21, b"long " * 13),
    *(b"\xff", b"ok \xfe bad", b"cut \xe2\x80", b"\x80\xa8 cut", b"\xed\xa0\x80", b"nul\x00l"),
    *(b"\xef\xbb\xbf", b"\xef\xbb\xbfmark", b"\xef\xbb\xbf= t"),
    *("é\u2003".encode(), "一二三四五".encode()),
    *(b" = Title = ", b"= a =", b"= = b = =", b"= a = b =", b"= =  =", b"= \xff =", b"= a = ="),
]
LINES = st.one_of(
    st.sampled_from(NASTY),
    st.binary(max_size=24).map(lambda line: line.replace(b"\n", b"")),
)
FILES = st.builds(
    lambda lines, newline: b"\n".join(lines) + newline,
    st.lists(LINES, max_size=14),
    st.sampled_from([b"", b"\n", b"\n\n"]),
)


@given(FILES, st.sampled_from([TINY, *ALL_OPTIONS.values()]), st.integers(1, 80), st.data())
@settings(max_examples=10, deadline=None)
def test_any_cuts_and_any_blocks_follow_the_rules(
    data: bytes, options: DocumentOptions, batch_bytes: int, draw: st.DataObject
) -> None:
    assume(judge_bytes(data) is None and not has_returns(data))
    expected = read_plainly(data, options)
    cuts = draw.draw(st.lists(st.integers(0, len(data)), max_size=8))
    with small_batches(batch_bytes):
        for some in ([], *([cut] for cut in range(len(data) + 1)), cuts):
            assert read_ranges(data, options, some) == expected, some


@pytest.mark.parametrize("name", ALL_OPTIONS)
def test_every_byte_its_own_range(name: str) -> None:
    # Two long lines: one starts a document, one is within a document that several ranges cross.
    data = (
        b"\xef\xbb\xbfa\nb\n \n = t = \n \n  c\r\n\xff\n" + b"z" * 70 + b"\nd\r\n\r\n" + b"q" * 25
        + b"\n\n = u = \n \n" + b"word word word \n" * 3 + b"\n" * 12 + b" = v = "
    )  # fmt: skip
    options = ALL_OPTIONS[name]
    expected = read_plainly(data, options)
    for batch_bytes in (1, 1000):
        with small_batches(batch_bytes):
            assert read_ranges(data, options, range(1, len(data))) == expected


def test_ids_of_documents_are_their_places() -> None:
    data = b"= t =\n\xff\none\ntwo\n\nthree"
    content = read_ranges(data, TINY)
    places = document_id(3, 6), document_id(3, 17)
    assert content.documents == [(places[0], ["one", "two"]), (places[1], ["three"])]
    assert [(reject.offset, reject.length) for reject in content.rejects] == [(6, 1)]


@pytest.mark.parametrize(("file_index", "offset"), [(2**24, 0), (-1, 0), (0, 2**40), (0, -1)])
def test_places_that_do_not_fit_an_id_are_refused(file_index: int, offset: int) -> None:
    with pytest.raises(UserError):
        document_id(file_index, offset)


def test_the_last_id_fits() -> None:
    assert document_id(2**24 - 1, 2**40 - 1) == 2**64 - 1


def test_an_empty_file_gives_one_empty_batch() -> None:
    (batch,) = read_text(io.BytesIO(), FileRange("f", 0, DocumentOptions()))
    assert (batch.documents.num_rows, batch.rejects, batch.counts) == (0, (), ReadCounts())


def test_batches_have_about_the_wanted_size() -> None:
    data = b"a sentence of forty bytes, more or less.\n\n" * 20_000
    with small_batches(50_000):
        batches = list(read_text(io.BytesIO(data), FileRange("f", 0, DocumentOptions())))
    sizes = [batch.documents.nbytes for batch in batches[:-1]]
    assert len(sizes) > 10
    assert all(25_000 < size < 150_000 for size in sizes)


@pytest.mark.parametrize(
    ("option", "value"),
    [("document_rule", "paragraphs"), ("max_document_bytes", 0), ("max_line_bytes", -1),
     ("max_line_bytes", 2**29)],
)  # fmt: skip
def test_wrong_options_are_refused(option: str, value: object) -> None:
    with pytest.raises(UserError, match=str(value)):
        DocumentOptions(**{option: value})  # type: ignore[arg-type]


class OnlyRead(io.RawIOBase):
    """A pipe: its reads are short, and it cannot go back."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def read(self, size: int | None = -1, /) -> bytes:
        return self._data.read(min(size or 0, 7))


def test_a_compressed_stream_is_read_forward_in_short_reads() -> None:
    data = b"one\ntwo\n\n= t =\nthree\n" * 5
    stream = cast(BinaryIO, OnlyRead(data))
    content = Content().add(read_text(stream, FileRange("f", 3, TINY)))
    assert content == read_plainly(data, TINY)


class ShortReads(OnlyRead):
    """A plain file whose reads are short, as those of a network may be."""

    def seek(self, place: int, whence: int = io.SEEK_SET, /) -> int:
        return self._data.seek(place, whence)


def test_a_plain_file_is_read_to_its_end_in_short_reads() -> None:
    data = b"one\ntwo\n\n= t =\nthree\n" * 5 + b"no line break"
    stream = cast(BinaryIO, ShortReads(data))
    content = Content().add(read_text(stream, FileRange("f", 3, TINY, 0, len(data))))
    assert content == read_plainly(data, TINY)


@pytest.mark.parametrize("batch_bytes", [16, 1024, 2**20])
def test_lines_that_were_complete_before_damage_are_kept(batch_bytes: int) -> None:
    text = b"".join(b"line %d of some document\n" % n + b"\n" * (n % 5 == 0) for n in range(4000))
    damaged = gzip.compress(text)[:-4000]
    stream = open_decompressed(io.BytesIO(damaged), "f.gz")
    with small_batches(batch_bytes):
        content = Content().add(read_text(stream, FileRange("f", 3, DocumentOptions())))
    (reject,) = content.rejects
    assert (reject.reason, reject.length) == ("damaged-compression", -1)
    assert 0 < reject.offset < len(text)
    complete = text[: text[: reject.offset].rfind(b"\n") + 1]
    expected = read_plainly(complete, DocumentOptions())
    expected.counts += ReadCounts(unfinished_files=1)
    assert (content.documents, content.counts) == (expected.documents, expected.counts)


class Damaged(io.BytesIO):
    """A decompressed stream that is damaged after its last byte."""

    def read(self, size: int | None = -1, /) -> bytes:
        if not (data := super().read(size)):
            raise DamagedStreamError("bad check sum")
        return data


@pytest.mark.parametrize("name", ALL_OPTIONS)
def test_damage_anywhere_loses_no_complete_line(name: str) -> None:
    options, text = ALL_OPTIONS[name], b"one\n\xff\n\n" + b"z" * 70 + b"\n two\n\n= t =\n\nthree\n"
    # Some of the places within the long line are enough.
    sizes = [*range(12), *range(12, 78, 11), *range(78, len(text) + 1)]
    for number, size in enumerate(sizes):
        expected = read_plainly(text[: text[:size].rfind(b"\n") + 1], options)
        expected.rejects.append(Reject("f", size, -1, "damaged-compression", "bad check sum"))
        expected.counts += ReadCounts(unfinished_files=1)
        with small_batches((1, 64)[number % 2]):
            content = Content().add(read_text(Damaged(text[:size]), FileRange("f", 3, options)))
        assert content == expected, size


def test_a_document_is_cut_before_it_exceeds_its_limit() -> None:
    assert read_ranges(b"0123456789\n" * 5, TINY).counts.cut_documents == 0
    content = read_ranges(b"0123456789\n" * 6, TINY)
    places = [document_id(3, 0), document_id(3, 55)]
    assert [document for document, _ in content.documents] == places
    assert content.counts.cut_documents == 1


def test_a_document_of_a_million_lines_is_cut_at_its_limit() -> None:
    data = b"0123456789\n" * 1_000_000
    options = DocumentOptions(max_document_bytes=2**20)
    content = read_ranges(data, options, cuts=[5, 4_000_000])
    assert content.counts.sentences == 1_000_000
    assert content.counts.documents == len(content.documents) == 10
    assert content.counts.cut_documents == 9
    assert {len(sentences) for _, sentences in content.documents[:-1]} == {2**20 // 10}
    assert content.documents[1][0] == document_id(3, 2**20 // 10 * 11)


def test_ranges_of_wikitext_2_follow_the_rules(wikitext: Path) -> None:
    data = (wikitext / "wiki.train.tokens").read_bytes()
    options = DocumentOptions()
    expected = read_plainly(data, options)
    assert expected.counts.documents > len(data) / 2500
    assert read_ranges(data, options) == expected
    assert read_ranges(data, options, cuts=range(1, len(data), 999_983)) == expected


@pytest.mark.parametrize("length", [4094, 4095, 4096, 4097, 8191, 8192, 8193])
def test_the_line_before_a_range_is_found_in_windows_that_double(length: int) -> None:
    data = b"one\n\n" + b"x" * length + b"\ntwo\n"
    whole = read_ranges(data, DocumentOptions())
    for cut in (6 + length, 7 + length, 8 + length):
        assert read_ranges(data, DocumentOptions(), [cut]) == whole


@pytest.mark.parametrize("name", ["max_line_bytes", "max_document_bytes"])
def test_limits_go_up_to_what_offsets_in_a_batch_can_tell(name: str) -> None:
    assert getattr(DocumentOptions(**{name: 2**28}), name) == 2**28  # type: ignore[arg-type]
    with pytest.raises(UserError, match="268435457"):
        DocumentOptions(**{name: 2**28 + 1})  # type: ignore[arg-type]
