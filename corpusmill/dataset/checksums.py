"""Digests of files, computed while they are written, so that no file is read twice."""

import hashlib
from typing import BinaryIO


class HashingWriter:
    """Forwards bytes to a stream, and computes their number and sha256.

    Args:
        stream: where the bytes go.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.bytes = 0

    @property
    def closed(self) -> bool:
        """Whether the stream is closed."""
        return self._stream.closed

    @property
    def sha256(self) -> str:
        """Hexadecimal digest of the bytes written so far."""
        return self._digest.hexdigest()

    def write(self, data: bytes) -> int:
        """Forward the bytes, and return their number."""
        self._digest.update(data)
        self._stream.write(data)
        size = memoryview(data).nbytes
        self.bytes += size
        return size
