"""Documents that are one text each, as it stands."""

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

from corpusmill.corpus.batches import FileRange, document_id
from corpusmill.corpus.document_options import DocumentOptions, DocumentRule
from corpusmill.corpus.input_formats import reads_in_ranges
from corpusmill.corpus.text.text_documents import read_text
from tests.tools.plain_reading import MARK
from tests.tools.read_content import read_ranges
from tests.tools.wikitext import WIKITEXT_2

TINY = DocumentOptions(sentence_rule="document", max_line_bytes=20, max_document_bytes=50)
WHOLE_FILE = replace(TINY, document_rule="whole-file")
ARTICLES = replace(TINY, document_rule="wikitext-articles")
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


def test_endless_white_space_does_not_fill_memory() -> None:
    options = DocumentOptions(sentence_rule="document", max_document_bytes=2**16)
    for rule in get_args(DocumentRule):
        part = FileRange("f", 0, replace(options, document_rule=rule))
        batches = list(read_text(io.BytesIO(b" \n" * 2**21), part))
        assert max(batch.documents.nbytes for batch in batches) < 2**10
        assert sum(batch.counts.blank_lines for batch in batches) == 2**21


def test_wikitext_2_has_as_many_articles_as_its_paper_says(wikitext: Path) -> None:
    titles = re.compile(rb"^ = [^=\n]+ = \n \n", re.MULTILINE)
    published = {"train": 600, "valid": 60, "test": 60} if wikitext == WIKITEXT_2 else {}
    for file in wikitext.iterdir():
        data = file.read_bytes()
        articles = published.get(file.suffixes[0][1:]) or len(titles.findall(data))
        options = replace(ARTICLES, max_line_bytes=2**20, max_document_bytes=2**24)
        content = read_ranges(data, options)
        texts = [text for _, [text] in content.documents]
        assert "".join(texts).encode().strip() == data.strip()
        assert sum(text.startswith(" = ") for text in texts) == articles
        assert read_ranges(data, options, range(1, len(data), 99_991)) == content
