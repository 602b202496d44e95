"""WET files, which hold the text of web pages as Common Crawl extracts it: a page is a document.

Other WARC files hold pages as they were served, whose text has to be extracted first.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import BinaryIO

from warcio.bufferedreaders import BufferedReader
from warcio.exceptions import ArchiveLoadFailed
from warcio.recordloader import ArcWarcRecord, ArcWarcRecordLoader

from corpusmill.corpus.archives.members import (
    ForwardStream,
    Member,
    MemberCollector,
    read_archive,
)
from corpusmill.corpus.batches import DocumentBatch
from corpusmill.corpus.decompression import DamagedStreamError
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.options import DocumentOptions
from corpusmill.errors import UserError

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
                raise UserError(f"--input {file}", cause, cure)


def read_wet(stream: BinaryIO, part: FileRange) -> Iterator[DocumentBatch]:
    """Read the pages of a WET file one by one, with a bounded amount in memory.

    Args:
        stream: the file's bytes, decompressed, read forward only.
        part: the whole file, with limits.

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
            collector.leave_out()
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
