"""Bytes that are compared with a checksum when they are read: a disk may lose what it was given.

The checksum is CRC-32C, for which processors have an instruction: a few gigabytes a second.
"""

import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from operator import attrgetter
from typing import Any, BinaryIO, Self

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.dataset.ownership import delete_temporary
from corpusmill.errors import UserError, option
from corpusmill.location import scheme_of
from transforms.elements import Part
from transforms.storage.file_systems import split_path
from transforms.storage.files import (
    create_file,
    file_size,
    locate,
    open_file,
    read_part,
    write_file,
)


@dataclass(frozen=True)
class StoredFile:
    """A file whose content is compared with its digest when it is read.

    Attributes:
        path: the file, which every worker can read.
        sha256: its hexadecimal digest.
    """

    path: str
    sha256: str

    @classmethod
    def write(cls, path: str, content: bytes) -> Self:
        """Write the file."""
        write_file(path, content)
        return cls(path, sha256(content).hexdigest())

    def read(self) -> bytes:
        """Read the file.

        Raises:
            DamagedFileError: it is damaged.
        """
        return b"".join(read_blocks(self.path, self.sha256))


_BLOCK_BYTES = 2**20
# CRC-32C's polynomial, with the coefficient of x**31 in the lowest bit.
_POLYNOMIAL = 0x82F63B78
# x**8, which shifts by a byte.
_BYTE = 1 << 23


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

    def write(self, data: Any) -> int:
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
            part = data[self._next - begin : limit]
            self._checksum = google_crc32c.extend(self._checksum, part)
            self._next += len(part)
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


def join_checksums(
    checksums: npt.NDArray[np.uint32],
    lengths: npt.NDArray[np.int64],
    firsts: npt.NDArray[np.int64],
) -> npt.NDArray[np.uint32]:
    """Return the CRC-32C of files, from those of their parts.

    The checksum of a part, times x to the power of the number of bits that follow the part, is its
    share in that of the file. Source: crc32_combine_ of zlib's crc32.c.

    Args:
        checksums: uint32[parts], the parts of one file after the other, in their order.
        lengths: int64[parts], their numbers of bytes.
        firsts: int64[files], the position of the first part of each file.

    Returns:
        uint32[files].
    """
    ends, borders = np.cumsum(lengths), np.append(firsts, len(lengths))
    following = np.repeat(ends[borders[1:] - 1], np.diff(borders)) - ends
    shares, power = checksums.copy(), _BYTE
    for bit in range(int(following.max()).bit_length()):
        chosen = np.flatnonzero(following >> bit & 1)
        shares[chosen] = _multiply(shares[chosen], power)
        power = int(_multiply(np.array([power], np.uint32), power)[0])
    joined: npt.NDArray[np.uint32] = np.bitwise_xor.reduceat(shares, firsts)
    return joined


def _multiply(values: npt.NDArray[np.uint32], factor: int) -> npt.NDArray[np.uint32]:
    """Return the products of polynomials over GF(2) and a factor, modulo the polynomial."""
    products = np.zeros(len(values), np.uint32)
    for byte in range(3, -1, -1):
        table = np.zeros(1, np.uint32)
        # The highest bit is the coefficient of 1.
        for _ in range(8):
            table = np.stack([table, table ^ np.uint32(factor)], axis=1).ravel()
            factor = factor >> 1 ^ (_POLYNOMIAL if factor & 1 else 0)
        products ^= table[values >> np.uint32(8 * byte) & np.uint32(255)]
    return products


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
        folder, name = split_path(path)
        delete_temporary(locate(folder), [name])
    return DamagedFileError(
        path,
        "the file does not hold the bytes that were written, as after a power failure or on a "
        "failing disk",
        f"Run the same command with {option('resume', True)}, which makes the file anew",
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
        if scheme_of(path) is None:
            with open_file(path) as stream:
                for part in of_file:
                    stream.seek(part.offset)
                    if compute_checksum(stream.read(part.length)) != part.checksum:
                        return False
    return True


def has_digest(path: str, size: int, digest: str) -> bool:
    """Return whether a file has a size and, if it is on this machine, a SHA-256 in hexadecimal."""
    if file_size(path) != size:
        return False
    if scheme_of(path) is not None:
        return True
    try:
        return sum(map(len, read_blocks(path, digest))) == size
    except DamagedFileError:
        return False


def read_blocks(path: str, digest: str) -> Iterator[bytes]:
    """Yield a file in blocks, and compare it with its SHA-256 in hexadecimal.

    Raises:
        DamagedFileError: after the last block, if the bytes are not those that were written.
    """
    computed = sha256()
    with open_file(path) as stream:
        while block := stream.read(_BLOCK_BYTES):
            computed.update(block)
            yield block
    if computed.hexdigest() != digest:
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
    if not is_sealed(sealed):
        raise explain_damage(path)
    return sealed[9:]


def is_sealed(content: bytes) -> bool:
    """Return whether `seal` has made these bytes."""
    return seal(content[9:]) == content
