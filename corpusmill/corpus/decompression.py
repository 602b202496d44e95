"""Compressed input files as byte streams; damage is kept apart from a failing disk or network."""

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import BinaryIO, cast

import pyarrow as pa

from corpusmill.limits import LIMITS, RefusalLimits


class DamagedStreamError(Exception):
    """A compressed file is truncated, or its bytes do not follow its format."""


class _GzipDecompressor:
    """zlib's decoder of one gzip member, with the interface that those of bz2 and lzma share."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def needs_input(self) -> bool:
        return not self._decoder.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._decoder.decompress(self._decoder.unconsumed_tail + data, max_length)


_Decompressor = _GzipDecompressor | bz2.BZ2Decompressor | lzma.LZMADecompressor


class SourceStream:
    """An input file that keeps its own errors, so that they are not taken for damage.

    Args:
        raw: the file.

    Attributes:
        error: the last one.
        is_empty: whether no byte was read.
        closed: false; Arrow reads this.
    """

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.error: Exception | None = None
        self.is_empty, self.closed = True, False

    def read(self, size: int = -1) -> bytes:
        """Read as any file does."""
        try:
            data = self._raw.read(size)
        except Exception as error:
            self.error = error
            raise
        self.is_empty = self.is_empty and not data
        return data

    def close(self) -> None:
        """Close the file."""
        self._raw.close()


class _Members:
    """Reads member after member to the end of a file.

    Bytes after a member that are neither a member nor padding are damage; the file classes of the
    standard library would skip them silently.
    """

    def __init__(
        self,
        new_decompressor: Callable[[], _Decompressor],
        source: SourceStream,
        limits: RefusalLimits,
    ) -> None:
        self._source, self._new_decompressor, self._limits = source, new_decompressor, limits
        self._decompressor = new_decompressor()
        self._next_input = b""

    def read(self) -> bytes:
        """Read some text; none at the end of the last member."""
        while not self._decompressor.eof or self._start_next_member():
            data, self._next_input = self._next_input, b""
            exhausted = False
            if not data and self._decompressor.needs_input:
                data = self._source.read(self._limits.compressed_step)
                exhausted = not data
            if text := self._decompressor.decompress(data, self._limits.text_step):
                return text
            if exhausted:
                raise EOFError("the file ends before its compressed data does")
        return b""

    def _start_next_member(self) -> bool:
        """Start the member that follows; return false if only zeros (padding) or nothing does."""
        data = self._decompressor.unused_data.lstrip(b"\0")
        while not data:
            if not (block := self._source.read(self._limits.compressed_step)):
                return False
            data = block.lstrip(b"\0")
        self._decompressor, self._next_input = self._new_decompressor(), data
        return True


class _Frames:
    """Reads the frames of a Zstandard file with Arrow's decoder."""

    def __init__(self, source: SourceStream, limits: RefusalLimits) -> None:
        self._source, self._step = source, limits.arrow_step
        self._stream = pa.CompressedInputStream(pa.PythonFile(source, mode="r"), "zstd")

    def read(self) -> bytes:
        """Read some text; none at the end of the last frame."""
        text = self._stream.read(self._step)
        if self._source.is_empty:
            raise EOFError("the file is empty")
        return cast(bytes, text)


class _DecompressedStream(io.RawIOBase):
    """The text of a compressed file, read forward only."""

    def __init__(self, source: SourceStream, decoder: _Members | _Frames) -> None:
        self._source, self._decoder = source, decoder
        self._text = b""
        self._damage: DamagedStreamError | None = None

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Read size bytes, fewer only at the end or before damage; all of them for -1 or None."""
        limit = 2**62 if size is None or size < 0 else size
        parts, count = [self._text], len(self._text)
        while count < limit and (part := self._decode()):
            parts.append(part)
            count += len(part)
        text = b"".join(parts)
        self._text = text[limit:]
        if self._damage and limit and not text:
            raise self._damage
        return text[:limit]

    def _decode(self) -> bytes:
        """Read some more text; none at the end, or at damage, which is then kept."""
        if self._damage:
            return b""
        try:
            return self._decoder.read()
        except (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError) as error:
            if self._source.error:
                raise self._source.error  # noqa: B904  the decoder only passed it through
            self._damage = DamagedStreamError(str(error))
            return b""

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()


_new_xz = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ)
# By the suffixes of compressed files, and of compressed tar archives.
_DECODERS: dict[tuple[str, str], Callable[[SourceStream, RefusalLimits], _Members | _Frames]] = {
    (".gz", ".tgz"): partial(_Members, _GzipDecompressor),
    (".bz2", ".tbz2"): partial(_Members, bz2.BZ2Decompressor),
    (".xz", ".txz"): partial(_Members, _new_xz),
    (".zst", ".tzst"): _Frames,
}
COMPRESSED_SUFFIXES = tuple(chain(*_DECODERS))


def is_compressed(path: str) -> bool:
    """Whether a path names a compressed file, by its suffix in lower or upper case."""
    return path.lower().endswith(COMPRESSED_SUFFIXES)


def has_suffix(name: str, suffixes: Sequence[str]) -> bool:
    """Whether a file's name ends with one of some suffixes, with or without its compression's.

    Example:
        "A.txt.gz" ends with ".txt" and with ".gz". Without suffixes every name is accepted.
    """
    wanted = tuple(suffix.lower() for suffix in suffixes)
    name = name.lower()
    bare = name.rpartition(".")[0] if is_compressed(name) else name
    return not wanted or name.endswith(wanted) or bare.endswith(wanted)


def open_decompressed(
    raw: BinaryIO, path: str, limits: RefusalLimits = LIMITS.refusals
) -> BinaryIO:
    """Open the text of a file that is compressed if its suffix says so.

    Members (gz, bz2, xz) or frames (zst) that follow each other are read to the last one, with a
    bounded amount in memory. A file without compression is returned as it is.

    Args:
        raw: the file's bytes, read forward only; closed with the returned stream.
        path: its path, for the suffix.
        limits: how much is read and decompressed at a time.

    Returns:
        A stream whose `read` raises DamagedStreamError where the file is truncated or corrupt,
        after it returned the text before that place. Errors of raw itself pass through unchanged.
    """
    for suffixes, new_decoder in _DECODERS.items():
        if path.lower().endswith(suffixes):
            source = SourceStream(raw)
            return cast(BinaryIO, _DecompressedStream(source, new_decoder(source, limits)))
    return raw
