"""Members of archives as documents: what the readers of tar and WET files share."""

import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import BinaryIO, NamedTuple, Protocol, cast

import numpy as np
import pyarrow as pa

from corpusmill.corpus.batches import (
    REJECTS_PER_BATCH,
    TEXT_SCHEMA,
    DocumentBatch,
    ReadCounts,
    Reject,
    document_id,
)
from corpusmill.corpus.decompression import DamagedStreamError
from corpusmill.corpus.options import MAX_LIMIT_BYTES, DocumentOptions
from corpusmill.corpus.records.documents import documents_of
from corpusmill.corpus.text.lines import BYTE_ORDER_MARK
from corpusmill.corpus.text.whole_documents import read_text

# Members up to this size are read whole.
_SMALL_BYTES = 2**20


class SupportsRead(Protocol):
    """Whatever bytes can be read from."""

    def read(self, size: int, /) -> bytes:
        """Some of the next bytes; none at the end."""


class ForwardStream:
    """A stream that knows its position, and seeks forward by reading.

    Args:
        stream: read forward only.

    Attributes:
        position: byte at which it stands.
        last: what the last read gave.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.position = 0
        self.last = b""

    def read(self, size: int) -> bytes:
        """The next bytes, fewer only at the end.

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
        """Where it stands."""
        return self.position

    def seek(self, position: int) -> int:
        """Move forward to a position, or to the end where that comes first."""
        if position < self.position:
            raise io.UnsupportedOperation("a forward stream does not go back")
        while self.position < position and self.read(min(position - self.position, 2**20)):
            pass
        return self.position


class MemberText:
    """The bytes of one member, whose early end is damage.

    Args:
        stream: stands at the first one, read forward only.
        size: how many there are.
    """

    def __init__(self, stream: SupportsRead, size: int) -> None:
        self._stream, self._left = stream, size

    def read(self, size: int) -> bytes:
        """Some of the next bytes; none at the member's end."""
        wanted = min(size, self._left)
        data = self._stream.read(wanted) if wanted else b""
        if wanted and not data:
            raise DamagedStreamError("the archive ends within a member")
        self._left -= len(data)
        return data


class Member(NamedTuple):
    """A member to be read.

    Attributes:
        offset: byte of the (decompressed) archive at which its text starts.
        size: bytes.
        text: stands at its start.
    """

    offset: int
    size: int
    text: SupportsRead


Members = Iterator[Member | DocumentBatch]


class _Texts:
    """Small members, whole, until they are taken as a batch: much quicker than one at a time."""

    def __init__(self, file_index: int, options: DocumentOptions) -> None:
        self._file_index, self._options = file_index, options
        self._clear()

    def _clear(self) -> None:
        self.bytes = 0
        self._ids: list[int] = []
        self._texts: list[str] = []

    def add(self, member: Member, text: str) -> None:
        self._ids.append(document_id(self._file_index, member.offset))
        self._texts.append(text)
        self.bytes += member.size

    def take(self) -> Iterator[DocumentBatch]:
        """One batch, or none where there is no text."""
        if self._ids:
            texts, ids = pa.array(self._texts, pa.large_string()), np.array(self._ids, np.uint64)
            counts = ReadCounts(bytes=self.bytes, rows=len(ids))
            yield documents_of(ids, texts, self._options, (), counts)
        self._clear()


def _read_texts(
    members: Members, file: str, file_index: int, options: DocumentOptions
) -> Iterator[DocumentBatch]:
    """Read members in their order, small ones whole and others line by line."""
    texts = _Texts(file_index, options)
    limit = min(_SMALL_BYTES, options.max_line_bytes)
    try:
        for member in members:
            if isinstance(member, DocumentBatch):
                yield member
                continue
            head = _Head(member.text, limit)
            text = head.whole_text() if member.size <= limit else None
            if text is not None:
                texts.add(member, text)
            if text is None or texts.bytes >= _SMALL_BYTES:
                yield from texts.take()
            if text is None:
                yield from _read_lines(head, file, file_index, member.offset, options)
    except DamagedStreamError:
        yield from texts.take()
        raise
    yield from texts.take()


class _Head:
    """A member's bytes, of which the first may be looked at before they are read."""

    def __init__(self, stream: SupportsRead, limit: int) -> None:
        self._stream, self._limit = stream, limit
        self._seen = b""

    def whole_text(self) -> str | None:
        """The text of a small member; None where it is damaged or no UTF-8."""
        try:
            while part := self._stream.read(self._limit):
                self._seen += part
            return self._seen.removeprefix(BYTE_ORDER_MARK).decode()
        except (DamagedStreamError, UnicodeDecodeError):
            return None

    def read(self, size: int) -> bytes:
        seen, self._seen = self._seen[:size], self._seen[size:]
        return seen or self._stream.read(size)


def _read_lines(
    stream: SupportsRead, file: str, file_index: int, offset: int, options: DocumentOptions
) -> Iterator[DocumentBatch]:
    """Read a member as one document, cut where it is above the limit of documents.

    Raises:
        DamagedStreamError: behind the last batch of a member that could not be read to its end.
    """
    whole = replace(options, document_rule="whole-file")
    documents = 0
    for batch in read_text(cast(BinaryIO, stream), file, file_index, 0, None, whole):
        rejects = [replace(of, offset=of.offset + offset) for of in batch.rejects]
        damage = rejects.pop() if rejects and rejects[-1].length < 0 else None
        ids = batch.documents.column("document").to_numpy() + np.uint64(offset)
        if len(ids):
            document_id(file_index, int(ids[-1]) - document_id(file_index, 0))
        rows = batch.documents.set_column(0, TEXT_SCHEMA.field(0), pa.array(ids))
        documents += batch.counts.documents
        # The member is the record; of its lines only those are counted that are rejects.
        refused = batch.counts.rejected_lines
        counts = replace(
            batch.counts, lines=refused, blank_lines=0, sentence_lines=0, cut_documents=0
        )
        yield DocumentBatch(rows, tuple(rejects), counts)
        if damage:
            yield without_documents(_one_record(documents))
            raise DamagedStreamError(damage.detail)
    yield without_documents(_one_record(documents))


def _one_record(documents: int) -> ReadCounts:
    cut, empty = max(0, documents - 1), int(not documents)
    return ReadCounts(rows=1, records=1, empty_records=empty, cut_documents=cut)


def without_documents(counts: ReadCounts, *rejects: Reject) -> DocumentBatch:
    """A batch of counts and rejects alone."""
    return DocumentBatch(pa.RecordBatch.from_pylist([], TEXT_SCHEMA), rejects, counts)


def refused_member(file: str, offset: int, length: int, reason: str, detail: str) -> DocumentBatch:
    """A batch for a member that is not taken, counted as a row as it has no lines."""
    counts = ReadCounts(rows=1, rejected_rows=1)
    return without_documents(counts, Reject(file, offset, length, reason, detail))


def read_archive(
    list_members: Callable[[ForwardStream], Members],
    stream: BinaryIO,
    file: str,
    file_index: int,
    options: DocumentOptions,
    batch_bytes: int,
) -> Iterator[DocumentBatch]:
    """Read all members; the rest of an archive behind damage is a reject.

    Args:
        list_members: gives the members of an archive one by one, each to be read before the next,
            and batches of rejects and counts.
        stream: the archive's bytes, decompressed, read forward only.
        file: its path, for the rejects.
        file_index: index of the archive in the sorted list of inputs; ids and rejects hold the
            archive's bytes.
        options: limits.
        batch_bytes: about how much of the archive a batch is of.

    Yields:
        At least one batch. A member is a record and counted as a row; lines are only those that
        are rejects. All bytes of the stream are counted, those between members as well.

    Raises:
        UserError: for a file index or an offset that does not fit a document id.
    """
    archive = ForwardStream(stream)
    batches = _read_texts(list_members(archive), file, file_index, options)
    return _join_batches(_account(batches, archive, file), batch_bytes)


def _account(
    batches: Iterator[DocumentBatch], stream: ForwardStream, file: str
) -> Iterator[DocumentBatch]:
    counted = 0
    rejects = []
    try:
        for batch in batches:
            counted += batch.counts.bytes
            yield batch
    except DamagedStreamError as damage:
        rejects.append(Reject(file, stream.position, -1, "damaged-archive", str(damage)))
    # What is left of a file that is not compressed has been read as well.
    with suppress(DamagedStreamError):
        while stream.read(2**20):
            pass
    yield without_documents(ReadCounts(bytes=stream.position - counted), *rejects)


def _join_batches(batches: Iterator[DocumentBatch], batch_bytes: int) -> Iterator[DocumentBatch]:
    """Make larger batches of smaller ones; at least one."""
    held: list[DocumentBatch] = []
    read = rejected = 0
    for batch in batches:
        held.append(batch)
        read, rejected = read + batch.counts.bytes, rejected + len(batch.rejects)
        if read >= batch_bytes or rejected >= REJECTS_PER_BATCH or len(held) >= 2000:
            yield _join(held)
            held, read, rejected = [], 0, 0
    if held:
        yield _join(held)


def _join(batches: list[DocumentBatch]) -> DocumentBatch:
    table = pa.Table.from_batches([of.documents for of in batches], TEXT_SCHEMA).combine_chunks()
    counts = sum((of.counts for of in batches), ReadCounts())
    rejects = tuple(reject for of in batches for reject in of.rejects)
    if not table.num_rows:
        return without_documents(counts, *rejects)
    return DocumentBatch(table.to_batches()[0], rejects, counts)
