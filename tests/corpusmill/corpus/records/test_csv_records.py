"""Rows of CSV and TSV files, and what separates them, against `csv.reader` on the whole file."""

import csv
import gzip
import io
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.corpus.batches import FileRange, document_id
from corpusmill.corpus.decompression import HEAD_BYTES, open_decompressed
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import check_start, read_file
from corpusmill.corpus.records.csv_dialects import Dialect, find_dialect
from corpusmill.corpus.records.csv_rows import read_csv
from corpusmill.errors import UserError
from tests.tools.knobs import small_batches
from tests.tools.read_content import Content
from tests.tools.table_rows import for_rows

ANY = DocumentOptions(input_format="csv")
CSV = replace(ANY, csv_quotes="double")
SMALL = replace(CSV, max_line_bytes=40)
Rejects = list[tuple[int, int, str]]


def read(data: bytes, options: DocumentOptions = CSV, size: int = 2**20) -> Content:
    """Read a file, and check what holds for any file."""
    with small_batches(size):
        content = Content().add(read_file(io.BytesIO(data), FileRange("f", 2, options)))
    assert content.counts.rejected_rows == len(content.rejects)
    offsets = [reject.offset for reject in content.rejects]
    assert offsets == sorted(offsets)
    return content.balanced(len(data))


def sentences_of(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def written(rows: Iterable[Iterable[Any]], **dialect: Any) -> bytes:
    sink = io.StringIO()
    csv.writer(sink, **dialect).writerows(rows)
    return sink.getvalue().encode()


cells = st.text(st.sampled_from('ab ",\t\r\n\té漢😀\u2028\u00a0'), max_size=12)


@given(
    st.lists(st.tuples(cells, cells), max_size=12),
    st.sampled_from(["\r\n", "\n"]),
    st.sampled_from(["csv", "tsv"]),
    st.booleans(),
    st.sampled_from([1, 7, 60, 10_000]),
)
def test_all_written_cells_are_read(
    rows: list[tuple[str, str]], ending: str, name: str, mark: bool, size: int
) -> None:
    table = [["id", "text"], *map(list, rows)]
    separator = "," if name == "csv" else "\t"
    data = written(table, lineterminator=ending, delimiter=separator, quoting=csv.QUOTE_ALL)
    data = b"\xef\xbb\xbf" * mark + data
    content = read(data, replace(ANY, input_format=name), size)
    assert content.texts == list(filter(None, (sentences_of(text) for _, text in rows)))
    assert not content.rejects
    assert content.counts.records == content.counts.rows == len(rows)
    assert content.counts.empty_records == len(rows) - len(content.texts)


parts = st.sampled_from(["a", "b,", '"', '""', "\n", "\r\n", " ", "é", ",", '"\n'])


@given(st.lists(parts).map("".join), st.sampled_from([1, 5, 10_000]))
def test_what_csv_reader_reads_without_an_error_is_read_as_it_does(rest: str, size: int) -> None:
    data = "id,text\n" + rest
    content = read(data.encode(), CSV, size)
    try:
        [_, *rows] = csv.reader(io.StringIO(data, newline="\n"), strict=True)
    except csv.Error:
        assert content.rejects
        return
    texts = (sentences_of(row[1]) for row in rows if len(row) == 2)
    assert content.texts == list(filter(None, texts))
    blank = sum(not any(cell.strip() for cell in row) and len(row) < 2 for row in rows)
    wrong = sum(len(row) != 2 for row in rows) - blank
    assert content.counts.rejected_rows + content.counts.blank_lines == wrong + blank


@given(
    st.lists(
        st.sampled_from(
            [b"1,a\n", b'2,"b\nc"\n', b'3,"d\n', b"\n", b"4\n", b"5,\xff\n", b'6,"e\n\xff"\n',
             b"7,\0\n", b'8,"x"y\n', b"9," + b"z" * 50 + b"\n", b'"',
             b'10,"' + b"wwwwwww\n" * 6 + b'"\n']
        ),
        max_size=10,  # rejects of a reason after the hundredth come after the others
    ).map(b"".join),
    st.sampled_from([1, 9, 50]),
)  # fmt: skip
def test_damage_is_the_same_for_any_size_of_block(rest: bytes, size: int) -> None:
    data = b"id,text\n" + rest
    whole, parts = read(data, SMALL), read(data, SMALL, size)
    assert parts == whole


@pytest.mark.parametrize(
    ("rest", "texts", "rejects"),
    [
        (b"1,a\n2\n3,c\n", ["a", "c"], [(12, 1, "wrong-columns")]),
        (b"1,a,b\n3,c\n", ["c"], [(8, 5, "wrong-columns")]),
        (b"1,\xff\n2,b\n", ["b"], [(8, 3, "invalid-utf-8")]),
        (b'1,"a\n\xff"\n2,b\n', ["b"], [(8, 7, "invalid-utf-8")]),
        (b"1,a\0b\n2,b\n", ["b"], [(8, 5, "nul-byte")]),
        (b'1,"a"b\n2,b\n', ["b"], [(8, 6, "invalid-csv")]),
        (b'1,"a\n2,b\n3,c\n', ["b", "c"], [(8, 4, "unclosed-quote")]),
        (b'1,"a\n2,"b"\n3,c\n', ["b", "c"], [(8, 4, "invalid-csv")]),
        (b'1,"a\n2,' + b"b" * 39 + b'"\n3,c\n', ["c"],
         [(8, 4, "row-too-long"), (13, 42, "line-too-long")]),
        (b'1,"a\n2,' + b"b" * 30 + b"\n3," + b"c" * 20 + b'"\n4,d\n',
         ["b" * 30, "c" * 20 + '"', "d"],
         [(8, 4, "row-too-long")]),
        (b"1," + b"y" * 39 + b"\n2,b\n", ["b"], [(8, 41, "line-too-long")]),
        (b"1," + b"y" * 38 + b"\n", ["y" * 38], []),
        (b"1,a\rb\n2,b\n", ["b"], [(8, 5, "invalid-csv")]),
    ],
)  # fmt: skip
def test_a_bad_row_costs_only_itself(rest: bytes, texts: list[str], rejects: Rejects) -> None:
    content = read(b"id,text\n" + rest, SMALL)
    assert [" ".join(sentences) for sentences in content.texts] == texts
    assert content.places == rejects


def test_the_id_of_a_document_is_the_byte_at_which_its_row_starts() -> None:
    content = read(b'\xef\xbb\xbfid,text\r\n1,"a\nb"\r\n\r\n2,c\r\n')
    assert content.documents == [(document_id(2, 12), ["a", "b"]), (document_id(2, 23), ["c"])]
    assert content.counts.blank_lines == 1


def test_a_text_that_is_cut_has_ids_of_its_own() -> None:
    options = replace(CSV, max_document_bytes=4)
    content = read(b'text\n"aaa\nbbb\nccc"\nd\n', options)
    ids = [document_id(2, place) for place in (5, 6, 7, 19)]
    assert [document for document, _ in content.documents] == ids
    assert content.counts.cut_documents == 2


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"id,text\n", b"id,text", b"\xef\xbb\xbf", b"id,text\n\n"]
)
def test_files_without_a_row_give_nothing(data: bytes) -> None:
    content = read(data)
    assert (content.documents, content.rejects, content.counts.rows) == ([], [], 0)


@pytest.mark.parametrize(
    ("header", "detail"),
    [(b"id,body\n", "id, body"), (b"text,text\n", "text, text"), (b'id,"text"x\n', "unknown")],
)
def test_a_later_file_without_the_field_is_refused_row_by_row(header: bytes, detail: str) -> None:
    content = read(header + b"1,a\n2,b\n")
    assert content.reasons[-2:] == ["missing-field"] * 2
    assert detail in content.rejects[-1].detail


def test_a_stray_quote_in_a_long_file_costs_one_line_and_bounded_memory() -> None:
    rows = b"1,words\n" * 40_000
    content = read(b'id,text\n0,"a\n' + rows, replace(CSV, max_line_bytes=2**16), 2**14)
    assert content.counts.records == 40_000
    # The waiting lines have at most twice the limit and a block.
    assert content.largest <= 2 * 2**16 + 2**14
    assert content.places == [(8, 4, "row-too-long")]


def test_a_damaged_file_keeps_the_rows_before_the_damage() -> None:
    cells = [[str(row), f"text {row * 7919}\nmore"] for row in range(20_000)]
    rows = written([["id", "text"], *cells], quoting=csv.QUOTE_ALL)
    packed = gzip.compress(rows)
    stream = open_decompressed(io.BytesIO(packed[: len(packed) // 2]), "f.csv.gz")
    content = Content().add(read_csv(stream, FileRange("f", 0, CSV)))
    texts = content.texts
    assert len(texts) > 5000
    assert texts == [[f"text {row * 7919}", "more"] for row in range(len(texts))]
    [reject] = content.rejects
    assert (reject.length, reject.reason) == (-1, "damaged-compression")
    assert rows[reject.offset :].startswith(b'"%d"' % len(texts))


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"id,body\n1,a\n", "its fields are id, body"),
        (b"\n\xef\xbb\xbfid\n", "its fields are"),
        (b'text,"text"\n', "more than once"),
    ],
)
def test_a_header_without_the_field_is_refused(start: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_start(io.BytesIO(start), "f", CSV)


@pytest.mark.parametrize(
    "start", [b"\xef\xbb\xbftext\n", b'"text","a\nb"\r\n', b"", b'"text', b"a" * 2**21]
)
def test_what_the_run_itself_judges_is_accepted(start: bytes) -> None:
    check_start(io.BytesIO(start), "f", CSV)


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_a_header_within_the_first_megabyte_is_judged_before_any_work(extra: int) -> None:
    header = b"id," + b"x" * (2**20 + extra - 4) + b"\n"
    stream = io.BytesIO(header + b"1,a\n" * 9)
    if extra > 0:
        check_start(stream, "f", CSV)
        return
    with pytest.raises(UserError, match="its fields are id"):
        check_start(stream, "f", CSV)


# What separates the cells, and what quotes mean in them, by the first rows


FOUND = replace(ANY, sentence_rule="document")
TEXTS = [f'{n} boats, "red" ones; on the river' for n in range(30)]
QUOTES: tuple[dict[str, Any], ...] = (
    {},
    {"quoting": csv.QUOTE_ALL},
    {"doublequote": False, "escapechar": "\\"},
)


def find(data: bytes, options: DocumentOptions = FOUND) -> list[list[str]]:
    """Read a file whose rows show how it is written, none of which is a reject."""
    check_start(io.BytesIO(data), "f", options)
    content = read(data, options)
    assert not content.rejects
    return content.texts


def numbered(texts: list[str]) -> list[list[Any]]:
    return [["id", "text"], *([number, text] for number, text in enumerate(texts))]


@for_rows(("separator", "ending", "quotes"), product(",;\t|", ["\n", "\r\n", "\r"], QUOTES))
def test_any_separator_end_of_lines_and_quotes_are_found(
    separator: str, ending: str, quotes: dict[str, Any]
) -> None:
    data = written(numbered(TEXTS), delimiter=separator, lineterminator=ending, **quotes)
    assert find(data) == [[text] for text in TEXTS]


def test_quotes_that_enclose_nothing_are_letters() -> None:
    texts = ['"old" he said', '5" pipe', '"never closed', "plain", '"', 'in "the" middle'] * 9
    data = "id\ttext\n" + "".join(f"{n}\t{text}\n" for n, text in enumerate(texts))
    for options in (FOUND, replace(FOUND, input_format="tsv")):
        assert find(data.encode(), options) == [[text] for text in texts]


@for_rows(
    ("name", "lines", "quoting"),
    product(["csv", "tsv"], [2, HEAD_BYTES // 4], [csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_the_cells_of_a_single_column_may_have_several_lines(
    name: str, lines: int, quoting: Any
) -> None:
    texts = [f"one {n}\n" + "two\n" * (lines - 1) + "three" for n in range(3)]
    data = written([["text"], *([text] for text in texts)], quoting=quoting)
    assert find(data, replace(FOUND, input_format=name)) == [[text] for text in texts]


def test_cells_of_several_lines_stay_in_quotes() -> None:
    texts = [f"one\ntwo {n}\n\nthree, four" for n in range(30)]
    assert find(written(numbered(texts))) == [[text] for text in texts]


@for_rows(("separator", "beyond"), product(";\t", [-1, 0, 1, HEAD_BYTES]))
def test_the_beginning_of_a_long_header_shows_the_separator(separator: str, beyond: int) -> None:
    header = f'"id"{separator}"text"{separator}"a, b'
    data = header + "x" * (HEAD_BYTES + beyond - len(header) - 2) + '"\n'
    data += separator.join(["1", "a boat", "c"]) + "\n"
    assert find(data.encode()) == [["a boat"]]


def test_a_damaged_row_does_not_make_letters_of_all_quotes() -> None:
    data = written(numbered(["plain"] * 30), quoting=csv.QUOTE_ALL)
    content = read(data.replace(b'"7","plain"', b'"7","pl"ain"'), FOUND)
    assert content.texts == [["plain"]] * 29
    assert content.reasons == ["invalid-csv"]


def test_options_say_what_the_rows_do_not() -> None:
    data = b"id:text\n1:'a'\n2:\"b\"\n"
    options = replace(FOUND, csv_separator=":", csv_quotes="none")
    assert find(data, options) == [["'a'"], ['"b"']]
    assert find(data, replace(options, csv_quotes="double")) == [["'a'"], ["b"]]
    with pytest.raises(UserError, match=r"--text-field text: .*its fields are id:text"):
        find(data)
    for tab in ("\t", r"\t", "tab"):
        assert find(b"id,text\ttext\n1\ta\n", replace(FOUND, csv_separator=tab)) == [["a"]]
    for separator in ("", ",,", '"', "\n", "\\"):
        with pytest.raises(UserError, match="--csv-separator"):
            DocumentOptions(csv_separator=separator)
    with pytest.raises(UserError, match="double, backslash, none"):
        DocumentOptions(csv_quotes="single")  # type: ignore[arg-type]


@for_rows(
    ("header", "separator"),
    [("id;text", ";"), ("text", ","), ("a,b;text", ";"), ("a|b|c,d", "|"), ('"id"\t"text"', "\t")],
)
def test_the_header_tells_the_separator(header: str, separator: str) -> None:
    assert find_dialect(header, True, None, None, "text")[0].separator == separator


@given(st.text(), st.booleans())
def test_any_text_has_a_dialect(text: str, is_whole: bool) -> None:
    assert isinstance(find_dialect(text, is_whole, None, None, "text")[0], Dialect)
