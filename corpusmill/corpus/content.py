"""What a file is, judged by its first bytes and not by its name.

Containers and compressed files begin with marks of their own. Of text, only what is certain is
told: JSON, tables with separators, markup, sequences of genes, notations such as those of
subtitles, and pointers to files elsewhere. Most of the first lines have to be of that kind, with
hardly any prose between them: a text may begin with an example of anything.
Everything else is text, whose format its name tells. What it resembles in part is noted.
"""

import codecs
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from itertools import islice
from typing import NamedTuple

import pyarrow as pa

from corpusmill.corpus.records.csv_dialects import SEPARATORS, find_dialect, list_lines


class Content(NamedTuple):
    """What the beginning of a file shows.

    Attributes:
        compression: the suffix of its compression (".gz"); empty for none.
        format: the input format that it certainly has; empty if it may have any format of text.
        what: what it is, where it is read as nothing, in words; empty otherwise.
        cure: what to do then.
        is_text: whether it is text that can be read as it stands, if someone asks for that.
        has_returns: whether its lines end with carriage returns alone.
        is_known: whether the file was looked at, or only its name.
        has_open_line: whether more of its first line may show another format.
        resembles: the input format or notation that part of it has, where it is taken for text.
    """

    compression: str = ""
    format: str = ""
    what: str = ""
    cure: str = ""
    is_text: bool = True
    has_returns: bool = False
    is_known: bool = True
    has_open_line: bool = False
    resembles: str = ""

    @property
    def in_words(self) -> str:
        """What it is, in words; empty for text whose format its name tells."""
        return self.what or (f"of the format {self.format}" if self.format else "")

    @property
    def is_in_ranges(self) -> bool:
        """Whether the file may be read in ranges, if its format is."""
        return self.is_known and not self.compression and not self.has_returns


_MARKS = (
    (re.compile(rb"\x1f\x8b\x08"), ".gz"),
    (re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), ".bz2"),
    (re.compile(rb"\xfd7zXZ\0"), ".xz"),
    # The second kind of frame holds no text; parallel compressors begin with one.
    (re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), ".zst"),
    (re.compile(rb"\x04\x22\x4d\x18"), ".lz4"),
)
# Compressed bytes of this number are never text; containers have control characters in as many.
_MARK_BYTES, _FIRST_BYTES = 512, 64
# What Arrow's decoder of Zstandard keeps of the text at most.
_MOST_WINDOW = 2**27


def find_compression(head: bytes) -> str:
    """Return the suffix of the compression that the first bytes of a file tell, or nothing."""
    marks = (suffix for mark, suffix in _MARKS if mark.match(head))
    # The mark of bzip2 is made of letters, with which a text may begin.
    return next((suffix for suffix in marks if not is_plain(head[:_MARK_BYTES])), "")


def check_compression(head: bytes, compression: str) -> Content | None:
    """Return why a compressed file cannot be read, as far as its first bytes show."""
    if compression and not find_compression(head):
        what = f"no {compression} file, whatever its name says"
        cure = "Get it again or leave it out; LZ4 of Hadoop has to be written again as lz4 does"
        return Content(compression, what=what, cure=cure, is_text=False)
    try:
        if compression == ".zst":
            pa.CompressedInputStream(pa.BufferReader(head), "zstd").read(1)
        return None
    except OSError as error:
        if "too much memory" not in str(error):
            return None
    what = f"Zstandard with a window above {_MOST_WINDOW:,} bytes, which each reader has to hold"
    cure = (
        f"Compress it again with a window of at most {_MOST_WINDOW:,} bytes (zstd without --long)"
    )
    return Content(compression, what=what, cure=cure, is_text=False)


def judge(head: bytes, is_whole: bool) -> Content:
    """Judge the beginning of a file.

    Args:
        head: its first bytes, decompressed.
        is_whole: whether these are all bytes of the file.
    """
    binary = judge_bytes(head)
    if binary:
        return binary
    text = head.removeprefix(codecs.BOM_UTF8).decode(errors="replace")
    content = next((content for rule in _RULES if (content := rule(text, is_whole))), Content())
    is_open = not is_whole and has_open_line(head)
    return content._replace(has_returns=has_returns(head), has_open_line=is_open)


def has_returns(head: bytes) -> bool:
    """Whether the lines of a text end with carriage returns alone, as its beginning shows."""
    return b"\r" in head[:-1] and b"\n" not in head


def has_open_line(head: bytes) -> bool:
    """Whether the beginning of a file is that of a line whose end tells what the file is.

    Example:
        b'{"text": "A boat' may be the first of many JSON lines, or an object of many lines.
    """
    begin = head.removeprefix(codecs.BOM_UTF8).lstrip()[:1]
    return b"\n" not in head and (begin == b"{" or has_returns(head))


_UNPACK, _TABLE = "Unpack it, and give its files", "Convert it to Parquet"
_container = partial(Content, is_text=False)
# Containers, and what the library of magic numbers does not know, or calls by no name that people
# use.
_CONTAINERS = (
    (rb"PAR1", _container(format="parquet")),
    (rb"ARROW1\0\0|FEA1|\xff{4}.{4}[\x0c-\x20]\0{3}", _container(format="arrow")),
    (rb"Obj\x01", _container(format="avro")),
    (rb"PK\x03\x04|PK\x05\x06", _container(what="a ZIP archive", cure=_UNPACK)),
    (rb"ORC", _container(what="an ORC file", cure=_TABLE)),
    (rb"PARE", _container(what="an encrypted Parquet file", cure="Decrypt it")),
    (rb"\x02\x21\x4c\x18",
     _container(what="LZ4 in its legacy form", cure="Compress it again with lz4")),
    (rb"\x1f[\x9d\xa0]", _container(what="compressed by compress (.Z)", cure="Decompress it")),
    (rb"\xff\x06\0\0sNaPpY", _container(what="compressed by Snappy", cure="Decompress it")),
    (rb"\xd0\xcf\x11\xe0",
     _container(what="an Office document", cure="Convert it to plain text")),
    (rb"\x89HDF", _container(what="an HDF5 file", cure=_TABLE)),
    (rb"\x93NUMPY", _container(what="an array of NumPy", cure=_TABLE)),
    (rb"\x80[\x02-\x05][\x8c\x95c}\](]", _container(what="a pickle of Python", cure=_TABLE)),
    (rb"SQLite format 3", _container(what="an SQLite database", cure=_TABLE)),
)  # fmt: skip
# Most files have none of them, and there may be a million files.
_ANY_MARK = re.compile(b"|".join(mark for mark, _ in _CONTAINERS), re.DOTALL)


def find_container(head: bytes) -> Content | None:
    """Return what a file is by the marks of containers and encodings; None if it has none.

    Args:
        head: its first bytes, decompressed.
    """
    # Words of a text, in any encoding, may begin as a mark does.
    if head[257:262] == b"ustar" and _CONTROL.search(head[:_MARK_BYTES]):
        return _container(format="tar")
    if _ANY_MARK.match(head) and _CONTROL.search(head[:_FIRST_BYTES]):
        return next(kind for mark, kind in _CONTAINERS if re.match(mark, head, re.DOTALL))
    if encoding := _find_encoding(head):
        cure = f"Convert it to UTF-8, as by: iconv -f {encoding} -t UTF-8"
        return _container(what=f"text in {encoding}", cure=cure)
    return None


def judge_bytes(head: bytes) -> Content | None:
    """Judge the beginning of a file that is no text in UTF-8; None if it may be.

    Args:
        head: its first bytes, decompressed.
    """
    if container := find_container(head):
        return container
    has_nuls = head.count(0) > _FEW_NULS + len(head) // _FEWEST_TEXT_BYTES
    is_strange = not _is_utf_8(head) and bool(_CONTROL.search(head[:_FIRST_BYTES]))
    kind = ""
    if has_nuls or is_strange:
        import filetype  # noqa: PLC0415  a fortieth of a second, and hardly a file needs it

        known = filetype.guess(head)
        kind = f" ({known.mime})" if known else ""
    if not has_nuls and not kind:
        return None
    if _is_divided(head):
        cure = r"Put line ends in their place, as by: tr '\0' '\n'"
        return _container(what="text with NUL bytes in it", cure=cure)
    cure = "Extract its text, or leave it out"
    return _container(what=f"binary data{kind}, not text", cure=cure)


# Text may have a NUL now and then, with so many bytes for each.
_FEW_NULS, _FEWEST_TEXT_BYTES = 7, 500
# UTF-8 with NULs between texts has more bytes than this for each NUL; in UTF-16, half of the bytes
# of English are NULs.
_LEAST_DIVIDED = 4
_ENCODINGS = {
    b"\xff\xfe\0\0": "UTF-32LE",
    b"\0\0\xfe\xff": "UTF-32BE",
    b"\xff\xfe": "UTF-16LE",
    b"\xfe\xff": "UTF-16BE",
}


def _is_divided(head: bytes) -> bool:
    """Whether a head is text in UTF-8 with NUL bytes in it, as `find -print0` writes them."""
    return _LEAST_DIVIDED * head.count(0) < len(head) and is_plain(head.replace(b"\0", b""))


def _find_encoding(head: bytes) -> str:
    """Return the encoding of text in UTF-16 or UTF-32, with or without a mark; or nothing."""
    for mark, encoding in _ENCODINGS.items():
        rest = head[len(mark) :]
        # Damaged UTF-8 may begin like this, too.
        if head.startswith(mark) and (0 in rest or not _is_utf_8(rest)):
            return encoding
    if head.count(0) <= _FEW_NULS or _is_divided(head):
        return ""
    shares = {encoding: _measure_text(head, encoding) for encoding in _ENCODINGS.values()}
    best = max(shares, key=shares.__getitem__)
    return best if shares[best] > 0 else ""


def _measure_text(head: bytes, encoding: str) -> float:
    """Return the share of white space and punctuation, if all characters are those of text."""
    width, head = 4 if "32" in encoding else 2, head[: 2**12]
    try:
        # A pair of surrogates may be cut.
        text = head[: len(head) // width * width].decode(encoding, errors="ignore")
    except UnicodeDecodeError:
        return 0.0
    kinds = [unicodedata.category(letter) for letter in text if letter not in "\t\n\r\x0c"]
    strange = sum(kind in {"Cc", "Cn", "Co", "Cs"} for kind in kinds)
    if len(text) * width < len(head) // 2 or strange * 50 > len(text):
        return 0.0
    return (len(text) - len(kinds) + sum(kind[0] in "ZP" for kind in kinds)) / len(text)


_DOCUMENTS = (
    (r"WARC/1\.\d+\r?\n[\w-]+: ?", Content(format="wet")),
    (r"%PDF-\d\.\d\s*(?:[\r\n]|\Z)",
     Content("", "", "a PDF document", "Extract its text first", False)),
    (r"\{\\rtf\d", Content("", "", "an RTF document", "Convert it to plain text", False)),
    (r"version https://git-lfs\.github\.com/spec/v\d+\s*(?:\n(?:oid|ext-|size)|\Z)",
     Content(what="a pointer of Git LFS, not the file itself", cure="Run git lfs pull first")),
)  # fmt: skip


def _judge_document(text: str, _: bool) -> Content | None:
    return next((content for mark, content in _DOCUMENTS if re.match(mark, text)), None)


def is_plain(head: bytes) -> bool:
    """Whether the beginning of a file is UTF-8 without the control characters of binary data."""
    return _is_utf_8(head) and not _CONTROL.search(head)


def _is_utf_8(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")
# Of the first lines, which alone are judged, at most one in this many may be prose.
_PROSE_SHARE, _MOST_LINES = 10, 200


def _list_lines(text: str, is_whole: bool) -> list[str]:
    """Return the first complete lines of a text that are not blank."""
    lines = (line.strip() for line in list_lines(text, is_whole))
    return list(islice(filter(None, lines), _MOST_LINES))


_PAGE = re.compile(r"\s*<(!doctype\s+html|\?xml|[a-z][a-z0-9]*)\b[^<>]*>", re.IGNORECASE)
_DOC = re.compile(r"\s*<doc\b[^<>\n]*>[ \t\r]*\n", re.IGNORECASE)
_XML = re.compile(
    r"\s*(<\?xml\b|<!DOCTYPE (?!html)|<(?:mediawiki|rss|feed|tei|svg)\b)[^<>]*>\s*(?=<|\Z)",
    re.IGNORECASE,
)
# Comments are taken or left as wholes, so that many of them are judged at once.
_COMMENTS = r"(?:\s*+(?><!--.*?-->))*+\s*+"
_HTML = re.compile(
    _COMMENTS + r"<(!doctype\s+html|html)\b[^<>]*>\s*(?=<|\Z)", re.IGNORECASE | re.DOTALL
)
_ROOT = re.compile(
    r"(?:\s*+(?><!--.*?-->|<[!?][^>]*>))*+\s*+<([a-z][\w:]*)", re.IGNORECASE | re.DOTALL
)
_HTML_TAGS = re.compile(
    r"</(html|head|body|div|p|table|t[rdh]|article|section|main|nav|h[1-6]|ul|ol|li|span|a|title)\s*>",
    re.IGNORECASE,
)
_FEWEST_TAGS = 3


def _judge_markup(text: str, _: bool) -> Content | None:
    if _DOC.match(text):
        what = "pages between <doc> marks, as wikiextractor writes them"
        return Content(what=what, cure="Extract them again with --json, one JSON object a page")
    what = "XML" if _XML.match(text) else "HTML"
    if what == "XML" or _HTML.match(text):
        if _has_prose_after(text):
            return Content(resembles=what)
    elif not (_PAGE.match(text) and _has_tags(text)):
        return None
    return Content(what=what, cure="Extract its text first")


def _has_prose_after(text: str) -> bool:
    """Whether the outermost element of a page ends, and lines without tags follow it."""
    root = _ROOT.match(text)
    end = re.search(rf"</{re.escape(root[1])}\s*>", text, re.IGNORECASE) if root else None
    after = text[end.end() :].split("\n") if end else ()
    return any(line.strip() and "<" not in line for line in after)


def _has_tags(text: str) -> bool:
    """Whether tags of HTML end in a text, and stand in most of its lines, as not in Markdown."""
    lines = [line for line in text.splitlines() if line.strip()]
    return len(_HTML_TAGS.findall(text)) >= _FEWEST_TAGS and 2 * sum(
        "<" in line for line in lines
    ) >= len(lines)


# Letters of a sequence are all large or all small, and more than those of a word.
_FASTA = re.compile(
    r"(?:>[^\n]+\n+(?>[A-Z*\-]{20}[A-Z*\-\n]*|[a-z*\-]{20}[a-z*\-\n]*))++(?:>[^\n]*)?"
)
_FASTQ = re.compile(r"@[^\n]+\n([A-Z.]+)\n\+[^\n]*\n([!-~]+)\n(?:@|\Z)")


def _judge_sequences(text: str, _: bool) -> Content | None:
    if text[:1] not in {">", "@"}:
        return None
    plain = text.replace("\r", "")
    read = _FASTQ.match(plain)
    # Each letter has its quality.
    if (read and len(read[1]) == len(read[2])) or (text[:1] == ">" and _FASTA.fullmatch(plain)):
        return Content(what="sequences of FASTA or FASTQ", cure="Write one sequence a line")
    return None


# How a text begins, a line of that notation, and how many lines there are to each such line.
_NOTATIONS = (
    (r"WEBVTT\s|\d+\s\d\d:\d\d:\d\d,\d{3} --> \d", r"(\d+:)?\d\d:\d\d[.,]\d{3} --> \d", 8,
     "subtitles", "Extract what is spoken, one paragraph a line"),
    (r"(#[^\n]*\n)*1(-\d+)?\t[^\t\n]+(\t[^\t\n]*){8}\n", r"#|\d+([-.]\d+)?(\t[^\t]*){9}", 1.2,
     "words in columns, as CoNLL-U has them", "Write one sentence a line"),
    (r"\[?\{'(?:[^'\\\n]|\\.)*': ['\"\[{(\d\-TFN]",
     r"[\[{(\s]*(?:['\"]|[\]})]).*[\]}),:'\"\dse]$|[\[{]{1,2}$", 1.2,
     "records as Python prints them, which are not JSON", "Write them with json.dumps"),
    (r"From \S+ +[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [^\n]*\n[\w-]+: ", "", 1,
     "a mailbox", "Extract the text of its messages"),
    (r"-- (MySQL|MariaDB) dump \d|(--\n-- PostgreSQL|PRAGMA foreign_keys=OFF;\n(BEGIN|CREATE|--))",
     "", 1, "the dump of a database", "Export its texts as CSV or JSON lines"),
)  # fmt: skip


def _judge_notation(text: str, is_whole: bool) -> Content | None:
    plain = text.replace("\r", "")
    for mark, line, lines_to_one, what, cure in _NOTATIONS:
        if re.match(mark, plain):
            # A line of records may be longer than what is judged.
            lines = _list_lines(plain, is_whole)
            is_most = sum(bool(re.match(line, each)) for each in lines) * lines_to_one >= len(lines)
            return Content(what=what, cure=cure) if is_most else Content(resembles=what)
    return None


_OBJECT = re.compile(r'\s*\{\s*"(?:[^"\\\n]|\\.)*"\s*:')
_ARRAY = re.compile(r'\s*\[\s*(?=[\[{"\]])')
_LATER_OBJECT = re.compile(r'[^\n]{1,999}\n\s*\{\s*"')
_ESCAPE = re.compile(r"\\.")
# All that a line of JSON consists of, and a string that has not ended.
_JSON = re.compile(
    r'(?:[\s\[\]{},:]|"(?:[^"\\]|\\.)*+"|-?\d[\d.eE+\-]*+|true|false|null|NaN|-?Infinity)*+'
)
_OPEN_STRING = re.compile(r'"(?:[^"\\]|\\.)*+\\?')
_KEY = re.compile(r'[\[{\s]*"(?:[^"\\]|\\.)*"\s*:')
_BETWEEN_RECORDS = re.compile(r'(?<=\}),\s*(?=\{")')
_WORDS, _SENTENCE_END = re.compile(r"[^\W\d_]+"), re.compile(r"[.!?:。！？：…][\"'”’)]*$")  # noqa: RUF001
_FEWEST_WORDS = 3


class _Line(Enum):
    """What a line is, where JSON is expected."""

    RECORD = "an object that is whole"
    PART = "a part of JSON"
    DAMAGED = "an object or a part of one that is damaged"
    STRANGE = "a few words that are no sentence"
    PROSE = "a text"


def _judge_json(text: str, is_whole: bool) -> Content | None:
    is_first = bool(_OBJECT.match(text) or _ARRAY.match(text))
    if not (is_first or _LATER_OBJECT.match(text)):
        return None
    lines = _list_lines(text, is_whole)
    kinds = [kind for line in lines for kind in _judge_line(line)]
    if not is_whole and len(lines) < _MOST_LINES:
        kinds += _judge_open_line(re.split(r"[\r\n]", text)[-1])
    number, count = len(kinds), Counter(kinds)
    fitting = count[_Line.RECORD] + count[_Line.PART]
    # A line that ends within a string is damaged, in either format.
    whole = [line for line in lines if not _ESCAPE.sub("", line).count('"') % 2]
    is_most = 2 * count[_Line.RECORD] > len(whole) if whole else bool(_OBJECT.match(text))
    is_lines = bool(lines) and is_most
    has_prose = count[_Line.PROSE] * _PROSE_SHARE > number
    if not has_prose and is_lines:
        return Content(format="json-lines")
    if not has_prose and is_first and 2 * (fitting + count[_Line.DAMAGED]) > number:
        return Content(format="json")
    if is_first and ("{" in text[:_FIRST_BYTES] or fitting * _PROSE_SHARE >= number):
        return Content(resembles="json-lines" if count[_Line.RECORD] * 2 > fitting else "json")
    return None


def _judge_line(line: str) -> list[_Line]:
    """Return what a line is, or the records that it consists of."""
    if isinstance(_parse(line), dict):
        return [_Line.RECORD]
    if _JSON.fullmatch(line):
        return [_Line.PART]
    records = _BETWEEN_RECORDS.split(line)
    if len(records) > 1:
        return [kind for record in records for kind in _judge_line(record)]
    if line[:1] in {"{", "["}:
        with suppress(ValueError, RecursionError):
            end = json.JSONDecoder().raw_decode(line)[1]
            # What follows a value is another one, or it is a word of a text.
            return [_Line.DAMAGED if line[end:].lstrip()[:1] in "{,}]" else _Line.PROSE]
    if _KEY.match(line) or line.rstrip(",").endswith("}"):
        return [_Line.DAMAGED]
    is_text = len(_WORDS.findall(line)) >= _FEWEST_WORDS or bool(_SENTENCE_END.search(line))
    return [_Line.PROSE if is_text else _Line.STRANGE]


def _judge_open_line(line: str) -> list[_Line]:
    """Return what the beginning of a line is; nothing if more of it would tell that."""
    *records, last = _BETWEEN_RECORDS.split(line)
    kinds = [kind for record in records for kind in _judge_line(record)]
    end = _JSON.match(last)
    is_part = end is not None and _OPEN_STRING.fullmatch(last, end.end()) is not None
    if is_part or _JSON.fullmatch(last):
        kinds.append(_Line.PART)
    elif not kinds:
        kinds += _judge_line(last)
    return kinds


def _parse(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


_NAME = r'"?[^\W\d][\w.\-]{0,63}"?'
_HEADERS = {
    separator: re.compile(rf"(?:{_NAME})?(?:{re.escape(separator)}{_NAME})+(?=[\r\n])")
    for separator in SEPARATORS
}
_USUAL_NAMES = {
    "text", "content", "body", "sentence", "document", "title", "url", "id", "label", "abstract",
    "article", "date", "question", "answer", "prompt", "response", "completion", "instruction",
    "source", "target", "summary", "review", "category", "language", "author", "timestamp",
    "标题", "内容", "正文", "文本",
}  # fmt: skip
_FEWEST_ROWS = 5
# What no word of a text is: a number, a date, a time, a truth value, or an address.
_VALUE = re.compile(r"[-+$€£]?\d[\d.,:/\-+TZ %]*|true|false|https?://\S+", re.IGNORECASE)


def _judge_table(text: str, is_whole: bool) -> Content | None:
    """Tell a table by a header of names, and by rows of which most have as many cells.

    Verses, plays and chats may have as many separators in each line, too. So names are usual ones,
    or such as no text has, or a column has values that are no words.
    """
    for separator, header in _HEADERS.items():
        match = header.match(text)
        # The first column of an index often has no name.
        names = [name.strip('"') for name in match[0].split(separator)] if match else []
        if not match or len({*names}) < len(names):
            continue
        _, table = find_dialect(text, is_whole, separator, None, "")
        rows = [row for row in table if len(row) == len(names)]
        # A name is one that columns have, or all are but for large letters.
        is_usual = not _USUAL_NAMES.isdisjoint(names) or _USUAL_NAMES.issuperset(
            map(str.lower, names)
        )
        if (len(table) - len(rows)) * (4 if is_usual else _PROSE_SHARE) > len(table):
            continue
        input_format = "tsv" if separator == "\t" else "csv"
        if len(rows) >= (2 if is_usual else _FEWEST_ROWS):
            is_table = is_usual or "_" in match[0] or match[0].count('"') == 2 * len(names)
            is_table |= _has_values(rows)
            # Names of speakers come again.
            is_table &= not any(map(set.__contains__, map(set, zip(*rows[1:], strict=True)), names))
            return Content(format=input_format) if is_table else Content(resembles=input_format)
    return None


def _has_values(rows: Sequence[Sequence[str]]) -> bool:
    """Whether nearly all cells of a column below the header are values that are no words."""
    columns = zip(*rows[1:], strict=True)
    return any(
        sum(bool(_VALUE.fullmatch(cell.strip())) for cell in column) * 10 >= 9 * len(column)
        for column in columns
    )


_RULES: tuple[Callable[[str, bool], Content | None], ...] = (
    _judge_document,
    _judge_markup,
    _judge_sequences,
    _judge_notation,
    _judge_json,
    _judge_table,
)
