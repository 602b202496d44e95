"""Tables with one text in each row, read block by block: what each format implements."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import SEEK_CUR, SEEK_SET
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.corpus.batches import UnreadableError
from corpusmill.corpus.decompression import SourceStream
from corpusmill.corpus.records.documents import MAX_BATCH_ROWS

# The most bytes that are decoded at once, compressed or not.
MAX_BLOCK_BYTES = 2**30
# About this much text is yielded at a time.
BATCH_BYTES = 2**20


def too_large(num_bytes: int, limit: int | None = None) -> UnreadableError:
    """Make the error for a block that is not read, as it would have to be decoded at once."""
    detail = f"{num_bytes} bytes, above the limit of {limit or MAX_BLOCK_BYTES} for a block"
    return UnreadableError("block-too-large", detail)


@dataclass(frozen=True)
class Block:
    """Rows that are stored together: a row group, a record batch, a block.

    Attributes:
        index: its number in the file.
        offset: its first byte in the file; never before that of the previous block.
        length: its own bytes, without what may lie between it and the next block.
        rows: as many as the file declares; 0 if that cannot be known.
        fault: why it cannot be read, if that is already known.
    """

    index: int
    offset: int
    length: int
    rows: int
    fault: UnreadableError | None = None


class TextRows(NamedTuple):
    """Rows of the text field that follow each other, at most MAX_BATCH_ROWS.

    Attributes:
        texts: pa.large_binary, not yet checked to be UTF-8; null where there is no text.
        kinds: what a row without text holds, by its index in `texts`; null if it is not listed.
    """

    texts: pa.Array
    kinds: Mapping[int, str] = MappingProxyType({})


class Table(Protocol):
    """An open file."""

    @property
    def fields(self) -> Mapping[str, str]:
        """The type of each field in words, by its name."""

    @property
    def text_fields(self) -> tuple[str, ...]:
        """The names of the fields that hold text."""

    def blocks(self) -> Iterator[Block]:
        """Yield all blocks in the order of the file, without reading their rows."""

    def texts(self, block: Block) -> Iterator[TextRows]:
        """Yield the rows of a block in their order, in pieces of bounded size.

        Raises:
            UnreadableError: it is damaged from here on, or too large.
        """


class TableStream(SourceStream):
    """A seekable file that keeps its own errors, so that they are not taken for damage.

    Args:
        raw: the file; it stays open.
    """

    def read_at(self, offset: int, size: int) -> bytes:
        """Read up to size bytes from an offset on."""
        self.seek(offset)
        return self.read(size)

    def read_into(self, buffer: memoryview, offset: int) -> None:
        """Fill a buffer with the file's bytes from an offset on.

        Raises:
            EOFError: the file ends too early.
        """
        self.seek(offset)
        filled = 0
        while filled < len(buffer):
            data = self.read(min(len(buffer) - filled, 2**24))
            if not data:
                raise EOFError("the file ends too early")
            buffer[filled : filled + len(data)] = data
            filled += len(data)

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        """Seek as any file does."""
        try:
            return self._raw.seek(offset, whence)
        except Exception as error:
            self.error = error
            raise

    def tell(self) -> int:
        """Return the position as any file does."""
        return self.seek(0, SEEK_CUR)

    def close(self) -> None:
        """Do nothing: whoever opened the file closes it."""

    @contextmanager
    def damage_is(self, reason: str) -> Iterator[None]:
        """Turn a decoder's error into an UnreadableError, but not one of the file itself."""
        try:
            yield
        except (UnreadableError, MemoryError):
            raise
        except Exception as error:  # decoders raise nearly anything when they meet garbage
            if self.error:
                raise self.error from None
            raise UnreadableError(reason, f"{type(error).__name__}: {error}") from None


def is_text_type(kind: pa.DataType) -> bool:
    """Whether a column may hold text: strings, or bytes to be checked, perhaps as a dictionary.

    Example:
        string, large_binary and dictionary<values=string> may; int64 and list<string> may not.
    """
    if pa.types.is_dictionary(kind):
        return is_text_type(kind.value_type)
    return kind in _AS_BINARY or kind in _AS_BINARY.values()


_AS_BINARY = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}


def _as_large_binary(texts: pa.Array) -> pa.Array:
    # Arrow trusts the offsets and the UTF-8 of what it reads. Viewed as bytes, only the offsets
    # are checked.
    viewed = texts.view(_AS_BINARY.get(texts.type, texts.type))
    viewed.validate(full=True)
    return viewed.cast(pa.large_binary())


def lengths_of(texts: pa.Array) -> npt.NDArray[np.int64]:
    """Return int64[n], the bytes of each text of pa.large_binary; any number for a null."""
    offsets = np.frombuffer(texts.buffers()[1] or bytes(8), np.int64)
    return np.diff(offsets[texts.offset : texts.offset + len(texts) + 1])


def slice_texts(texts: pa.Array) -> Iterator[TextRows]:
    """Cut a column into pieces of about a megabyte.

    Args:
        texts: a column straight from a file, of a type for which `is_text_type` is true.

    Yields:
        Pieces of 1 to MAX_BATCH_ROWS rows and BATCH_BYTES of text, unless one row alone has more.

    Raises:
        pa.ArrowInvalid: offsets or indices point outside of their target.
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
    position = 0
    while position < len(ends):
        before = ends[position] - lengths[position]
        stop = int(np.searchsorted(ends, before + BATCH_BYTES, "right"))
        stop = min(max(stop, position + 1), position + MAX_BATCH_ROWS)
        part = column.slice(position, stop - position)
        yield TextRows(part if part.type == pa.large_binary() else part.dictionary_decode())
        position = stop
