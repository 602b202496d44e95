"""Tar archives: each regular file in one is a document, its lines are sentences."""

import tarfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import BinaryIO, cast

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
from corpusmill.corpus.decompression import DamagedStreamError, has_suffix, is_compressed
from corpusmill.corpus.options import DocumentOptions


def read_tar(
    stream: BinaryIO,
    file: str,
    file_index: int,
    _start: int,
    _end: int | None,
    options: DocumentOptions,
    batch_bytes: int = 2**20,
) -> Iterator[DocumentBatch]:
    """Read the files of a tar archive one by one, with a bounded amount in memory.

    What the listing of a folder leaves out is left out here, and counted in `left_out_members`:
    names that start with a point, and those without any of the suffixes that are wanted; likewise
    links and devices. Folders are not counted.

    Args:
        stream: the archive's bytes, decompressed, read forward only.
        file: path for the rejects.
        file_index: index of the archive in the sorted list of inputs, for the documents' ids, which
            hold the byte of the archive at which the document starts.
        _start: 0, as a file is read whole.
        _end: None.
        options: suffixes and limits.
        batch_bytes: about how much of the archive a batch is of.

    Yields:
        At least one batch. A member that is compressed itself, or sparse, is a reject
        ("unsupported-member"), as is the rest of an archive behind damage ("damaged-archive").

    Raises:
        UserError: for a file index or an offset that does not fit a document id.
    """
    members = partial(_choose_members, file=file, suffixes=options.suffixes)
    return read_archive(members, stream, file, file_index, options, batch_bytes)


def _choose_members(stream: ForwardStream, file: str, suffixes: Sequence[str]) -> Members:
    for member in _list_members(stream):
        name = PurePosixPath(member.name).name
        place = member.offset_data, member.size
        if member.isdir():
            continue
        if not member.isreg() or name.startswith(".") or not has_suffix(name, suffixes):
            yield without_documents(ReadCounts(left_out_members=1))
        elif is_compressed(name) or member.issparse():
            detail = f"{member.name!r} is compressed itself, or sparse"
            yield refused_member(file, *place, "unsupported-member", detail)
        else:
            yield Member(*place, MemberText(stream, member.size))


def _list_members(stream: ForwardStream) -> Iterator[tarfile.TarInfo]:
    """The members' headers; the stream stands behind each when it is given.

    Raises:
        DamagedStreamError: the archive is truncated, or something in it is no header.
    """
    try:
        archive = tarfile.TarFile(fileobj=cast(BinaryIO, stream))
        while member := archive.next():
            archive.members.clear()  # type: ignore[attr-defined]  # it keeps all it has met
            yield member
    except tarfile.ReadError as error:
        if stream.position:  # an empty file is no damage
            raise DamagedStreamError(str(error)) from None
    # It takes a block that is no header for the end, and does not look behind that.
    rest = stream.last
    while not rest.strip(b"\0"):
        if not (rest := stream.read(2**16)):
            return
    raise DamagedStreamError("something follows the last member that is none")
