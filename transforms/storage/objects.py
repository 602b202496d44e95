"""Objects by path: find the bucket of an object; read and write objects as files."""

import io
import os
import re
import threading
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from corpusmill.errors import UserError
from transforms.storage.file_systems import beam_file_systems
from transforms.storage.store import Store, Upload

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

# Smallest size of a request when a file is read from one end to the other.
_READ_BYTES = 4 * 2**20
# Size of the first parts of an upload; a smaller object takes one request. The parts grow, as S3
# takes at most 10,000 of them.
_PART_BYTES, _PARTS_OF_ONE_SIZE = 16 * 2**20, 1000

_PATH = re.compile(r"(gs|s3)://([^/]*)(?:/(.*))?", re.DOTALL)
# The client's package, and the extra of Beam that installs it.
_PACKAGES = {
    "gs": ("google.cloud.storage", "gcp"),
    "s3": ("boto3", "aws"),
    # These are Beam's own file systems.
    "azfs": ("azure.storage.blob", "azure"),
    "hdfs": ("hdfs", "hadoop"),
}

# The options are kept with the store made from them, so that their id stays theirs.
_stores: dict[tuple[str, str, int, int], "tuple[PipelineOptions, Store]"] = {}
_lock = threading.Lock()


def is_object_path(path: str) -> bool:
    """Return whether a path belongs to an object store that this package knows."""
    return _PATH.fullmatch(path) is not None


def find_object(path: str) -> tuple[Store, str]:
    """Return the bucket of an object, and the object's name in it.

    Args:
        path: a path for which `is_object_path` is true.

    Raises:
        UserError: the path names no bucket, or the store's client is not installed.
    """
    match = _PATH.fullmatch(path)
    if not match or not match[2]:
        raise UserError(path, "it names no bucket", "Write gs://bucket/path or s3://bucket/path")
    scheme, bucket, name = match.groups()
    options = beam_file_systems()._pipeline_options
    # A forked process must not share its parent's connections.
    key = (scheme, bucket, os.getpid(), id(options))
    with _lock:
        if key not in _stores:
            check_client(scheme)
            if scheme == "gs":
                from transforms.storage.google_cloud import GoogleCloudStore  # noqa: PLC0415

                store: Store = GoogleCloudStore(bucket, options)
            else:
                from transforms.storage.amazon_s3 import AmazonS3Store  # noqa: PLC0415

                store = AmazonS3Store(bucket, options)
            _stores[key] = options, store
        return _stores[key][1], name or ""


def check_client(scheme: str) -> None:
    """Check that the client for a scheme of URLs is installed, if it is known which one that is.

    Raises:
        UserError: it is not.
    """
    if scheme not in _PACKAGES:
        return
    package, extra = _PACKAGES[scheme]
    with suppress(ModuleNotFoundError):  # of a package around it
        if find_spec(package):
            return
    cure = f"Install it: pip install 'apache-beam[{extra}]'"
    raise UserError(f"{scheme}://", f"the package {package} is not installed", cure)


class _ObjectReader(io.RawIOBase):
    """Reads an object range by range."""

    def __init__(self, store: Store, name: str, size: int) -> None:
        self._store, self._name, self._size, self._position = store, name, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        end = min(self._size, self._position + len(buffer))
        if end <= self._position:
            return 0
        content = self._store.read(self._name, self._position, end)
        if len(content) != end - self._position:
            raise OSError(f"{self._store.path(self._name)} changed while it was read")
        buffer[: len(content)] = content
        self._position = end
        return len(content)

    def readall(self) -> bytes:
        # The base class would request 8 KB at a time.
        content = bytearray(max(0, self._size - self._position))
        self.readinto(content)
        return bytes(content)


class ObjectWriter(io.RawIOBase):
    """Writes an object from its beginning to its end.

    It becomes visible when it is closed. If an exception leaves its `with` block, its parts are
    removed, and an earlier object of this name stays.

    Args:
        store: bucket of the object.
        name: name of the object.
        once: whether the name must be free, or hold the same bytes already: those of another
            attempt, or of one of our own, of which the store's answer was lost.
    """

    def __init__(self, store: Store, name: str, once: bool = False) -> None:
        self._store, self._name = store, name
        self._digest = sha256() if once else None
        self._buffer = bytearray()
        self._upload: Upload | None = None
        self._parts = self._bytes = 0

    def writable(self) -> bool:
        """Say that it can be written."""
        return True

    def tell(self) -> int:
        """Return the number of bytes that were written."""
        return self._bytes

    def write(self, data: Any) -> int:
        """Write bytes, and send the parts that are full."""
        view = memoryview(data).cast("B")
        if self._digest:
            self._digest.update(view)
        self._buffer += view
        self._bytes += view.nbytes
        while len(self._buffer) > (part := _PART_BYTES * (1 + self._parts // _PARTS_OF_ONE_SIZE)):
            with self._store.explained(self._name):
                new = self._digest is not None
                self._upload = self._upload or self._store.begin_upload(self._name, new)
                self._upload.write(bytes(memoryview(self._buffer)[:part]))
            del self._buffer[:part]
            self._parts += 1
        return view.nbytes

    def close(self) -> None:
        """Send the rest, and make the object visible.

        Raises:
            RuntimeError: it is to be written once, and the name holds other bytes.
        """
        if self.closed:
            return
        try:
            with self._store.explained(self._name):
                if self._upload is None:
                    self._store.put(self._name, bytes(self._buffer), "" if self._digest else None)
                else:
                    self._upload.write(bytes(self._buffer))
                    self._upload.close()
        except BaseException as error:
            self._abort()
            if not isinstance(error, FileExistsError) or not self._is_written():
                raise
        finally:
            super().close()

    def _is_written(self) -> bool:
        """Return whether the name holds the bytes that were to be written once."""
        if self._digest is None:
            return False
        path, digest = self._store.path(self._name), sha256()
        with open_object(path) as stream:
            while block := stream.read(_READ_BYTES):
                digest.update(block)
        if digest.digest() != self._digest.digest():
            raise RuntimeError(f"{path} exists, and holds other bytes than were made") from None
        return True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        elif not self.closed:
            self._abort()
            super().close()

    def __del__(self) -> None:
        # An object that nobody closed is not finished; the base class would write it.
        pass

    def _abort(self) -> None:
        if self._upload is not None:
            with self._store.explained(self._name):
                self._upload.terminate()


def open_object(path: str, size: int | None = None) -> io.BufferedReader:
    """Open an object for reading at any position.

    Args:
        path: of the object.
        size: its size in bytes, if it is known from a listing; then nothing is asked for before
            the first read, which finds out whether the object still exists.

    Raises:
        FileNotFoundError: the object does not exist.
        UserError: the bucket does not exist, cannot be reached or refuses.
    """
    store, name = find_object(path)
    size = store.find(name).bytes if size is None else size
    return io.BufferedReader(_ObjectReader(store, name, size), _READ_BYTES)
