"""Whole documents, in ranges of any size, against a plain-Python reading of the file."""

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.corpus.batches import ReadCounts, Reject, document_id
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.input_formats import reads_in_ranges
from corpusmill.corpus.options import DocumentOptions
from corpusmill.corpus.text.reading import read_text
from tests.corpusmill.corpus.text.test_documents import (
    FILES,
    WIKITEXT_2,
    Damaged,
    find_headings,
    refusal,
)
from tests.tools.read_content import Content, assert_any_cuts_read, read_ranges

TINY = DocumentOptions(sentence_rule="document", max_line_bytes=20, max_document_bytes=50)
RULES = ("whole-file", "wikitext-articles", "blank-lines", "wikitext")
ALL_RULES = [replace(TINY, document_rule=rule) for rule in RULES]  # type: ignore[arg-type]
WHOLE_FILE, ARTICLES, BLANK_LINES, WIKITEXT = ALL_RULES
MARK = b"\xef\xbb\xbf"


class Reference:
    """The rules of reading in plain Python, with the whole file at once."""

    def __init__(self, data: bytes, options: DocumentOptions) -> None:
        self.content, self.options = Content(), options
        self.count = dict.fromkeys(ReadCounts.__dataclass_fields__, 0)
        # Where the open document starts, its text, and whether it continues a piece with text.
        self.first: int | None = None
        self.text, self.continues = b"", False
        lines = re.findall(rb"[^\n]*\n|[^\n]+", data)
        self.count |= {"bytes": len(data), "lines": len(lines)}
        texts = [lines[0].removeprefix(MARK), *lines[1:]] if lines else []
        headings = find_headings([line.removesuffix(b"\n") for line in lines], options)
        offset, before = 0, b""
        for line, text, heading in zip(lines, texts, headings, strict=True):
            self.add(offset, line, text, heading, before)
            offset, before = offset + len(line), line
        self.close(is_cut=False)
        self.content.counts = ReadCounts(**self.count)

    def add(self, offset: int, line: bytes, text: bytes, heading: bool, before: bytes) -> None:
        rule, limit = self.options.document_rule, self.options.max_document_bytes
        bare = line.removesuffix(b"\n")
        stripped = text.decode(errors="surrogateescape").strip()
        reason, detail = refusal(bare, self.options)
        is_title = stripped.startswith("=") and rule not in {"blank-lines", "whole-file"}
        if rule == "wikitext" and is_title and reason == "invalid-utf-8":
            reason = ""
        kind = "title" if is_title else "sentence" if stripped else "blank"
        self.count[f"{'rejected' if reason else kind}_lines"] += 1
        if reason:
            self.content.rejects.append(Reject("f", offset, len(bare), reason, detail))
        is_separator = kind != "sentence" and not reason and rule in {"wikitext", "blank-lines"}
        if rule == "whole-file":
            reaches = offset >= limit and (offset - len(before)) // limit != offset // limit
            long_before = len(before.removesuffix(b"\n")) > self.options.max_line_bytes
            if reaches or (offset >= limit and long_before):
                self.close(is_cut=True)
                self.first = offset
        elif is_separator or (rule == "wikitext-articles" and heading):
            self.close(is_cut=False)
        if is_separator:
            return
        self.first = offset if self.first is None else self.first
        if not reason:
            if rule != "whole-file" and self.text and len(self.text + text) > limit:
                self.close(is_cut=True)
                self.first = offset
            self.text += text

    def close(self, is_cut: bool) -> None:
        text, rule = self.text.decode(), self.options.document_rule
        continues = self.continues or (rule == "whole-file" and bool(self.first))
        if rule in {"wikitext", "blank-lines"} and not is_cut:
            text = re.sub("\r?\n$", "", text) if text.endswith("\n") else text
        if text.strip():
            self.content.documents.append((document_id(3, cast(int, self.first)), [text]))
            self.count["documents"] += 1
            self.count["sentences"] += 1
            self.count["cut_documents"] += continues
        self.continues = is_cut and bool(self.continues or text.strip())
        self.first, self.text = None, b""


def reference(data: bytes, options: DocumentOptions) -> Content:
    return Reference(data, options).content


@given(FILES, st.sampled_from(ALL_RULES), st.integers(1, 80), st.data())
@settings(max_examples=150, deadline=None)
def test_any_cuts_and_any_blocks_follow_the_rules(
    data: bytes, options: DocumentOptions, batch_bytes: int, draw: st.DataObject
) -> None:
    assert_any_cuts_read(data, options, batch_bytes, draw, reference(data, options))


@pytest.mark.parametrize("options", ALL_RULES, ids=RULES)
def test_every_byte_its_own_range(options: DocumentOptions) -> None:
    data = (
        b"\xef\xbb\xbfa\nb\n \n = t = \n \n  c\r\n\xff\n"
        + b"z" * 70
        + b"\nd\r\n\r\n"
        + b"q" * 25
        + b"\n\n = u = \n \n"
        + b"word word word \n" * 9
        + b"\n" * 120
        + b" = v = "
    )
    for batch_bytes in (1, 5, 1000):
        assert read_ranges(data, options, range(1, len(data)), batch_bytes) == reference(
            data, options
        )


LINES_OF_CODE = b"\r\n  def f():\r\n\r\n\treturn 1 \n\n\n# end\n \n"


def texts_of(data: bytes, rule: str) -> list[str]:
    options = DocumentOptions(sentence_rule="document", document_rule=rule)  # type: ignore[arg-type]
    return [text for _, [text] in read_ranges(data, options).documents]


def test_a_file_is_its_text_as_it_stands() -> None:
    assert texts_of(LINES_OF_CODE, "whole-file") == [LINES_OF_CODE.decode()]
    assert texts_of(MARK + LINES_OF_CODE, "whole-file") == [LINES_OF_CODE.decode()]
    assert texts_of(b"no newline", "whole-file") == ["no newline"]
    for nothing in (b"", MARK, b" \n\t\r\n", "\u3000\u2028\n".encode()):
        assert texts_of(nothing, "whole-file") == []


def test_a_line_that_cannot_be_decoded_is_left_out_of_its_text() -> None:
    content = read_ranges(b"  a\n\tb \xff\nc\n", DocumentOptions(sentence_rule="document"))
    assert content.documents == [(document_id(3, 0), ["  a\nc"])]
    assert content.places == [(4, 4, "invalid-utf-8")]


def test_stretches_between_blank_lines_keep_what_is_within_them() -> None:
    expected = ["  def f():", "\treturn 1 ", "# end"]
    assert texts_of(LINES_OF_CODE, "blank-lines") == expected
    assert texts_of(b"  a\r\n\tb\r\n", "blank-lines") == ["  a\r\n\tb"]
    # A title separates stretches of WikiText and belongs to none.
    assert texts_of(b" a\n b\n = t = \n c", "wikitext") == [" a\n b", " c"]


def test_an_article_is_all_up_to_the_next_title() -> None:
    first = " = A = \n \n one\n = = S = = \n \n two\n Key : Pld \n = Played , W = \n Won\n \n"
    second = " = B = C = \n \n three\n"
    text = f" \n{first}{second}"
    assert texts_of(text.encode(), "wikitext-articles") == [first, second]
    content = read_ranges(f"before\n{text}".encode(), replace(ARTICLES, max_document_bytes=1000))
    assert content.sentences == ["before\n \n", first, second]
    counts = content.counts
    assert (counts.title_lines, counts.blank_lines, counts.sentence_lines) == (4, 5, 6)


def test_pieces_of_a_file_are_read_by_the_ranges_that_hold_them() -> None:
    data = b"".join(b"line %d\n" % number for number in range(200))
    pieces = read_ranges(data, WHOLE_FILE)
    assert "".join(text for _, [text] in pieces.documents).encode() == data
    assert pieces.counts.documents == pieces.counts.cut_documents + 1 == -(-len(data) // 50)
    [batch] = read_text(io.BytesIO(data), FileRange("f", 3, WHOLE_FILE, 100, 150))
    assert batch.counts.documents == 1
    assert batch.counts.bytes < 70
    assert reads_in_ranges(replace(WHOLE_FILE, input_format="text"))


@pytest.mark.parametrize("options", ALL_RULES, ids=RULES)
def test_damage_anywhere_loses_no_complete_line(options: DocumentOptions) -> None:
    text = b"one\n\xff\n\n" + b"z" * 70 + b"\n two\n\n= t =\n\nthree\n"
    for size in range(len(text) + 1):
        for batch_bytes in (1, 64):
            stream, content = Damaged(text[:size]), Content()
            content.add(read_text(stream, FileRange("f", 3, options, batch_bytes=batch_bytes)))
            expected = reference(text[: text[:size].rfind(b"\n") + 1], options)
            expected.rejects.append(Reject("f", size, -1, "damaged-compression", "bad check sum"))
            assert content == expected, size


def test_endless_white_space_does_not_fill_memory() -> None:
    options = DocumentOptions(sentence_rule="document", max_document_bytes=2**16)
    for rule in RULES:
        part = FileRange("f", 0, replace(options, document_rule=rule))  # type: ignore[arg-type]
        batches = list(read_text(io.BytesIO(b" \n" * 2**21), part))
        assert max(batch.documents.nbytes for batch in batches) < 2**10
        assert sum(batch.counts.blank_lines for batch in batches) == 2**21


@pytest.mark.skipif(not WIKITEXT_2.exists(), reason="needs ../shared/data/wikitext-2")
def test_wikitext_2_has_as_many_articles_as_its_paper_says() -> None:
    for name, articles in (("train", 600), ("valid", 60), ("test", 60)):
        data = Path(WIKITEXT_2.parent / f"wiki.{name}.tokens").read_bytes()
        content = read_ranges(
            data, replace(ARTICLES, max_line_bytes=2**20, max_document_bytes=2**24)
        )
        texts = [text for _, [text] in content.documents]
        assert "".join(texts).encode().strip() == data.strip()
        assert sum(text.startswith(" = ") for text in texts) == articles
        in_ranges = read_ranges(
            data,
            replace(ARTICLES, max_line_bytes=2**20, max_document_bytes=2**24),
            range(1, len(data), 99_991),
        )
        assert in_ranges == content
