"""The rules of reading a text in plain Python, with the whole file at once."""

import re
from typing import cast

from corpusmill.corpus.batches import ReadCounts, Reject, document_id
from corpusmill.corpus.document_options import DocumentOptions
from tests.tools.read_content import Content

MARK = b"\xef\xbb\xbf"


def read_plainly(data: bytes, options: DocumentOptions) -> Content:
    """Read a file whose name is "f" and whose index is 3."""
    return _Reading(data, options).content


def find_headings(lines: list[bytes], options: DocumentOptions) -> list[bool]:
    """Tell which lines of a file are titles of articles."""
    unmarked = [line.removeprefix(MARK) for line in lines[:1]] + lines[1:]
    texts = [line.decode(errors="surrogateescape").strip() for line in unmarked]
    short = [len(line) <= options.max_line_bytes for line in lines]
    blank = [is_short and not text for is_short, text in zip(short, texts, strict=True)]
    return [
        is_short and bool(re.fullmatch("= [^=](.*[^=])? =", text, re.DOTALL)) and followed
        for is_short, text, followed in zip(short, texts, [*blank, True][1:], strict=True)
    ]


def refusal(line: bytes, options: DocumentOptions) -> tuple[str, str]:
    """Return reason and detail for which a line is rejected; both are empty for a sentence."""
    limit = options.max_line_bytes
    if len(line) > limit:
        return "line-too-long", f"{len(line)} bytes, above --max-line-bytes {limit}"
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return "invalid-utf-8", str(error)
    return "", ""


class _Reading:
    def __init__(self, data: bytes, options: DocumentOptions) -> None:
        self.content, self.options = Content(), options
        self.rule = options.document_rule or "wikitext"
        self.by_multiples = options.keeps_text and self.rule == "whole-file"
        self.count = dict.fromkeys(ReadCounts.__dataclass_fields__, 0)
        # Where the open document starts, what it keeps, and whether it continues a piece with text.
        # Where its last kept text ends.
        self.first: int | None = None
        self.end = 0
        self.kept: list[bytes] = []
        self.continues = False
        lines = re.findall(rb"[^\n]*\n|[^\n]+", data)
        self.count |= {"bytes": len(data), "lines": len(lines)}
        headings = find_headings([line.removesuffix(b"\n") for line in lines], options)
        offset, before = 0, b""
        for line, heading in zip(lines, headings, strict=True):
            self.add(offset, line, heading, before)
            offset, before = offset + len(line), line
        self.close(is_cut=False)
        self.content.counts = ReadCounts(**self.count)

    def add(self, offset: int, line: bytes, heading: bool, before: bytes) -> None:
        rule, limit, keeps_text = (
            self.rule,
            self.options.max_document_bytes,
            self.options.keeps_text,
        )
        by_articles = rule == "wikitext-articles"
        text, bare = line if offset else line.removeprefix(MARK), line.removesuffix(b"\n")
        stripped = text.decode(errors="surrogateescape").strip()
        reason, detail = refusal(bare, self.options)
        is_title = stripped.startswith("=") and rule not in {"blank-lines", "whole-file"}
        if is_title and reason == "invalid-utf-8" and not (keeps_text and by_articles):
            reason = ""
        kind = "title" if is_title else "sentence" if stripped else "blank"
        self.count[f"{'rejected' if reason else kind}_lines"] += 1
        if reason:
            self.content.rejects.append(Reject("f", offset, len(bare), reason, detail))
            self.count["rejected_bytes"] += len(line)
        is_gap = kind != "sentence" and not reason and rule in {"wikitext", "blank-lines"}
        is_end = heading if by_articles else is_gap
        if self.by_multiples:
            reaches = offset >= limit and (offset - len(before)) // limit != offset // limit
            long_before = len(before.removesuffix(b"\n")) > self.options.max_line_bytes
            if reaches or (offset >= limit and long_before):
                self.close(is_cut=True)
        elif is_end:
            self.close(is_cut=False)
        if is_end and not (keeps_text and by_articles):
            return
        self.first = offset if self.first is None else self.first
        if not reason and (keeps_text or kind == "sentence"):
            piece, size = text if keeps_text else stripped.encode(), sum(map(len, self.kept))
            if size and size + len(piece) > limit and not self.by_multiples:
                self.close(is_cut=True)
                self.first = offset
            self.kept.append(piece)
            self.end = offset + len(line)
            if not keeps_text:
                self.end -= len(text) - len(text.decode().rstrip().encode())

    def close(self, is_cut: bool) -> None:
        sentences = [piece.decode() for piece in self.kept]
        continues = self.continues or (self.by_multiples and bool(self.first))
        if self.options.keeps_text:
            text = "".join(sentences)
            if self.rule in {"wikitext", "blank-lines"} and text.endswith("\n") and not is_cut:
                broken = text
                text = re.sub("\r?\n$", "", text)
                self.end -= len(broken) - len(text)
            sentences = [text] if text.strip() else []
        if sentences:
            self.content.documents.append((document_id(3, cast(int, self.first)), sentences))
            self.content.lengths.append(self.end - cast(int, self.first))
            self.content.fields.append({})
            self.count["documents"] += 1
            self.count["sentences"] += len(sentences)
            self.count["cut_documents"] += continues
        self.continues = is_cut and (self.continues or bool(sentences))
        self.first, self.kept = None, []
