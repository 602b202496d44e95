"""What a file is, judged by its first bytes and not by its name.

Containers and compressed files begin with marks of their own. Of text, only what is certain is
told: JSON, tables with separators, markup, sequences of genes, notations such as those of
subtitles, and pointers to files elsewhere.
Everything else is text, whose format its name tells.
"""

import codecs
import json
import re
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from corpusmill.corpus.records.csv_dialects import SEPARATORS, count_rows, list_lines


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
    """

    compression: str = ""
    format: str = ""
    what: str = ""
    cure: str = ""
    is_text: bool = True
    has_returns: bool = False
    is_known: bool = True
    has_open_line: bool = False

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
# What Arrow's decoder of Zstandard keeps of the text at most.
_MOST_WINDOW = 2**27


def find_compression(head: bytes) -> str:
    """Return the suffix of the compression that the first bytes of a file tell, or nothing."""
    return next((suffix for mark, suffix in _MARKS if mark.match(head)), "")


def measure_window(head: bytes) -> int:
    """Return the bytes of text that a decoder of Zstandard must keep; 0 if it is not told.

    Source: RFC 8878, section 3.1.1.1.

    Args:
        head: the beginning of a file.
    """
    if len(head) < 18 or not head.startswith(b"\x28\xb5\x2f\xfd"):
        return 0
    descriptor, window = head[4], head[5]
    if not descriptor & 32:
        return (1 << 10 + (window >> 3)) // 8 * (8 + (window & 7))
    # There is no window but the whole frame, whose size follows the number of a dictionary.
    start, size = 5 + (0, 1, 2, 4)[descriptor & 3], 1 << (descriptor >> 6)
    return int.from_bytes(head[start : start + size], "little") + 256 * (size == 2)


def check_compression(head: bytes, compression: str) -> Content | None:
    """Return why a compressed file cannot be read, as far as its first bytes show."""
    if compression and not find_compression(head):
        what = f"no {compression} file, whatever its name says"
        cure = "Get it again or leave it out; LZ4 of Hadoop has to be written again as lz4 does"
        return Content(compression, what=what, cure=cure, is_text=False)
    window = measure_window(head) if compression == ".zst" else 0
    if window <= _MOST_WINDOW:
        return None
    what = f"Zstandard with a window of {window:,} bytes, which every reader would have to hold"
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


_CONTAINERS = (
    (re.compile(rb"PAR1"), "parquet"),
    (re.compile(rb"ARROW1\0\0|FEA1|\xff{4}.{4}[\x0c-\x20]\0{3}", re.DOTALL), "arrow"),
    (re.compile(rb"Obj\x01"), "avro"),
)
_UNPACK, _TABLE = "Unpack it, and give its files", "Convert it to Parquet"
# What the library of magic numbers does not know, or calls by no name that people use.
_OTHERS = (
    (re.compile(rb"PK\x03\x04|PK\x05\x06"), "a ZIP archive", _UNPACK),
    (re.compile(rb"ORC"), "an ORC file", _TABLE),
    (re.compile(rb"PARE"), "an encrypted Parquet file", "Decrypt it"),
    (re.compile(rb"\x02\x21\x4c\x18"), "LZ4 in its legacy form", "Compress it again with lz4"),
    (re.compile(rb"\x1f[\x9d\xa0]"), "compressed by compress (.Z)", "Decompress it"),
    (re.compile(rb"\xff\x06\0\0sNaPpY"), "compressed by Snappy", "Decompress it"),
    (re.compile(rb"\xd0\xcf\x11\xe0"), "an Office document", "Convert it to plain text"),
    (re.compile(rb"\x89HDF"), "an HDF5 file", _TABLE),
    (re.compile(rb"\x93NUMPY"), "an array of NumPy", _TABLE),
    (re.compile(rb"\x80[\x02-\x05][\x8c\x95c}\](]"), "a pickle of Python", _TABLE),
    (re.compile(rb"SQLite format 3"), "an SQLite database", _TABLE),
)


# Most files have none of them, and there may be a million files.
_ANY_MARK = re.compile(b"|".join(mark.pattern for mark, *_ in (*_CONTAINERS, *_OTHERS)), re.DOTALL)


def find_container(head: bytes) -> Content | None:
    """Return what a file is by the marks of containers and encodings; None if it has none.

    Args:
        head: its first bytes, decompressed.
    """
    is_tar = head[257:262] == b"ustar"
    # Words of a text may begin as a mark does.
    if (is_tar or _ANY_MARK.match(head)) and not is_plain(head):
        if is_tar:
            return Content(format="tar", is_text=False)
        for mark, name in _CONTAINERS:
            if mark.match(head):
                return Content(format=name, is_text=False)
        for mark, what, cure in _OTHERS:
            if mark.match(head):
                return Content(what=what, cure=cure, is_text=False)
    if encoding := _find_encoding(head):
        cure = f"Convert it to UTF-8, as by: iconv -f {encoding} -t UTF-8"
        return Content(what=f"text in {encoding}", cure=cure, is_text=False)
    return None


def judge_bytes(head: bytes) -> Content | None:
    """Judge the beginning of a file that is no text in UTF-8; None if it may be.

    Args:
        head: its first bytes, decompressed.
    """
    if container := find_container(head):
        return container
    has_nuls = head.count(0) > _FEW_NULS + len(head) // _FEWEST_TEXT_BYTES
    is_strange = not _is_utf_8(head) and bool(_CONTROL.search(head))
    kind = _name_binary(head) if has_nuls or is_strange else ""
    if not has_nuls and not kind:
        return None
    if _is_divided(head):
        cure = r"Put line ends in their place, as by: tr '\0' '\n'"
        return Content(what="text with NUL bytes in it", cure=cure, is_text=False)
    what = f"binary data{kind}, not text"
    return Content(what=what, cure="Extract its text, or leave it out", is_text=False)


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


def _name_binary(head: bytes) -> str:
    import filetype  # noqa: PLC0415  a fortieth of a second, and hardly a file needs it

    kind = filetype.guess(head)
    return f" ({kind.mime})" if kind else ""


def _judge_document(text: str, _: bool) -> Content | None:
    if text.startswith("WARC/1."):
        return Content(format="wet")
    if text.startswith("%PDF-"):
        return Content(what="a PDF document", cure="Extract its text first", is_text=False)
    if text.startswith(r"{\rtf"):
        return Content(what="an RTF document", cure="Convert it to plain text", is_text=False)
    return None


def _judge_pointer(text: str, _: bool) -> Content | None:
    if not text.startswith("version https://git-lfs.github.com/spec/"):
        return None
    return Content(what="a pointer of Git LFS, not the file itself", cure="Run git lfs pull first")


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
_PAGE = re.compile(r"\s*<(!doctype|[a-z][a-z0-9]*|\?xml)\b", re.IGNORECASE)
_DOC = re.compile(r"\s*<doc\b[^<>\n]*>", re.IGNORECASE)
_XML = re.compile(
    r"\s*(<\?xml\b|<!DOCTYPE (?!html)|<(mediawiki|rss|feed|tei|svg)\b)", re.IGNORECASE
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
    if _XML.match(text):
        return Content(what="XML", cure="Extract its text first")
    begins = _PAGE.match(text)
    if begins and (begins[1].lower() in {"!doctype", "html"} or _has_tags(text)):
        return Content(what="HTML", cure="Extract its text first")
    return None


def _has_tags(text: str) -> bool:
    """Whether tags of HTML end in a text, and stand in most of its lines, as not in Markdown."""
    lines = [line for line in text.splitlines() if line.strip()]
    return len(_HTML_TAGS.findall(text)) >= _FEWEST_TAGS and 2 * sum(
        "<" in line for line in lines
    ) >= len(lines)


_FASTA = re.compile(r"(>[^\n]+\n[A-Za-z*\-\n]{20,})+(>[^\n]*)?")
_FASTQ = re.compile(r"@[^\n]+\n([A-Z]+)\n\+[^\n]*\n[!-~]+\n")


def _judge_sequences(text: str, _: bool) -> Content | None:
    if text[:1] not in {">", "@"}:
        return None
    plain = text.replace("\r", "")
    if _FASTQ.match(plain) or (plain.startswith(">") and _FASTA.fullmatch(plain)):
        return Content(what="sequences of FASTA or FASTQ", cure="Write one sequence a line")
    return None


_NOTATIONS = (
    (
        re.compile(r"WEBVTT\s|\d+\s\d\d:\d\d:\d\d,\d{3} --> \d"),
        "subtitles",
        "Extract what is spoken, one paragraph a line",
    ),
    (
        re.compile(r"(#[^\n]*\n)*1(-\d+)?\t[^\t\n]+(\t[^\t\n]*){8}\n"),
        "words in columns, as CoNLL-U has them",
        "Write one sentence a line",
    ),
    (
        re.compile(r"\[?\{'(?:[^'\\\n]|\\.)*': ['\"\[{(\d\-TFN]"),
        "records as Python prints them, which are not JSON",
        "Write them with json.dumps",
    ),
    (
        re.compile(
            r"From \S+ +[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [^\n]*\n[\w-]+: "
        ),
        "a mailbox",
        "Extract the text of its messages",
    ),
    (
        re.compile(r"-- (MySQL|MariaDB) dump |--\n-- PostgreSQL database|PRAGMA foreign_keys=OFF;"),
        "the dump of a database",
        "Export its texts as CSV or JSON lines",
    ),
)


def _judge_notation(text: str, _: bool) -> Content | None:
    plain = text.replace("\r", "")
    for mark, what, cure in _NOTATIONS:
        if mark.match(plain):
            return Content(what=what, cure=cure)
    return None


_OBJECT = re.compile(r'\s*\{\s*"(?:[^"\\\n]|\\.)*"\s*:')
_ARRAY = re.compile(r'\s*\[\s*(?=[\[{"\]])')
_ESCAPE = re.compile(r"\\.")
_FEW_LINES = 3


def _judge_json(text: str, is_whole: bool) -> Content | None:
    if text.lstrip()[:1] not in {"{", "["}:
        return None
    lines = [line for line in list_lines(text, is_whole) if line.strip()][:_FEW_LINES]
    # A line that ends within a string is damaged, in either format.
    whole = [line for line in lines if not _ESCAPE.sub("", line).count('"') % 2]
    is_json = bool(_OBJECT.match(text))
    is_most = 2 * sum(isinstance(_parse(line), dict) for line in whole) > len(whole)
    if lines and (is_most if whole else is_json):
        return Content(format="json-lines")
    if is_array := _ARRAY.match(text):
        with suppress(ValueError, RecursionError):
            json.JSONDecoder().raw_decode(text, is_array.end())
            is_json = True
        is_json |= text[is_array.end()] == "]" or bool(_OBJECT.match(text, is_array.end()))
    return Content(format="json") if is_json else None


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
    "article", "date",
}  # fmt: skip
_FEWEST_ROWS = 5


def _judge_table(text: str, is_whole: bool) -> Content | None:
    """Tell a table by a header of names, and by rows that all have as many cells."""
    for separator, header in _HEADERS.items():
        if match := header.match(text):
            # The first column of an index often has no name.
            names = [name.strip('"') for name in match[0].split(separator)]
            is_usual = not _USUAL_NAMES.isdisjoint(map(str.lower, names))
            rows = count_rows(text, is_whole, separator) if len({*names}) == len(names) else 0
            if rows >= (2 if is_usual else _FEWEST_ROWS):
                return Content(format="tsv" if separator == "\t" else "csv")
    return None


_RULES: tuple[Callable[[str, bool], Content | None], ...] = (
    _judge_document,
    _judge_pointer,
    _judge_markup,
    _judge_sequences,
    _judge_notation,
    _judge_json,
    _judge_table,
)
