"""What separates the cells of CSV files, and what quotes mean in them, by their first rows."""

import csv
import io
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.decompression import HEAD_BYTES
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import check_start, read_file
from corpusmill.corpus.records.csv_dialects import Dialect, find_dialect
from corpusmill.errors import UserError
from tests.tools.read_content import Content

CSV = DocumentOptions(input_format="csv", sentence_rule="document")
TEXTS = [f'{n} boats, "red" ones; on the river' for n in range(30)]


def read(data: bytes, options: DocumentOptions = CSV) -> Content:
    check_start(io.BytesIO(data), "f", options)
    return Content().add(read_file(io.BytesIO(data), FileRange("f", 0, options)))


def write(texts: list[str], **dialect: Any) -> bytes:
    sink = io.StringIO()
    writer = csv.writer(sink, **dialect)
    writer.writerows([["id", "text"], *enumerate(texts)])
    return sink.getvalue().encode()


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "quotes",
    [
        {}, {"quoting": csv.QUOTE_ALL},
        {"doublequote": False, "escapechar": "\\"},
    ],
)  # fmt: skip
def test_any_separator_end_of_lines_and_quotes_are_found(
    separator: str, ending: str, quotes: dict[str, Any]
) -> None:
    data = write(TEXTS, delimiter=separator, lineterminator=ending, **quotes)
    content = read(data)
    assert content.texts == [[text] for text in TEXTS]
    assert not content.rejects


@pytest.mark.parametrize("name", ["csv", "tsv"])
def test_quotes_that_enclose_nothing_are_letters(name: str) -> None:
    texts = ['"old" he said', '5" pipe', '"never closed', "plain", '"', 'in "the" middle'] * 9
    data = "id\ttext\n" + "".join(f"{n}\t{text}\n" for n, text in enumerate(texts))
    content = read(data.encode(), replace(CSV, input_format=name))
    assert content.texts == [[text] for text in texts]


def test_cells_of_several_lines_stay_in_quotes() -> None:
    texts = [f"one\ntwo {n}\n\nthree, four" for n in range(30)]
    content = read(write(texts))
    assert content.texts == [[text] for text in texts]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("lines", [2, HEAD_BYTES // 4])
@pytest.mark.parametrize("name", ["csv", "tsv"])
def test_the_cells_of_a_single_column_may_have_several_lines(
    name: str, lines: int, quoting: Any
) -> None:
    texts = [f"one {n}\n" + "two\n" * (lines - 1) + "three" for n in range(3)]
    sink = io.StringIO()
    csv.writer(sink, quoting=quoting).writerows([["text"], *([text] for text in texts)])
    content = read(sink.getvalue().encode(), replace(CSV, input_format=name))
    assert content.texts == [[text] for text in texts]


@pytest.mark.parametrize("beyond", [-1, 0, 1, HEAD_BYTES])
@pytest.mark.parametrize("separator", [";", "\t"])
def test_the_beginning_of_a_long_header_shows_the_separator(separator: str, beyond: int) -> None:
    header = f'"id"{separator}"text"{separator}"a, b'
    data = header + "x" * (HEAD_BYTES + beyond - len(header) - 2) + '"\n'
    data += separator.join(["1", "a boat", "c"]) + "\n"
    assert read(data.encode()).texts == [["a boat"]]


def test_a_damaged_row_does_not_make_letters_of_all_quotes() -> None:
    data = write(["plain"] * 30, quoting=csv.QUOTE_ALL).replace(b'"7","plain"', b'"7","pl"ain"')
    content = read(data)
    assert content.texts == [["plain"]] * 29
    assert [reject.reason for reject in content.rejects] == ["invalid-csv"]


def test_options_say_what_the_rows_do_not() -> None:
    data = b"id:text\n1:'a'\n2:\"b\"\n"
    options = replace(CSV, csv_separator=":", csv_quotes="none")
    assert read(data, options).texts == [["'a'"], ['"b"']]
    assert read(data, replace(options, csv_quotes="double")).texts == [["'a'"], ["b"]]
    with pytest.raises(UserError, match=r"--text-field text: .*its fields are id:text"):
        read(data)


@pytest.mark.parametrize("separator", ["", ",,", '"', "\n", "\\"])
def test_a_separator_is_one_character(separator: str) -> None:
    with pytest.raises(UserError, match="--csv-separator"):
        DocumentOptions(csv_separator=separator)


@pytest.mark.parametrize("separator", ["\t", r"\t", "tab"])
def test_a_tab_can_be_written_in_words(separator: str) -> None:
    options = replace(CSV, csv_separator=separator)
    assert read(b"id,text\ttext\n1\ta\n", options).texts == [["a"]]


def test_quotes_have_one_of_three_meanings() -> None:
    with pytest.raises(UserError, match="double, backslash, none"):
        DocumentOptions(csv_quotes="single")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("header", "expected"),
    [("id;text", ";"), ("text", ","), ("a,b;text", ";"), ("a|b|c,d", "|"), ('"id"\t"text"', "\t")],
)
def test_the_header_tells_the_separator(header: str, expected: str) -> None:
    assert find_dialect(header, True, None, None, "text")[0].separator == expected


@given(st.text(), st.booleans())
def test_any_text_has_a_dialect(text: str, is_whole: bool) -> None:
    assert isinstance(find_dialect(text, is_whole, None, None, "text")[0], Dialect)
