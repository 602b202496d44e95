"""Members of archives as documents: what the readers of tar and WET files share."""

import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import BinaryIO, Protocol, cast

import numpy as np
import pyarrow as pa

from corpusmill.corpus.batches import OFFSET_BITS, TEXT_SCHEMA, DocumentBatch, ReadCounts
from corpusmill.corpus.decompression import DamagedStreamError
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.options import MAX_LIMIT_BYTES
from corpusmill.corpus.records.documents import RecordCollector
from corpusmill.corpus.text.lines import BYTE_ORDER_MARK
from corpusmill.corpus.text.reading import read_text

# Members up to this size are read at once.
_SMALL_BYTES = 2**20


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

    def drain(self) -> None:
        """Read to the end, or to damage."""
        with suppress(DamagedStreamError):
            while self.read(2**20):
                pass


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
    """

    def __init__(self, part: FileRange) -> None:
        super().__init__(part)
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

    def leave_out(self) -> None:
        """Count a member that is skipped."""
        self.counts += ReadCounts(left_out_members=1)

    def refuse_member(self, offset: int, length: int, reason: str, detail: str) -> None:
        """Refuse a member, which is counted as a row as its lines are not known."""
        self.counts += ReadCounts(rows=1, rejected_rows=1, rejected_bytes=max(0, length))
        self.refuse(offset, length, reason, detail)

    def take(self) -> DocumentBatch:
        """Return the members as a batch, with what was counted and refused."""
        self.counts += ReadCounts(rows=len(self._offsets))
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
    """Read all members; the rest of an archive after damage is a reject.

    Args:
        list_members: lists the members of an archive of the format.
        stream: the archive's bytes, decompressed, read forward only.
        part: the whole archive, with limits. Ids and rejects hold bytes of the archive.

    Yields:
        At least one batch. The length of a document is that of its member; one that was read line
        by line ends with its last line of text. A member is a record and counted as a row; only
        rejected lines are counted. All bytes of the stream are counted, those between members as
        well.

    Raises:
        UserError: an offset does not fit a document id.
    """
    archive = ForwardStream(stream)
    counted = 0
    for batch in _read_members(list_members, archive, part):
        read = archive.position - counted
        yield replace(batch, counts=replace(batch.counts, bytes=read))
        counted += read


def _read_members(
    list_members: ListMembers, archive: ForwardStream, part: FileRange
) -> Iterator[DocumentBatch]:
    """Read members in their order, small ones at once and others line by line."""
    collector = MemberCollector(part)
    limit = min(_SMALL_BYTES, part.options.max_line_bytes)
    try:
        for member in list_members(archive, collector):
            if member:
                text = member.read_text() if member.size <= limit else None
                if text is None:
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
    archive.drain()
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
            batch.counts, lines=lines, blank_lines=0, sentence_lines=0, cut_documents=0,
            unfinished_files=0,
        )  # fmt: skip
        more = [replace(some, offsets=some.offsets + member.offset) for some in batch.more_rejects]
        yield DocumentBatch(rows, tuple(rejects), counts, tuple(more))
    cut, empty = max(0, documents - 1), int(not documents)
    collector.counts += ReadCounts(rows=1, records=1, empty_records=empty, cut_documents=cut)
    if damage:
        raise DamagedStreamError(damage.detail)
