"""Files of this machine that are whole, and on the disk, as soon as they have their names."""

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from uuid import uuid4

from corpusmill.errors import OutageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# How long an exchange waits for another one, which takes a few calls of the system.
_PATIENCE, _PAUSE = 30.0, 0.02
# What file systems answer that cannot lock a file, and those that cannot sync a folder.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EINVAL}
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Add the name of a file to the errors of calls that know only its descriptor."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def create_named(path: Path | str, mode: str = "xb") -> BinaryIO:
    """Create a file whose errors say which one it is."""
    return BufferedWriter(_NamedFile(path, mode))


class _NamedFile(FileIO):
    def write(self, data: "ReadableBuffer", /) -> int:
        with naming(os.fsdecode(self.name)):
            return super().write(data)

    def close(self) -> None:  # some file systems tell only now that the disk is full
        with naming(os.fsdecode(self.name)):
            super().close()


def sync(path: Path) -> None:
    """Wait until a file is on the disk, or the entries of a folder, where its file system can that.

    Raises:
        OSError: it does not exist, or the disk fails.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            with naming(path):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        # A folder around ours may let nobody read it.
        if error.errno not in {*_NO_SYNC, errno.EACCES} or not path.is_dir():
            raise


def exchange_file(
    path: Path, content: bytes, old: bytes | None, text: str, scratch: Path | None = None
) -> bool:
    """Write a small file in place of the one that holds `old` (`Location.exchange`).

    Whoever exchanges a file holds a lock on it, and not on its name. As long as a process holds the
    lock on the file that has the name, nobody else gives the name to another one. On NFS a machine
    that is cut off from the server for longer than its lease loses the lock.

    Args:
        path: the file, which is no link.
        content: all of the new file.
        old: what the file must hold; None if there must be no file.
        text: what the user calls the file.
        scratch: a folder on the same disk in which the new file has its name before; beside the
            file by default, where a kill may leave it.
    """

    def fill(stream: BinaryIO) -> None:
        stream.write(content)

    if old is None:
        try:
            write_whole(path, fill, new=True)
        except FileExistsError:
            with suppress(FileNotFoundError):
                return path.read_bytes() == content
            return False
        return True
    try:
        with _locked(path, text) as stream:
            held = stream.read()
            if held == old and held != content:
                write_whole(path, fill, new=False, scratch=scratch)
                return True
            return held == content
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise
        return False


@contextmanager
def _locked(path: Path, text: str) -> Iterator[BinaryIO]:
    """Open the file that has a name, and let nobody else exchange it.

    Raises:
        OutageError: another process holds the lock for too long.
    """
    end = time.monotonic() + _PATIENCE
    while True:
        with _open_whole(path) as locked:
            _wait_for_lock(locked, end, text)
            # Opened again, as NFS keeps what it knows of a name until the next time.
            with _open_whole(path) as stream:
                if os.path.samestat(os.fstat(locked.fileno()), os.fstat(stream.fileno())):
                    yield stream
                    return


def _open_whole(path: Path) -> BinaryIO:
    try:
        return path.open("r+b")  # NFS locks no file that is only read
    except OSError as error:
        if error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise
        return path.open("rb")


def _wait_for_lock(stream: BinaryIO, end: float, text: str) -> None:
    while True:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                cause = "another process is in the middle of its exchange of this file, and stays"
                cure = "If it was stopped, let it go on or end it; then run again"
                raise OutageError(text, cause, cure) from None
            time.sleep(_PAUSE)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return
        else:
            return


def write_whole(
    place: Path, fill: Callable[[BinaryIO], object], new: bool, scratch: Path | None = None
) -> None:
    """Write a file that is whole, on the disk too, as soon as it has a name.

    Where the system allows it, the file has no name before, so that a kill leaves no part of it.

    Args:
        place: the file, in a folder that exists.
        fill: writes its bytes; where the file system lacks what the file needs, once more.
        new: whether the name must be free.
        scratch: a folder on the same disk in which the file may have another name before; beside
            its place by default.

    Raises:
        FileExistsError: the name is not free.
        OSError: the file cannot be written.
    """
    written = (scratch or place.parent) / f"{place.name}.{uuid4().hex}"
    named = place if new else written
    with ExitStack() as opened:
        try:
            descriptor = os.open(place.parent, os.O_TMPFILE | os.O_WRONLY, 0o666)
            stream = opened.enter_context(os.fdopen(descriptor, "wb"))
        except (AttributeError, OSError):
            _write_beside(place, written, fill, new)
            return
        _fill(stream, fill, place)
        root = os.open("/", os.O_RDONLY)
        opened.callback(os.close, root)
        # With a folder's descriptor, the link's target is followed (linkat).
        source = f"/proc/self/fd/{stream.fileno()}"
        try:
            os.link(source, named, src_dir_fd=root, follow_symlinks=True)
        except FileExistsError:
            raise
        except OSError:  # there is no /proc, or it has no hard links
            _write_beside(place, written, fill, new)
            return
    if not new:
        written.replace(place)


def _write_beside(
    place: Path, written: Path, fill: Callable[[BinaryIO], object], new: bool
) -> None:
    try:
        with written.open("xb") as stream:
            _fill(stream, fill, place)
        if new:
            _give_free_name(written, place)
        else:
            written.replace(place)
    finally:
        written.unlink(missing_ok=True)


def _give_free_name(written: Path, place: Path) -> None:
    try:
        place.hardlink_to(written)
    except FileExistsError:
        raise
    except OSError:  # the file system has no hard links
        stream = place.open("xb")
        try:
            with stream:
                _fill(stream, lambda _: stream.write(written.read_bytes()), place)
        except OSError:  # a part of a file would be taken for the whole
            place.unlink(missing_ok=True)
            raise


def _fill(stream: BinaryIO, fill: Callable[[BinaryIO], object], place: Path) -> None:
    with naming(place):
        fill(stream)
        stream.flush()
        os.fsync(stream.fileno())
