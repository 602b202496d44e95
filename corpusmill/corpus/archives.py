"""Members of archives as documents: tar archives and WET files.

WET files hold the text of web pages as Common Crawl extracts it: a page is a document. Other WARC
files hold pages as they were served, whose text has to be extracted first.
"""

import io
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from itertools import islice
from pathlib import PurePosixPath
from typing import BinaryIO, Protocol, cast

import numpy as np
import pyarrow as pa
from warcio.bufferedreaders import BufferedReader
from warcio.exceptions import ArchiveLoadFailed
from warcio.recordloader import ArcWarcRecord, ArcWarcRecordLoader

from corpusmill.corpus.batches import OFFSET_BITS, TEXT_SCHEMA, DocumentBatch, FileRange, ReadCounts
from corpusmill.corpus.content import judge, judge_bytes
from corpusmill.corpus.decompression import (
    HEAD_BYTES,
    DamagedStreamError,
    has_suffix,
    is_compressed,
)
from corpusmill.corpus.document_options import MAX_LIMIT_BYTES, DocumentOptions
from corpusmill.corpus.records.record_documents import RecordCollector
from corpusmill.corpus.text.lines import BYTE_ORDER_MARK
from corpusmill.corpus.text.text_documents import read_text
from corpusmill.errors import UserError, option
from corpusmill.knobs import knob

SMALL_MEMBER_BYTES = knob("small_member_bytes", 2**20, test=2000)
"""Members of archives up to this size are read at once, and larger ones line by line."""


class SupportsRead(Protocol):
    """An object that bytes can be read from."""

    def read(self, size: int, /) -> bytes:
        """Read some of the next bytes; none at the end."""


class ForwardStream:
    """A stream that knows its position, and seeks forward by reading.

    Args:
        stream: read forward only.

    Attributes:
        position: byte up to which the stream was read.
        last: the result of the last read.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.position = 0
        self.last = b""

    def read(self, size: int) -> bytes:
        """Read the next bytes, fewer only at the end.

        Raises:
            DamagedStreamError: for a size that only a damaged header can ask for.
        """
        if not 0 <= size <= MAX_LIMIT_BYTES:
            raise DamagedStreamError(f"a header asks for {size} bytes")
        parts = []
        while size and (part := self._stream.read(size)):
            parts.append(part)
            size -= len(part)
            self.position += len(part)
        self.last = b"".join(parts)
        return self.last

    def tell(self) -> int:
        """Return the position."""
        return self.position

    def seek(self, position: int) -> int:
        """Move forward to a position, or to the end if that comes first."""
        if position < self.position:
            raise io.UnsupportedOperation("a forward stream does not go back")
        while self.position < position and self.read(min(position - self.position, 2**20)):
            pass
        return self.position


class Member:
    """The bytes of one member; it is damage if they end too early.

    Args:
        stream: read forward only, from the member's first byte.
        offset: byte of the (decompressed) archive at which the member's text starts.
        size: bytes of the text.

    Attributes:
        offset: as above.
        size: as above.
    """

    def __init__(self, stream: SupportsRead, offset: int, size: int) -> None:
        self._stream, self.offset, self.size = stream, offset, size
        self._left, self._seen = size, b""

    def read(self, size: int) -> bytes:
        """Read some of the next bytes; none at the member's end."""
        if self._seen:
            data, self._seen = self._seen[:size], self._seen[size:]
            return data
        size = min(size, self._left)
        data = self._stream.read(size) if size else b""
        if size and not data:
            raise DamagedStreamError("the archive ends within a member")
        self._left -= len(data)
        return data

    def peek(self, size: int) -> bytes:
        """Return the first bytes, fewer before damage, and leave them unread."""
        with suppress(DamagedStreamError):
            while len(self._seen) < size and self._left:
                seen, self._seen = self._seen, b""
                try:
                    seen += self.read(size - len(seen))
                finally:
                    self._seen = seen
        return self._seen[:size]

    def read_text(self) -> str | None:
        """Return the whole text; None, with nothing read, if it is damaged or not UTF-8."""
        data = b""
        try:
            while part := self.read(self.size):
                data += part
            return data.removeprefix(BYTE_ORDER_MARK).decode()
        except (DamagedStreamError, UnicodeDecodeError):
            self._seen = data
            return None


class MemberCollector(RecordCollector):
    """Gathers small members; making a batch of many is much quicker than one for each.

    Args:
        part: the archive.
        archive: its bytes, of which all are counted, those between members as well.
    """

    def __init__(self, part: FileRange, archive: ForwardStream) -> None:
        super().__init__(part)
        self._archive, self._counted = archive, 0
        self._offsets: list[int] = []
        self._sizes: list[int] = []
        self._strings: list[str] = []

    def add_member(self, member: Member, text: str) -> None:
        """Add a member that was read at once."""
        self._offsets.append(member.offset)
        self._sizes.append(member.size)
        self._strings.append(text)
        self.text_bytes += member.size
        self.rows += 1

    def refuse_member(self, offset: int, length: int, reason: str, detail: str) -> None:
        """Refuse a member, which is counted as a row as its lines are not known."""
        self.counts += ReadCounts(rows=1, rejected_rows=1, rejected_bytes=max(0, length))
        self.refuse(offset, length, reason, detail)

    def take(self) -> DocumentBatch:
        """Return the members as a batch, with what was counted and refused."""
        position = self._archive.position
        self.counts += ReadCounts(rows=len(self._offsets), bytes=position - self._counted)
        self._counted = position
        texts = pa.array(self._strings, pa.large_string())
        self.add(np.array(self._offsets, np.int64), [texts], np.array(self._sizes, np.int64))
        self._offsets, self._sizes, self._strings = [], [], []
        return super().take()


# Yields the members of an archive one by one, each to be read before the next; None for a member
# that the collector has counted as left out or refused.
ListMembers = Callable[[ForwardStream, MemberCollector], Iterator[Member | None]]


def read_archive(
    list_members: ListMembers, stream: BinaryIO, part: FileRange
) -> Iterator[DocumentBatch]:
    """Read all members in their order, small ones at once and others line by line.

    Args:
        list_members: lists the members of an archive of the format.
        stream: the archive's bytes, decompressed, read forward only.
        part: the whole archive. Ids and rejects hold bytes of the archive.

    Yields:
        At least one batch. The length of a document is that of its member; one that was read line
        by line ends with its last line of text. A member is a record and counted as a row; only
        rejected lines are counted. The rest of an archive after damage is a reject.

    Raises:
        UserError: an offset does not fit a document id.
    """
    archive = ForwardStream(stream)
    collector = MemberCollector(part, archive)
    limit = min(SMALL_MEMBER_BYTES, part.options.max_line_bytes)
    try:
        for member in list_members(archive, collector):
            if member:
                content = judge_bytes(member.peek(HEAD_BYTES))
                text = member.read_text() if member.size <= limit and not content else None
                if content:
                    detail = f"the member is {content.in_words}"
                    place = member.offset, member.size
                    collector.refuse_member(*place, "not-plain-text", detail)
                elif text is None:
                    if collector.rows or collector.num_rejects:
                        yield collector.take()
                    yield from _read_lines(member, collector)
                else:
                    collector.add_member(member, text)
            if collector.is_full:
                yield collector.take()
    except DamagedStreamError as damage:
        collector.refuse(archive.position, -1, "damaged-archive", str(damage))
        collector.counts += ReadCounts(unfinished_files=1)
    with suppress(DamagedStreamError):  # more of it
        while archive.read(2**20):
            pass
    yield collector.take()


def _read_lines(member: Member, collector: MemberCollector) -> Iterator[DocumentBatch]:
    """Read a member as one document, cut if it is above the limit of documents.

    Raises:
        DamagedStreamError: after the last batch of a member that could not be read to its end.
    """
    options = replace(collector.part.options, document_rule="whole-file")
    part = replace(collector.part, options=options)
    documents = 0
    damage = None
    for batch in read_text(cast(BinaryIO, member), part):
        rejects = [
            replace(reject, offset=reject.offset + member.offset) for reject in batch.rejects
        ]
        damage = rejects.pop() if rejects and rejects[-1].length < 0 else None
        places = batch.documents.column("document").to_numpy() % 2**OFFSET_BITS
        ids = part.ids(places.astype(np.int64) + member.offset)
        rows = batch.documents.set_column(0, TEXT_SCHEMA.field(0), pa.array(ids))
        documents += batch.counts.documents
        # The member is the record; only its rejected lines are counted as lines.
        lines = batch.counts.rejected_lines
        counts = replace(
            batch.counts, bytes=0, lines=lines, blank_lines=0, sentence_lines=0, cut_documents=0,
            unfinished_files=0,
        )  # fmt: skip
        more = [replace(some, offsets=some.offsets + member.offset) for some in batch.more_rejects]
        yield DocumentBatch(rows, tuple(rejects), counts, tuple(more))
    cut, empty = max(0, documents - 1), int(not documents)
    collector.counts += ReadCounts(rows=1, records=1, empty_records=empty, cut_documents=cut)
    if damage:
        raise DamagedStreamError(damage.detail)


def read_tar(stream: BinaryIO, part: FileRange) -> Iterator[DocumentBatch]:
    """Read the files of a tar archive one by one, with a bounded amount in memory.

    Members that the listing of a folder would leave out are skipped, and counted in
    `left_out_members`: names that start with a point, and those without any of the wanted suffixes;
    likewise links and devices. Folders are not counted.

    Args:
        stream: the archive's bytes, decompressed, read forward only.
        part: the whole archive, with suffixes.

    Yields:
        At least one batch. Ids hold the byte of the archive at which the document starts. A member
        that is compressed itself, or sparse, is a reject ("unsupported-member"), as is the rest of
        an archive after damage ("damaged-archive").

    Raises:
        UserError: an offset does not fit a document id.
    """
    return read_archive(_choose_members, stream, part)


def check_tar(stream: BinaryIO, file: str, options: DocumentOptions) -> None:
    """Refuse an archive whose first members are no text, or text in a format of its own.

    Args:
        stream: the start of an archive, decompressed.
        file: its path.
        options: with suffixes; where someone has chosen members by them, any text is accepted.

    Raises:
        UserError: names the member, and the suffixes of the others.
    """
    start = ForwardStream(BytesIO(stream.read(_PROBE_BYTES)))
    suffixes = set[str]()
    refused: tuple[str, str] | None = None
    with suppress(DamagedStreamError):
        for member in _list_members(start):
            name = PurePosixPath(member.name).name
            if not member.isreg() or name.startswith(".") or not has_suffix(name, options.suffixes):
                continue
            head = Member(start, member.offset_data, member.size).peek(HEAD_BYTES)
            content = judge(head, member.size < HEAD_BYTES)
            if content.in_words and not (content.is_text and options.suffixes):
                refused = refused or (member.name, content.in_words)
            else:
                suffixes.add(PurePosixPath(name).suffix or name)
    if refused:
        others = f", such as {option('suffixes', ' '.join(sorted(suffixes)))}" if suffixes else ""
        cause = f"its member {refused[0]} is {refused[1]}, and each member is read as text"
        cure = f"Name the members that are text{others}, or unpack the archive"
        raise UserError(option("input", file), cause, cure)


def _choose_members(stream: ForwardStream, collector: MemberCollector) -> Iterator[Member | None]:
    suffixes = collector.part.options.suffixes
    for member in _list_members(stream):
        name = PurePosixPath(member.name).name
        place = member.offset_data, member.size
        if member.isdir():
            continue
        if not member.isreg() or name.startswith(".") or not has_suffix(name, suffixes):
            collector.counts += ReadCounts(left_out_members=1)
            yield None
        elif is_compressed(name) or member.issparse():
            detail = f"{member.name!r} is compressed itself, or sparse"
            collector.refuse_member(*place, "unsupported-member", detail)
            yield None
        else:
            yield Member(stream, *place)


def _list_members(stream: ForwardStream) -> Iterator[tarfile.TarInfo]:
    """Yield the members' headers; the stream is then at the end of the header.

    Raises:
        DamagedStreamError: the archive is truncated, or part of it is not a tar archive.
    """
    try:
        archive = tarfile.TarFile(fileobj=cast(BinaryIO, stream))
        while member := archive.next():
            archive.members.clear()  # type: ignore[attr-defined]  # it keeps all it has met
            yield member
    except tarfile.ReadError as error:
        if stream.position:  # an empty file is not damaged
            raise DamagedStreamError(str(error)) from None
    # The library takes a block that is not a header for the end, and does not look beyond it.
    rest = stream.last
    while not rest.strip(b"\0"):
        if not (rest := stream.read(2**16)):
            return
    raise DamagedStreamError("data after the last member is not a tar header")


# Enough for the first members, which are of all kinds in the archives of data sets.
_PROBE_BYTES = 2**20
# Enough for the records that describe the file, and its first page.
_PROBE_RECORDS = 3
_TEXT, _DESCRIPTIONS = "conversion", ("warcinfo", "metadata")
_MAX_HEADER_BYTES = 2**20


class _Lines(BufferedReader):
    """warcio's reader of lines, with a limit to the headers that it holds."""

    header_bytes = 0

    def readline(self, _length: int | None = None) -> bytes:
        """Read the next line of a header."""
        line: bytes = super().readline(_MAX_HEADER_BYTES)
        self.header_bytes += len(line)
        if self.header_bytes > _MAX_HEADER_BYTES:
            raise DamagedStreamError("a header does not end")
        return line


def check_wet(stream: BinaryIO, file: str, _options: DocumentOptions) -> None:
    """Refuse a file of pages whose text has not been extracted.

    Args:
        stream: the start of a file, decompressed.
        file: its path.
        _options: not used.

    Raises:
        UserError: its first records are not those of a WET file.
    """
    with suppress(DamagedStreamError):
        for _, record in islice(_records(ForwardStream(stream)), _PROBE_RECORDS):
            if record.rec_type not in (_TEXT, *_DESCRIPTIONS):
                cause = f"it holds a record of type {record.rec_type}, not the text of a page"
                cure = "Give WET files, or extract the text first"
                raise UserError(option("input", file), cause, cure)


def read_wet(stream: BinaryIO, part: FileRange) -> Iterator[DocumentBatch]:
    """Read the pages of a WET file one by one, with a bounded amount in memory.

    Args:
        stream: the file's bytes, decompressed, read forward only.
        part: the whole file.

    Yields:
        At least one batch. Ids hold the byte of the file at which the document starts. Records
        that describe the file are counted in `left_out_members`; those of other types are rejects
        ("not-plain-text"), as is the rest of a file after damage ("damaged-archive").

    Raises:
        UserError: an offset does not fit a document id.
    """
    return read_archive(_choose_pages, stream, part)


def _choose_pages(stream: ForwardStream, collector: MemberCollector) -> Iterator[Member | None]:
    for offset, record in _records(stream):
        if record.rec_type == _TEXT:
            yield Member(record.raw_stream, offset, record.length)
        elif record.rec_type in _DESCRIPTIONS:
            collector.counts += ReadCounts(left_out_members=1)
            yield None
        else:
            detail = f"a record of type {record.rec_type}, whose text has to be extracted first"
            collector.refuse_member(offset, record.length, "not-plain-text", detail)
            yield None


def _records(stream: ForwardStream) -> Iterator[tuple[int, ArcWarcRecord]]:
    """Yield the byte at which the text of each record starts, and the record.

    Raises:
        DamagedStreamError: the file is truncated, or part of it is not a record.
    """
    reader, loader = _Lines(stream), ArcWarcRecordLoader()
    while line := reader.readline():
        if not line.strip():
            continue
        try:
            record = loader.parse_record_stream(reader, line, "warc", no_record_parse=True)
        except (ArchiveLoadFailed, EOFError) as error:
            raise DamagedStreamError(str(error)) from None
        if not record.rec_headers.get_header("Content-Length", "").isdecimal():
            raise DamagedStreamError("a record does not declare its length")
        reader.header_bytes = 0
        offset = stream.position - reader.rem_length()
        yield offset, record
        rest = Member(record.raw_stream, offset, record.raw_stream.limit)
        while rest.read(2**16):
            pass
