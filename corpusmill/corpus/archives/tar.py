"""Tar archives: each regular file in one is a document, and its lines are the sentences."""

import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import BinaryIO, cast

from corpusmill.corpus.archives.members import (
    ForwardStream,
    Member,
    MemberCollector,
    read_archive,
)
from corpusmill.corpus.batches import DocumentBatch
from corpusmill.corpus.decompression import DamagedStreamError, has_suffix, is_compressed
from corpusmill.corpus.file_range import FileRange


def read_tar(stream: BinaryIO, part: FileRange) -> Iterator[DocumentBatch]:
    """Read the files of a tar archive one by one, with a bounded amount in memory.

    Members that the listing of a folder would leave out are skipped, and counted in
    `left_out_members`: names that start with a point, and those without any of the wanted suffixes;
    likewise links and devices. Folders are not counted.

    Args:
        stream: the archive's bytes, decompressed, read forward only.
        part: the whole archive, with suffixes and limits.

    Yields:
        At least one batch. Ids hold the byte of the archive at which the document starts. A member
        that is compressed itself, or sparse, is a reject ("unsupported-member"), as is the rest of
        an archive after damage ("damaged-archive").

    Raises:
        UserError: an offset does not fit a document id.
    """
    return read_archive(_choose_members, stream, part)


def _choose_members(stream: ForwardStream, collector: MemberCollector) -> Iterator[Member | None]:
    suffixes = collector.part.options.suffixes
    for member in _list_members(stream):
        name = PurePosixPath(member.name).name
        place = member.offset_data, member.size
        if member.isdir():
            continue
        if not member.isreg() or name.startswith(".") or not has_suffix(name, suffixes):
            collector.leave_out()
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
