"""Tables that hold a text a row, as blocks that are decoded one by one: what each format gives."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import SEEK_CUR, SEEK_SET
from types import MappingProxyType
from typing import BinaryIO, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

# What is decoded whole, compressed or not, has at most so many bytes.
MAX_BLOCK_BYTES = 2**30
# About so much text is given at a time, in at most so many rows; the latter bounds the objects that
# are made of bad ones.
BATCH_BYTES = 2**20
MAX_BATCH_ROWS = 8192


class BadTableError(Exception):
    """A file or a block of it that cannot be read.

    Args:
        reason: one of the reasons of the README's table.
        detail: what was found.
    """

    def __init__(self, reason: str, detail: str) -> None:
        self.reason, self.detail = reason, detail
        super().__init__(reason, detail)


def too_large(num_bytes: int) -> BadTableError:
    """The error for a block that is not read, as it would have to be decoded whole."""
    detail = f"{num_bytes} bytes, of which at most {MAX_BLOCK_BYTES} are read at a time"
    return BadTableError("block-too-large", detail)


@dataclass(frozen=True)
class Block:
    """Rows that are stored together: a row group, a record batch, a block.

    Attributes:
        index: its number in the file.
        offset: its first byte in the file; not before that of the block in front.
        length: its own bytes, without what may lie between it and the next.
        rows: by the file's own account; 0 where that cannot be known.
        fault: why it is not read, where that is already known.
    """

    index: int
    offset: int
    length: int
    rows: int
    fault: BadTableError | None = None


class TextRows(NamedTuple):
    """Rows of the text field that follow each other, at most MAX_BATCH_ROWS.

    Attributes:
        texts: pa.large_binary, not yet checked to be UTF-8; null where there is no text.
        kinds: what stands there instead, by its row in `texts`; rows not listed hold null.
    """

    texts: pa.Array
    kinds: Mapping[int, str] = MappingProxyType({})


class Table(Protocol):
    """A file that was opened."""

    @property
    def fields(self) -> Mapping[str, str]:
        """The type of each field in words, by its name."""
        ...

    @property
    def text_fields(self) -> tuple[str, ...]:
        """Names of those that hold text."""
        ...

    def blocks(self) -> Iterator[Block]:
        """All blocks in the order of the file, without reading their rows."""
        ...

    def texts(self, block: Block) -> Iterator[TextRows]:
        """The rows of a block in their order, in pieces of bounded size.

        Raises:
            BadTableError: from where on it is damaged, or that it is too large.
        """
        ...


class TableStream:
    """A seekable file, noting its own errors so that they are not taken for damage.

    Args:
        raw: the file; it stays open.
    """

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.error: Exception | None = None
        self.closed = False  # asked for by Arrow

    def read(self, size: int = -1) -> bytes:
        """As of any file."""
        try:
            return self._raw.read(size)
        except Exception as error:
            self.error = error
            raise

    def read_into(self, buffer: memoryview, offset: int) -> None:
        """Fill a buffer with the file's bytes from an offset on.

        Raises:
            EOFError: the file ends before.
        """
        self.seek(offset)
        filled = 0
        while filled < len(buffer):
            data = self.read(min(len(buffer) - filled, 2**24))
            if not data:
                raise EOFError("the file ends before")
            buffer[filled : filled + len(data)] = data
            filled += len(data)

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        """As of any file."""
        try:
            return self._raw.seek(offset, whence)
        except Exception as error:
            self.error = error
            raise

    def tell(self) -> int:
        """As of any file."""
        return self.seek(0, SEEK_CUR)

    def close(self) -> None:
        """Nothing: the file is its opener's."""

    @contextmanager
    def damage_is(self, reason: str) -> Iterator[None]:
        """Make what a decoder raises a BadTableError, but not what the file itself raised."""
        try:
            yield
        except (BadTableError, MemoryError):
            raise
        except Exception as error:  # decoders raise nearly anything when they meet garbage
            if self.error:
                raise self.error from None
            raise BadTableError(reason, f"{type(error).__name__}: {error}") from None


def is_text_type(of: pa.DataType) -> bool:
    """Whether a column may hold text: strings, or bytes that are then checked, maybe encoded.

    Example:
        string, large_binary and dictionary<values=string> may; int64 and list<string> may not.
    """
    if pa.types.is_dictionary(of):
        return is_text_type(of.value_type)
    return of in _AS_BINARY or of in _AS_BINARY.values()


_AS_BINARY = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}


def _as_large_binary(texts: pa.Array) -> pa.Array:
    # Arrow takes the offsets and the UTF-8 of what it reads on trust. Seen as bytes, the offsets
    # alone are checked.
    viewed = texts.view(_AS_BINARY.get(texts.type, texts.type))
    viewed.validate(full=True)
    return viewed.cast(pa.large_binary())


def lengths_of(texts: pa.Array) -> np.ndarray:
    """Bytes of each text of a pa.large_binary array, int64; those of a null may be any number."""
    offsets = np.frombuffer(texts.buffers()[1] or bytes(8), np.int64)
    return np.diff(offsets[texts.offset : texts.offset + len(texts) + 1])


def cut_texts(texts: pa.Array) -> Iterator[TextRows]:
    """Cut a column into pieces of about a megabyte.

    Args:
        texts: of a type for which `is_text_type` is true, straight from a file.

    Yields:
        Pieces of 1 to MAX_BATCH_ROWS rows and BATCH_BYTES of text, unless one row alone has more.

    Raises:
        pa.ArrowInvalid: offsets or indices lie outside of what they point into.
    """
    column = texts
    if pa.types.is_dictionary(texts.type):
        values = _as_large_binary(texts.dictionary)
        column = pa.DictionaryArray.from_arrays(texts.indices, values, safe=True)
        lengths = lengths_of(values)[texts.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    else:
        column = _as_large_binary(texts)
        lengths = lengths_of(column)
    ends = np.cumsum(lengths)
    at = 0
    while at < len(ends):
        before = ends[at] - lengths[at]
        stop = int(np.searchsorted(ends, before + BATCH_BYTES, "right"))
        stop = min(max(stop, at + 1), at + MAX_BATCH_ROWS)
        part = column.slice(at, stop - at)
        yield TextRows(part if part.type == pa.large_binary() else part.dictionary_decode())
        at = stop
