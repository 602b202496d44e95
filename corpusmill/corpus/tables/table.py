"""Tables with one text in each row, read block by block: what each format implements."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import SEEK_END, SEEK_SET
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.corpus.batches import UnreadableError
from corpusmill.corpus.decompression import SourceStream
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.records.nested_fields import Members, find_field, name_fields
from corpusmill.corpus.records.record_documents import make_text_bytes
from corpusmill.corpus.tables.record_values import (
    column_to_text,
    is_json_type,
    take_strings,
    to_values,
)
from corpusmill.errors import UserError
from corpusmill.knobs import knob

NESTED_BYTES = knob("nested_bytes", 2**25)
"""The values of other types than text that are decoded at once; they become objects of Python,
which take ten times their bytes."""
DECODED_BYTES = knob("decoded_bytes", 2**20, test=500)
"""The rows of a block that are decoded at once, about; complete steps of a damaged block are
kept."""
DECODED_ROWS = knob("decoded_rows", 8192, test=7)
"""The most rows that are decoded at once, which bounds the objects of Python made of them."""


def too_large(num_bytes: int, limit: int) -> UnreadableError:
    """Make the error for a block that is not read, as it would have to be decoded at once."""
    detail = f"{num_bytes} bytes, above the limit of {limit} for a block"
    return UnreadableError("block-too-large", detail)


@dataclass(frozen=True)
class Block:
    """Rows that are stored together: a row group, a record batch, a block.

    Attributes:
        offset: its first byte in the file; never before that of the previous block.
        length: its own bytes, without what may lie between it and the next block.
        rows: as many as the file declares; 0 if that cannot be known.
        texts: yields its rows in their order, in pieces of bounded size, with kept fields; raises
            UnreadableError where it is damaged from there on, or too large.
    """

    offset: int
    length: int
    rows: int
    texts: "Callable[[], Iterator[TextRows]]"


def lost_block(start: int, size: int, error: UnreadableError) -> Block:
    """Make a block of what cannot be read of a file, from some byte to its end.

    Args:
        start: the byte.
        size: the bytes of the file.
        error: why it cannot be read.
    """

    def texts() -> Iterator[TextRows]:
        raise error

    start = min(start, size - 1)
    return Block(start, size - start, 0, texts)


class TextRows(NamedTuple):
    """Rows of the text field that follow each other, at most `DECODED_ROWS`.

    Attributes:
        texts: pa.large_binary, not yet checked to be UTF-8; null where there is no text.
        kinds: what a row without text holds, by its index in `texts`; null if it is not listed.
            Where texts are made, the reason and the detail for which a row is refused.
        fields: the kept fields of these rows, each as pa.string, and what is judged of them.
    """

    texts: pa.Array
    kinds: Mapping[int, Any] = MappingProxyType({})
    fields: tuple[pa.Array, ...] = ()


class Fields:
    """The fields of a table, and which ones of them are read.

    Args:
        row: the type of a row.
        options: with the names of the text field and of the kept fields.
        members: returns the fields inside a type.
        is_text: whether a type may hold text.
        in_words: returns a type as it stands in messages.

    Attributes:
        text: the field of the text; None if there is none of that name.
        kept: the kept fields; None for each that there is not.
        parts: the fields of which texts are made, by name; the first of them is `text`.
        judged: the names of the fields that are judged.
        options: those given.

    Raises:
        UnreadableError: one of these names is that of several fields.
    """

    def __init__(
        self,
        row: Any,
        options: DocumentOptions,
        members: Members,
        is_text: Callable[[Any], bool],
        in_words: Callable[[Any], str] = str,
    ) -> None:
        self._row, self._members, self._is_text, self._in_words = row, members, is_text, in_words
        self.kept = [find_field(row, name, members) for name in options.keep_fields]
        self.options, maker = options, options.text_maker
        parts = {name: find_field(row, name, members) for name in maker.fields} if maker else {}
        self.parts = {name: found for name, found in parts.items() if found}
        names = [name for name, _ in members(row)]
        self.judged = options.judge.choose(names) if options.judge else []
        found = find_field(row, options.text_field, members)
        self.text = next(iter(self.parts.values()), None) if maker else found

    @property
    def others(self) -> tuple[str, ...]:
        """The names of the fields that are not read."""
        read = {path[0] for path in self.paths}
        return tuple(name for name, _ in self._members(self._row) if name not in read)

    @property
    def paths(self) -> list[tuple[str, ...]]:
        """The names that lead to each field that is read, first to that of the text, if any."""
        texts = (self.text, *list(self.parts.values())[1:])
        found = [field.path for field in (*texts, *self.kept) if field]
        return [*found, *((name,) for name in self.judged)]

    @property
    def held(self) -> str:
        """What the field of the text holds, in words; "" if that may be text."""
        if self.text is None or self.parts or self._is_text(self.text.kind):
            return ""
        return self._in_words(self.text.kind)

    def names(self, with_text: bool = False) -> Iterator[str]:
        """Yield the names of all fields, or of those that hold text."""
        for name, kind in name_fields(self._row, self._members):
            if not with_text or self._is_text(kind):
                yield name


def _members_of(kind: pa.DataType | pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    if isinstance(kind, pa.Schema) or pa.types.is_struct(kind):
        yield from ((field.name, field.type) for field in kind)


def fields_of_schema(schema: pa.Schema, options: DocumentOptions) -> Fields:
    """Return the fields of a table that Arrow reads."""
    return Fields(schema, options, _members_of, lambda k: is_text_type(k) or is_json_type(k))


def slice_batch(batch: pa.RecordBatch, fields: Fields) -> Iterator[TextRows]:
    """Cut the columns of a batch that are read into pieces, or make texts of them.

    Args:
        batch: with these columns at least, straight from a file.
        fields: with a field of text.
    """
    judged, start = _take_judged(batch, fields) if fields.options.judge else None, 0
    for rows in _slice_rows(batch, fields):
        own = () if judged is None else (judged.slice(start, len(rows.texts)),)
        yield rows._replace(fields=(*rows.fields, *own))
        start += len(rows.texts)


def _take_judged(batch: pa.RecordBatch, fields: Fields) -> pa.Array:
    """Return the fields that are judged, checked, as a struct."""
    columns = {name: _check_values(batch.column(name)) for name in fields.judged}
    # Without a column, a struct would have no rows.
    columns = columns or {"": pa.nulls(batch.num_rows)}
    return pa.StructArray.from_arrays([*columns.values()], [*columns])


def _check_values(column: pa.Array) -> pa.Array:
    """Return a column without a dictionary; what is not UTF-8 in texts is replaced."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if kind in _AS_BINARY:
        return column_to_text(_decode(_check_texts(column)[0]))
    column.validate(full=True)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _slice_rows(batch: pa.RecordBatch, fields: Fields) -> Iterator[TextRows]:
    kept = [found and _take_column(batch, found.path) for found in fields.kept]
    if fields.parts:
        columns = [_take_column(batch, found.path) for found in fields.parts.values()]
        records = pa.StructArray.from_arrays(columns, [*fields.parts])
        records.validate(full=True)
        checked = [None if each is None else _check_texts(each)[0] for each in kept]
        step = max(1, DECODED_BYTES * len(records) // max(1, records.nbytes))
        for start in range(0, len(records), step):
            texts = [*_make_texts(records.slice(start, step), fields)]
            yield to_rows(texts, _keep_columns(checked, start, len(texts)))
        return
    assert fields.text  # noqa: S101  so the caller has it
    yield from slice_texts(_take_column(batch, fields.text.path), kept)


def _make_texts(records: pa.StructArray, fields: Fields) -> Iterator[bytes | UnreadableError]:
    """Yield the text of each record, or why it has none; one alone may be too large."""
    if records.nbytes <= NESTED_BYTES:
        for record in to_values(records):
            yield make_text_bytes(record, fields.options, fields.others)
    elif len(records) == 1:
        detail = f"{records.nbytes} bytes, above the limit of {NESTED_BYTES} for a record"
        yield UnreadableError("record-too-long", detail)
    else:
        for row in range(len(records)):
            yield from _make_texts(records.slice(row, 1), fields)


def _keep_columns(
    columns: Sequence[pa.Array | None], start: int, rows: int
) -> tuple[pa.Array, ...]:
    """Return some rows of columns that are kept, which `_check_texts` has checked, as text."""
    return tuple(
        pa.nulls(rows, pa.string())
        if column is None
        else column_to_text(_decode(column.slice(start, rows)))
        for column in columns
    )


def to_rows(values: list[Any], kept: Sequence[pa.Array]) -> TextRows:
    """Return rows.

    Args:
        values: what each holds, text or not, or why no text is made of it; changed.
        kept: the kept fields of these, each as pa.string.
    """
    kinds = dict[int, Any]()
    try:
        return TextRows(pa.array(values, pa.large_binary()), fields=(*kept,))
    except (pa.ArrowException, TypeError, ValueError):
        for index, value in enumerate(values):
            if isinstance(value, str):
                values[index] = value.encode("utf-8", "surrogateescape")
            elif isinstance(value, UnreadableError):
                values[index], kinds[index] = None, (value.reason, value.detail)
            elif not (value is None or isinstance(value, bytes)):
                values[index], kinds[index] = None, f"a value of type {type(value).__name__}"
    return TextRows(pa.array(values, pa.large_binary()), kinds, (*kept,))


def _take_column(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    column = batch.column(path[0])
    for name in path[1:]:
        column.validate()  # what is inside may be shorter than it says
        # Unlike `field`, this gives null where what is around it is null.
        column = column.flatten()[column.type.get_field_index(name)]
    return column


class Table(Protocol):
    """An open file."""

    @property
    def fields(self) -> "Fields":
        """Its fields."""

    def blocks(self) -> Iterator[Block]:
        """Yield all blocks in the order of the file; the last one has what cannot be read of it."""


class TableStream(SourceStream):
    """A seekable file that keeps its own errors, so that they are not taken for damage.

    Args:
        raw: the file; it stays open.

    Attributes:
        size: its bytes.
        lowest: the lowest offset that was sought since someone set it.
    """

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__(raw)
        self.lowest = 0
        self.size = self.lowest = self.seek(0, SEEK_END)

    def read(self, size: int = -1) -> bytes:
        """Read as any file does, without reserving memory for what a damaged length claims."""
        rest = self.size - self.tell()
        return super().read(rest if size < 0 else min(size, rest))

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        """Seek as any file does."""
        try:
            position = self._raw.seek(offset, whence)
        except Exception as error:
            self.error = error
            raise
        self.lowest = min(self.lowest, position)
        return position

    def tell(self) -> int:
        """Return the position as any file does."""
        return self._raw.tell()

    def close(self) -> None:
        """Do nothing: whoever opened the file closes it."""

    @contextmanager
    def damage_is(self, reason: str) -> Iterator[None]:
        """Turn a decoder's error into an UnreadableError, but not one of the file itself."""
        try:
            yield
        except (UnreadableError, UserError):
            raise
        except Exception as error:  # decoders raise nearly anything when they meet garbage
            # Arrow asks for as much memory as a damaged length claims.
            if isinstance(error, MemoryError) and not isinstance(error, pa.ArrowMemoryError):
                raise
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


def lengths_of(texts: pa.Array) -> npt.NDArray[np.integer]:
    """Return integers[n], the bytes of each text; any number for a null.

    Args:
        texts: pa.large_binary or pa.string, or structs, which have no texts.
    """
    if pa.types.is_struct(texts.type):
        return np.zeros(len(texts), np.int64)
    dtype = np.int32 if pa.types.is_string(texts.type) else np.int64
    offsets = np.frombuffer(texts.buffers()[1] or bytes(8), dtype)
    return np.diff(offsets[texts.offset : texts.offset + len(texts) + 1])


def slice_texts(texts: pa.Array, kept: Sequence[pa.Array | None]) -> Iterator[TextRows]:
    """Cut a column, and the columns that are kept beside it, into pieces of about a megabyte.

    Args:
        texts: a column straight from a file, of JSON or a type for which `is_text_type` is true.
        kept: columns of any type, with as many rows; None for one that the file does not have.

    Yields:
        Pieces of one or more rows: few, and of few bytes unless one row alone has more.

    Raises:
        pa.ArrowInvalid: offsets or indices point outside of their target, or a text in a nested
            value is not UTF-8.
        UnreadableError: a value is too large to be decoded.
    """
    is_json = is_json_type(texts.type)
    column, lengths = _check_texts(texts.storage if is_json else texts)
    fields = [None if each is None else _check_texts(each) for each in kept]
    ends = np.cumsum(sum((field[1] for field in fields if field), lengths))
    columns = [field and field[0] for field in fields]
    before = position = 0
    while position < len(ends):
        stop = int(np.searchsorted(ends, before + DECODED_BYTES, "right"))
        stop = min(max(stop, position + 1), position + DECODED_ROWS)
        part = _decode(column.slice(position, stop - position))
        part, kinds = take_strings(part) if is_json else (part, {})
        yield TextRows(part, kinds, _keep_columns(columns, position, stop - position))
        before, position = ends[stop - 1], stop


def _check_texts(column: pa.Array) -> tuple[pa.Array, npt.NDArray[np.integer]]:
    """Check a column; return it, with text as pa.large_binary, and the bytes of each row.

    Raises:
        pa.ArrowInvalid: offsets or indices point outside of their target.
    """
    kind = column.type
    if is_text_type(kind) and pa.types.is_dictionary(kind):
        values = _as_large_binary(column.dictionary)
        checked = pa.DictionaryArray.from_arrays(column.indices, values, safe=True)
        places = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
        # A column of nulls has an empty dictionary.
        return checked, np.append(lengths_of(values), 0)[places]
    if is_text_type(kind):
        column = _as_large_binary(column)
        return column, lengths_of(column)
    column.validate(full=True)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column, np.full(len(column), column.nbytes // max(1, len(column)), np.int64)


def _decode(column: pa.Array) -> pa.Array:
    """Return a column without a dictionary.

    Raises:
        UnreadableError: a value is too large to be decoded.
    """
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    # What is no text becomes objects, and then text.
    if not is_text_type(column.type) and column.nbytes > NESTED_BYTES:
        raise too_large(column.nbytes, NESTED_BYTES)
    return column
