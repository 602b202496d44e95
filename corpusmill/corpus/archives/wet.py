"""WET files, the text of web pages as Common Crawl gives it: each page is a document.

WARC files proper hold pages as they were served; their text has to be extracted first.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import BinaryIO

from warcio.bufferedreaders import BufferedReader
from warcio.exceptions import ArchiveLoadFailed
from warcio.recordloader import ArcWarcRecord, ArcWarcRecordLoader

from corpusmill.corpus.archives.members import (
    ForwardStream,
    Member,
    Members,
    MemberText,
    read_archive,
    refused_member,
    without_documents,
)
from corpusmill.corpus.batches import DocumentBatch, ReadCounts
from corpusmill.corpus.decompression import DamagedStreamError
from corpusmill.corpus.options import DocumentOptions
from corpusmill.errors import UserError

# Enough for the records about the file and its first page.
_PROBE_RECORDS = 3
_TEXT, _ABOUT = "conversion", ("warcinfo", "metadata")
_MAX_HEADER_BYTES = 2**20


class _Lines(BufferedReader):
    """warcio's reader of lines, with an end to the headers that it holds."""

    header_bytes = 0

    def readline(self, _length: int | None = None) -> bytes:
        """The next line of a header."""
        line: bytes = super().readline(_MAX_HEADER_BYTES)
        self.header_bytes += len(line)
        if self.header_bytes > _MAX_HEADER_BYTES:
            raise DamagedStreamError("a header does not end")
        return line


def check_wet(stream: BinaryIO, file: str, _options: DocumentOptions) -> None:
    """Refuse a file of pages that are not text yet.

    Args:
        stream: the start of a file, decompressed.
        file: its path.
        _options: not looked at.

    Raises:
        UserError: its first records are none of a WET file.
    """
    with suppress(DamagedStreamError):
        for _, record in islice(_records(ForwardStream(stream)), _PROBE_RECORDS):
            if record.rec_type not in (_TEXT, *_ABOUT):
                raise UserError(
                    f"--input {file}",
                    f"it holds a record of type {record.rec_type}, a page and not its text",
                    "Give WET files, or extract the text first",
                )


def read_wet(
    stream: BinaryIO,
    file: str,
    file_index: int,
    _start: int,
    _end: int | None,
    options: DocumentOptions,
    batch_bytes: int = 2**20,
) -> Iterator[DocumentBatch]:
    """Read the pages of a WET file one by one, with a bounded amount in memory.

    Args:
        stream: the file's bytes, decompressed, read forward only.
        file: path for the rejects.
        file_index: index of the file in the sorted list of inputs, for the documents' ids, which
            hold the byte at which the document starts.
        _start: 0, as a file is read whole.
        _end: None.
        options: limits.
        batch_bytes: about how much of the file a batch is of.

    Yields:
        At least one batch. Records about the file are counted in `left_out_members`; those of other
        types are rejects ("not-plain-text"), as is the rest behind damage ("damaged-archive").

    Raises:
        UserError: for a file index or an offset that does not fit a document id.
    """
    pages = partial(_choose_pages, file=file)
    return read_archive(pages, stream, file, file_index, options, batch_bytes)


def _choose_pages(stream: ForwardStream, file: str) -> Members:
    for offset, record in _records(stream):
        if record.rec_type == _TEXT:
            yield Member(offset, record.length, MemberText(record.raw_stream, record.length))
        elif record.rec_type in _ABOUT:
            yield without_documents(ReadCounts(left_out_members=1))
        else:
            detail = f"a record of type {record.rec_type}, whose text has to be extracted first"
            yield refused_member(file, offset, record.length, "not-plain-text", detail)


def _records(stream: ForwardStream) -> Iterator[tuple[int, ArcWarcRecord]]:
    """The records, and the byte at which the text of each starts.

    Raises:
        DamagedStreamError: the file is truncated, or something in it is no record.
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
            raise DamagedStreamError("a record does not tell its length")
        reader.header_bytes = 0
        yield stream.position - reader.rem_length(), record
        rest = MemberText(record.raw_stream, record.raw_stream.limit)
        while rest.read(2**16):
            pass
