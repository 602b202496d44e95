"""Bytes that are compared with a checksum when they are read: a disk may lose what it was given.

The checksum is CRC-32C, for which processors have an instruction: a few gigabytes a second.
"""

import hashlib
import io
import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, BinaryIO

import google_crc32c
import pyarrow as pa

from corpusmill.errors import UserError
from transforms.elements import Part
from transforms.storage.file_systems import scheme_of
from transforms.storage.files import create_file, delete_files, file_size, open_file, read_part

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_BLOCK_BYTES = 2**20
# CRC-32C's polynomial, with the coefficient of x**31 in the lowest bit.
_POLYNOMIAL = 0x82F63B78


class DamagedFileError(UserError):
    """A file does not hold the bytes that were written."""


def compute_checksum(content: bytes) -> int:
    """Return the CRC-32C of some bytes."""
    return int(google_crc32c.value(content))


class ChecksumWriter(io.BufferedIOBase):
    """Creates a file, and computes the checksum of what is written to it.

    Args:
        path: the file.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path, self._stream = path, create_file(path)
        self._bytes = self._checksum = 0

    @property
    def part(self) -> Part:
        """All that has been written."""
        return Part(self._path, 0, self._bytes, self._checksum)

    def write(self, data: "ReadableBuffer") -> int:
        """Write bytes, and return their number."""
        content = pa.py_buffer(data)
        self._stream.write(content)
        self._bytes += content.size
        self._checksum = google_crc32c.extend(self._checksum, content)
        return int(content.size)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()


class ChecksumReader(io.RawIOBase):
    """Reads a file for somebody else, and computes the checksum of a range of it on the way.

    Args:
        raw: the file, at its beginning.
        start: first byte of the range.
        end: end of the range, exclusive; None for that of the file.
    """

    def __init__(self, raw: BinaryIO, start: int, end: int | None) -> None:
        super().__init__()
        self._raw, self._start, self._end = raw, start, end
        self._position, self._next, self._checksum = 0, start, 0

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def seekable(self) -> bool:
        """Say that its position can be changed."""
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as any file does."""
        data = self._raw.read(-1 if size is None else size)
        begin, self._position = self._position, self._position + len(data)
        if begin <= self._next < self._position:
            limit = len(data) if self._end is None else self._end - begin
            self._extend(data[self._next - begin : limit])
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Change the position as any file does."""
        self._position = self._raw.seek(offset, whence)
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def close(self) -> None:
        """Do nothing: whoever opened the file closes it."""

    def _extend(self, data: bytes) -> None:
        self._checksum = google_crc32c.extend(self._checksum, data)
        self._next += len(data)

    def finish(self, most_bytes: int | None = None) -> tuple[int, int] | None:
        """Read what nobody has read, and return the length of the range and its checksum.

        Args:
            most_bytes: the most bytes that are read; None for any number.

        Returns:
            None if more would have to be read.
        """
        end = self.seek(0, os.SEEK_END) if self._end is None else self._end
        if most_bytes is not None and end - self._next > most_bytes:
            return None
        if self._next < end:
            self.seek(self._next)
        while self._next < end and self.read(min(_BLOCK_BYTES, end - self._next)):
            pass
        return self._next - self._start, self._checksum


def join_checksums(first: int, second: int, second_bytes: int) -> int:
    """Return the CRC-32C of some bytes and those that follow them, from the checksums of both.

    Source: crc32_combine_ of zlib's crc32.c.

    Args:
        first: checksum of the first bytes.
        second: checksum of those that follow.
        second_bytes: their number.
    """
    return _multiply(_power(8 * second_bytes), first) ^ second


@lru_cache(maxsize=256)
def _power(exponent: int) -> int:
    """Return x**exponent modulo the polynomial."""
    result, square = 1 << 31, 1 << 30
    while exponent:
        if exponent & 1:
            result = _multiply(square, result)
        square, exponent = _multiply(square, square), exponent >> 1
    return result


def _multiply(one: int, other: int) -> int:
    """Return the product of two polynomials over GF(2) modulo the polynomial."""
    product = 0
    for bit in range(31, -1, -1):
        if one >> bit & 1:
            product ^= other
        other = other >> 1 ^ (_POLYNOMIAL if other & 1 else 0)
    return product


def read_intact(part: Part) -> bytes:
    """Read a part of a file, and compare it with its checksum.

    Raises:
        DamagedFileError: the bytes are not those that were written.
    """
    content = read_part(part.path, part.offset, part.length)
    if compute_checksum(content) != part.checksum:
        raise explain_damage(part.path)
    return content


def explain_damage(path: str) -> DamagedFileError:
    """Make the error for a damaged file, of which a resumed run makes a new one."""
    if scheme_of(path) is not None:
        # A resumed run reads local files again, and only lists those of a store.
        delete_files([path])
    return DamagedFileError(
        path,
        "the file does not hold the bytes that were written, as after a power failure or on a "
        "failing disk",
        "Run the same command with --resume, which makes the file anew",
    )


def are_intact(parts: Iterable[Part]) -> bool:
    """Return whether files hold what was written; of a store's files only the sizes are compared.

    Args:
        parts: parts of one file or several.
    """
    for path, group in groupby(sorted(parts), attrgetter("path")):
        of_file = list(group)
        if file_size(path) < of_file[-1].offset + of_file[-1].length:
            return False
        if scheme_of(path) is None and not _are_read_intact(path, of_file):
            return False
    return True


def _are_read_intact(path: str, parts: Iterable[Part]) -> bool:
    with open_file(path) as stream:
        for part in parts:
            stream.seek(part.offset)
            if compute_checksum(stream.read(part.length)) != part.checksum:
                return False
    return True


def has_digest(path: str, size: int, sha256: str) -> bool:
    """Return whether a file has a size and, if it is on this machine, a SHA-256 in hexadecimal."""
    if file_size(path) != size:
        return False
    if scheme_of(path) is not None:
        return True
    try:
        return sum(map(len, read_blocks(path, sha256))) == size
    except DamagedFileError:
        return False


def read_blocks(path: str, sha256: str) -> Iterator[bytes]:
    """Yield a file in blocks, and compare it with its SHA-256.

    Raises:
        DamagedFileError: after the last block, if the bytes are not those that were written.
    """
    digest = hashlib.sha256()
    with open_file(path) as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
            yield block
    if digest.hexdigest() != sha256:
        raise explain_damage(path)


def seal(content: bytes) -> bytes:
    """Put the checksum of a small file before its content, in hexadecimal.

    Example:
        b"{}" becomes b"297bd0aa {}".
    """
    return b"%08x %s" % (compute_checksum(content), content)


def unseal(sealed: bytes, path: str) -> bytes:
    """Return the content of a small file, without the checksum before it.

    Args:
        sealed: what `seal` made.
        path: the file that the bytes were read from.

    Raises:
        DamagedFileError: the content does not have this checksum.
    """
    content = sealed[9:]
    if seal(content) != sealed:
        raise explain_damage(path)
    return content
