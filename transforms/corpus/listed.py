"""Input files as they were when they were listed: what is added later is not read."""

import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from corpusmill.corpus.hub_data_sets import is_hub_path
from corpusmill.errors import UserError, option
from corpusmill.location import NotAFileError, scheme_of
from transforms.elements import PlannedRange
from transforms.storage.files import CALLS_AT_ONCE, SMALL_FILE_BYTES, map_ahead, open_file
from transforms.storage.objects import find_object, is_object_path

_GONE, _SHORTER = "it is not there any more; it had", "it ends before"
_NOT_A_FILE = "it is not a regular file any more; it had"


class _ListedReader(io.RawIOBase):
    """Reads a file up to the size that it had.

    Args:
        raw: the file, at its beginning.
        planned: a range of it, with the size.
    """

    def __init__(self, raw: BinaryIO, planned: PlannedRange) -> None:
        super().__init__()
        self._raw, self._planned = raw, planned
        self._size, self._position = planned.bytes or 0, 0

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def seekable(self) -> bool:
        """Say that its position can be changed."""
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as any file does."""
        left = max(0, self._size - self._position)
        size = left if size is None or size < 0 else min(size, left)
        data = self._raw.read(size) if size else b""
        if size and not data:
            raise _explain_change(self._planned, _SHORTER)
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Change the position as any file does."""
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = self._raw.seek(begin + offset)
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position


def open_ranges(ranges: Iterable[PlannedRange]) -> Iterator[tuple[PlannedRange, BinaryIO]]:
    """Open the files of ranges, in their order; whoever takes a file reads it by `as_listed`.

    Of small objects in a store several are fetched ahead, each whole, with one request.

    Raises:
        OSError: a file cannot be read.
        UserError: a file is gone, or its bucket cannot be reached or refuses.
    """
    ranges = list(ranges)
    ahead = CALLS_AT_ONCE if any(is_object_path(planned.file) for planned in ranges) else 0
    opened = map_ahead(_open, ranges, ahead) if ahead else map(_open, ranges)
    yield from zip(ranges, opened, strict=True)


def _open(planned: PlannedRange, fetched_bytes: int = 0) -> BinaryIO:
    small_bytes = fetched_bytes or SMALL_FILE_BYTES
    try:
        stream = open_file(planned.file, planned.bytes)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, NotAFileError) as error:
        if error.filename != planned.file:
            raise
        is_gone = isinstance(error, FileNotFoundError | NotADirectoryError)
        raise _explain_change(planned, _GONE if is_gone else _NOT_A_FILE) from None
    if not is_object_path(planned.file) or (planned.bytes or small_bytes) >= small_bytes:
        return stream
    with stream:
        return io.BytesIO(stream.read())


@contextmanager
def as_listed(planned: PlannedRange, raw: BinaryIO) -> Iterator[BinaryIO]:
    """Read the file of a range as it was when it was listed, and close it.

    Raises:
        UserError: it has been cut or written anew since.
    """
    with raw:
        if planned.bytes is None or is_hub_path(planned.file):
            yield raw
            return
        try:
            yield cast(BinaryIO, _ListedReader(raw, planned))
        except UserError:
            raise
        except Exception:
            # Each store has errors of its own for an object that is shorter now, or gone.
            if is_object_path(planned.file):
                _check_unchanged(planned)
            raise
    # What came with one request is of one object, whichever it was.
    if planned.modified and not isinstance(raw, io.BytesIO):
        _check_unchanged(planned)


@contextmanager
def open_listed(planned: PlannedRange, fetched_bytes: int = 0) -> Iterator[BinaryIO]:
    """Open the file of a range as it was when it was listed.

    Args:
        planned: the range.
        fetched_bytes: an object in a store below this size is fetched whole, with one request; 0
            for that of small files.

    Raises:
        UserError: it is gone, or has been cut or written anew since.
    """
    with as_listed(planned, _open(planned, fetched_bytes)) as stream:
        yield stream


def _check_unchanged(planned: PlannedRange) -> None:
    """Refuse a file that is shorter than it was, or was written since with as many bytes."""
    change, is_object = "", is_object_path(planned.file)
    if not is_object and scheme_of(planned.file) is not None:
        return
    try:
        if is_object:
            store, name = find_object(planned.file)
            _, size, modified = store.find(name)
        else:
            status = Path(planned.file).stat()
            size, modified = status.st_size, status.st_mtime
    except FileNotFoundError:
        # A file of this machine was there as long as it was read.
        change = _GONE * is_object
    else:
        if size < (planned.bytes or 0):
            change = _SHORTER
        elif size == planned.bytes and modified != planned.modified:
            change = "it was written after its listing, with"
    if change:
        raise _explain_change(planned, change) from None


def _explain_change(planned: PlannedRange, what: str) -> UserError:
    cause = f"the file has changed since the run began: {what} {planned.bytes:,} bytes"
    cure = "Run again once nothing writes to the input; a copy of it cannot change"
    return UserError(option("input", planned.file), cause, cure)
