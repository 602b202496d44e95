"""Digests taken while bytes pass by, so that no file is read twice."""

import hashlib
from typing import BinaryIO


class HashingWriter:
    """A writable stream that forwards what it is given and remembers its size and sha256.

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
        """Hexadecimal digest of what was written so far."""
        return self._digest.hexdigest()

    def write(self, data: bytes) -> int:
        """Forward the bytes."""
        self._digest.update(data)
        self._stream.write(data)
        self.bytes += memoryview(data).nbytes
        return memoryview(data).nbytes

    def tell(self) -> int:
        """How many bytes were written."""
        return self.bytes

    def flush(self) -> None:
        """Forward the request."""
        self._stream.flush()

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
