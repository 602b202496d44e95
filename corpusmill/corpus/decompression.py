"""Compressed input files as byte streams; damage is kept apart from a failing disk or network.

A file is decompressed if it begins as compressed files do. Its name counts where its beginning is
neither that nor text: it is damaged then.
"""

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO
from typing import BinaryIO, cast

import pyarrow as pa

from corpusmill.corpus.content import find_compression, find_container, is_plain
from corpusmill.knobs import knob

COMPRESSED_STEP = knob("compressed_step", 2**14, test=100)
"""The bytes of a compressed file that are read at a time."""
TEXT_STEP = knob("text_step", 2**15, test=150)
"""The text that is decompressed at a time: little, as damage costs the text of a step."""
ARROW_STEP = knob("arrow_step", 2**12, test=120)
"""The text that Arrow decompresses at a time, of Zstandard and LZ4, for the same reason."""


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

    def __init__(self, new_decompressor: Callable[[], _Decompressor], source: SourceStream) -> None:
        self._source, self._new_decompressor = source, new_decompressor
        self._decompressor = new_decompressor()
        self._next_input = b""

    def read(self) -> bytes:
        """Read some text; none at the end of the last member."""
        while not self._decompressor.eof or self._start_next_member():
            data, self._next_input = self._next_input, b""
            exhausted = False
            if not data and self._decompressor.needs_input:
                data = self._source.read(COMPRESSED_STEP)
                exhausted = not data
            if text := self._decompressor.decompress(data, TEXT_STEP):
                return text
            if exhausted:
                raise EOFError("the file ends before its compressed data does")
        return b""

    def _start_next_member(self) -> bool:
        """Start the member that follows; return false if only zeros (padding) or nothing does."""
        data = self._decompressor.unused_data.lstrip(b"\0")
        while not data:
            if not (block := self._source.read(COMPRESSED_STEP)):
                return False
            data = block.lstrip(b"\0")
        self._decompressor, self._next_input = self._new_decompressor(), data
        return True


class _Frames:
    """Reads the frames of a Zstandard or LZ4 file with Arrow's decoder."""

    def __init__(self, codec: str, source: SourceStream) -> None:
        self._source = source
        self._stream = pa.CompressedInputStream(pa.PythonFile(source, mode="r"), codec)

    def read(self) -> bytes:
        """Read some text; none at the end of the last frame."""
        text = self._stream.read(ARROW_STEP)
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

    def peek(self, size: int) -> bytes:
        """Return the first bytes that have not been read, and leave them unread."""
        while len(self._text) < size and (part := self._decode()):
            self._text += part
        return self._text[:size]

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
_DECODERS: dict[str, Callable[[SourceStream], _Members | _Frames]] = {
    ".gz": partial(_Members, _GzipDecompressor),
    ".bz2": partial(_Members, bz2.BZ2Decompressor),
    ".xz": partial(_Members, _new_xz),
    ".zst": partial(_Frames, "zstd"),
    ".lz4": partial(_Frames, "lz4"),
}
# The suffixes of compressed tar archives.
_TAR_SUFFIXES = {".tgz": ".gz", ".tbz2": ".bz2", ".txz": ".xz", ".tzst": ".zst"}
COMPRESSED_SUFFIXES = (*_DECODERS, *_TAR_SUFFIXES)
# Enough for the marks of compressed files and of tar archives.
_MARK_BYTES = 512
# What is judged of a file's text, and of one whose first line tells its format only by its end.
HEAD_BYTES, LINE_HEAD_BYTES = 2**16, 2**24


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


def compression_of(head: bytes, path: str) -> str:
    r"""Return the suffix of a file's compression, or nothing if it has none.

    Args:
        head: its first bytes, 512 or all.
        path: its path, whose suffix counts if the bytes are neither compressed nor text.

    Example:
        b"a line" is not compressed, whatever its name is; b"\x1f\x8b" at the beginning of "a.gz"
        is damaged gzip.
    """
    if (suffix := find_compression(head)) or not is_compressed(path):
        return suffix
    if head and (find_container(head) or is_plain(head)):
        return ""
    suffix = path[path.rindex(".") :].lower()
    return _TAR_SUFFIXES.get(suffix, suffix)


def open_decompressed(raw: BinaryIO, path: str) -> BinaryIO:
    """Open the text of a file that is compressed if its first bytes say so.

    Members (gz, bz2, xz) or frames (zst, lz4) that follow each other are read to the last one, with
    a bounded amount in memory. A file without compression is returned as it is, or as its bytes
    if it is small.

    Args:
        raw: the file, seekable, at its beginning; closed with the returned stream.
        path: its path, for the suffix.

    Returns:
        A stream whose `read` raises DamagedStreamError where the file is truncated or corrupt,
        after it returned the text before that place. Errors of raw itself pass through unchanged.
    """
    head = read_fully(raw, _MARK_BYTES)
    if suffix := compression_of(head, path):
        raw.seek(0)
        source = SourceStream(raw)
        return cast(BinaryIO, _DecompressedStream(source, _DECODERS[suffix](source)))
    head += read_fully(raw, HEAD_BYTES - len(head))
    if len(head) < HEAD_BYTES:  # whoever reads it looks at its beginning once more, and seeks
        return BytesIO(head)
    raw.seek(0)
    return raw


def is_decompressed(stream: BinaryIO) -> bool:
    """Whether a stream of `open_decompressed` is the text of a compressed file."""
    return isinstance(stream, _DecompressedStream)


class ReturnReader(io.RawIOBase):
    """A text whose lines end with carriage returns alone, with newlines in their places.

    Args:
        stream: the text, decompressed.
    """

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as any file does."""
        return self._stream.read(-1 if size is None else size).replace(b"\r", b"\n")

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Change the position as any file does."""
        return self._stream.seek(offset, whence)

    def peek(self, size: int) -> bytes:
        """Return the first bytes, and leave them unread."""
        return peek(self._stream, size).replace(b"\r", b"\n")


def peek(stream: BinaryIO, size: int) -> bytes:
    """Return the first bytes of a stream of `open_decompressed`, which stays at its beginning."""
    if isinstance(stream, _DecompressedStream | ReturnReader):
        return stream.peek(size)
    head = read_fully(stream, size)
    stream.seek(0)
    return head


def read_fully(stream: BinaryIO, size: int) -> bytes:
    """Read the next bytes of a stream whose single reads may be short."""
    parts = []
    while size > 0 and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
