"""Objects by their paths: which bucket keeps one, and files to read and to write."""

import io
import os
import re
import threading
from importlib.util import find_spec
from types import TracebackType
from typing import Any

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from corpusmill.errors import UserError
from transforms.storage.store import Store, Upload

# What one request reads, at least, where a file is read from one end to the other.
_READ_BYTES = 4 * 2**20
# What is written in one request, and the first parts of what is larger. S3 takes at most 10,000
# parts, so that they grow.
_PART_BYTES, _PARTS_OF_ONE_SIZE = 16 * 2**20, 1000

_PATH = re.compile(r"(gs|s3)://([^/]*)(?:/(.*))?", re.DOTALL)

# The options are kept with the store made from them, so that their id stays theirs.
_stores: dict[tuple[str, str, int, int], tuple[PipelineOptions, Store]] = {}
_lock = threading.Lock()


def is_object_path(path: str) -> bool:
    """Whether a path is of a store that this package knows."""
    return _PATH.fullmatch(path) is not None


def find_object(path: str) -> tuple[Store, str]:
    """The bucket that a path names, and the name in it.

    Args:
        path: one of which `is_object_path` is true.

    Raises:
        UserError: no bucket is named, or the store's client is not installed.
    """
    found = _PATH.fullmatch(path)
    if not found or not found[2]:
        raise UserError(path, "it names no bucket", "Write gs://bucket/path or s3://bucket/path")
    scheme, bucket, name = found.groups()
    options = FileSystems._pipeline_options or PipelineOptions([])
    # A forked process must not share its parent's connections.
    key = (scheme, bucket, os.getpid(), id(options))
    with _lock:
        if key not in _stores:
            _stores[key] = options, _make_store(scheme, bucket, options)
        return _stores[key][1], name or ""


def _make_store(scheme: str, bucket: str, options: PipelineOptions) -> Store:
    if scheme == "gs":
        _check_installed("gs", "google.cloud.storage", "gcp")
        from transforms.storage.google_cloud import GoogleCloudStore  # noqa: PLC0415  may be missing

        return GoogleCloudStore(bucket, options)
    _check_installed("s3", "boto3", "aws")
    from transforms.storage.amazon_s3 import AmazonS3Store  # noqa: PLC0415  may be missing

    return AmazonS3Store(bucket, options)


def _check_installed(scheme: str, module: str, extra: str) -> None:
    if find_spec(module) is None:
        cure = f"Install it: pip install 'apache-beam[{extra}]'"
        raise UserError(f"{scheme}://", f"the package {module} is not installed", cure)


class _ObjectReader(io.RawIOBase):
    """An object, read in the ranges that are asked for."""

    def __init__(self, store: Store, name: str, size: int) -> None:
        self._store, self._name, self._size, self._place = store, name, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def readinto(self, buffer: Any) -> int:
        end = min(self._size, self._place + len(buffer))
        if end <= self._place:
            return 0
        content = self._store.read(self._name, self._place, end)
        if len(content) != end - self._place:
            raise OSError(f"{self._store.path(self._name)} changed while it was read")
        buffer[: len(content)] = content
        self._place = end
        return len(content)

    def readall(self) -> bytes:
        # The base class would ask for 8 KB at a time.
        content = bytearray(max(0, self._size - self._place))
        self.readinto(content)
        return bytes(content)


class _ObjectWriter(io.RawIOBase):
    """An object that becomes visible when it is closed, and never where its writer fails."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._buffer = bytearray()
        self._upload: Upload | None = None
        self._parts = self._bytes = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._bytes

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._buffer += view
        self._bytes += view.nbytes
        while len(self._buffer) > (part := self._part_bytes()):
            self._upload = self._upload or self._store.begin_upload(self._name)
            self._upload.add(bytes(memoryview(self._buffer)[:part]))
            del self._buffer[:part]
            self._parts += 1
        return view.nbytes

    def _part_bytes(self) -> int:
        return _PART_BYTES * (1 + self._parts // _PARTS_OF_ONE_SIZE)

    def close(self) -> None:
        if self.closed:
            return
        try:
            if self._upload is None:
                self._store.put(self._name, bytes(self._buffer))
            else:
                self._upload.add(bytes(self._buffer))
                self._upload.finish()
        except BaseException:
            self._abort()
            raise
        finally:
            super().close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        elif not self.closed:
            self._abort()
            super().close()

    def __del__(self) -> None:
        # What nobody closed was not finished; the base class would write it.
        pass

    def _abort(self) -> None:
        if self._upload is not None:
            self._upload.abort()


def open_object(path: str) -> io.BufferedReader:
    """Open an object for reading, from any place.

    Raises:
        FileNotFoundError: it is not there.
        UserError: the bucket is not there, cannot be reached or refuses.
    """
    store, name = find_object(path)
    return io.BufferedReader(_ObjectReader(store, name, store.find(name).bytes), _READ_BYTES)


def create_object(path: str) -> io.RawIOBase:
    """Create an object, to be written from its begin to its end.

    It becomes visible when it is closed. Left by an exception, the `with` that it stands in leaves
    nothing of it, and what had its name before stays.
    """
    store, name = find_object(path)
    return _ObjectWriter(store, name)
