"""A shard's columns as plain arrays in files, so that any row can be read without its neighbours.

Shards are compressed by thousands of rows. Whoever reads rows in another order would take apart
thousands for each; so a shard is taken apart once, into a folder with two files a list column and
one file a column of numbers, in the machine's own types and without headers:

    input_ids.values    input_ids.offsets (int64[rows + 1])    next_sentence_label.values
"""

import errno
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column, Role
from corpusmill.arrays.ragged import is_padded, matrix_of, row_lengths
from corpusmill.dataset.manifest import MANIFEST, Manifest, Shard
from corpusmill.dataset.shards import read_shard
from corpusmill.dataset.storage import Folder, UrlFolder
from corpusmill.errors import UserError
from corpusmill.reading.cache.row_checks import check_rows
from corpusmill.reading.rows import Lists, Values

_BATCH_ROWS = 8192
_BLOCK_BYTES = 2**22


def fetch_parts(
    folder: Folder, manifest: Manifest, shard: str, scratch: Path | None = None
) -> Folder:
    """Read the bytes of a shard once, compare them with the manifest, and say where they lie.

    Args:
        folder: of the data set.
        manifest: its manifest.
        shard: name of the shard.
        scratch: an empty folder for copies of files that are not on this machine; None makes none.

    Raises:
        DamagedError: a file is missing or has other bytes.
        UserError: it cannot be read now.
        OSError: a copy cannot be written.
    """
    entries = manifest.entries
    copied = scratch is not None and folder.local_path(shard) is None
    for name in manifest.parts(shard):
        digest, size, expected = hashlib.sha256(), 0, entries[name]
        with ExitStack() as files:
            copy = files.enter_context((scratch / name).open("wb")) if scratch and copied else None
            for block in _blocks(folder, name):
                digest.update(block)
                size += len(block)
                if size > expected.bytes:
                    break
                if copy:
                    copy.write(block)
        if size != expected.bytes:
            more = " and more" if size > expected.bytes else ""
            cause = f"it has {size:,} bytes{more}, {MANIFEST} says {expected.bytes:,}"
            raise damaged(folder, name, cause)
        if digest.hexdigest() != expected.sha256:
            raise damaged(folder, name, "its bytes are not those that were written")
    return UrlFolder(str(scratch)) if copied else folder


def _blocks(folder: Folder, name: str) -> Iterator[bytes]:
    local = folder.local_path(name)
    if local is not None and local.exists() and not local.is_file():
        raise damaged(folder, name, "it is no file")  # to open a pipe would wait for ever
    try:
        with folder.open(name) as stream:
            while block := stream.read(_BLOCK_BYTES):
                yield block
    except FileNotFoundError:
        raise damaged(folder, name, "the file is missing") from None
    except Exception as error:  # each filesystem has errors of its own
        if local is not None and getattr(error, "errno", 0) == errno.EIO:
            raise damaged(folder, name, f"the disk cannot read it ({error})") from error
        # The file may be whole, and others may be able to read it.
        cause = f"it cannot be read now ({getattr(error, 'strerror', None) or error})"
        cure = "Try again, or check the connection and the rights to read it"
        raise UserError(f"{folder.url}/{name}", cause, cure) from error


class DamagedError(UserError):
    """A file of a data set is missing, or not as it was written."""


def damaged(folder: Folder, name: str, cause: str) -> DamagedError:
    """What a shard that is not as the manifest says is refused with."""
    cure = 'Copy or build the data set again, or pass damaged="skip" to leave such shards out'
    return DamagedError(f"{folder.url}/{name}", cause, cure)


def unpack_shard(folder: Folder, manifest: Manifest, shard: Shard, target: Path) -> None:
    """Write the columns of a shard into an empty folder, and have the disk keep them.

    Args:
        folder: of the data set, or of a copy of the shard.
        manifest: of the data set.
        shard: its entry in the manifest.
        target: where the files go.

    Raises:
        ValueError: the shard is damaged, or its rows are not what the manifest says.
        OSError: the files cannot be written.
    """
    columns, vocab_size = manifest.columns, manifest.tokenizer.vocab_size
    longest = next(split.longest for split in manifest.splits.values() if shard in split.shards)
    rows = tokens = 0
    with ExitStack() as files:
        sinks = {column.name: _Sink(files.enter_context, target, column) for column in columns}
        for batch in _read(folder, manifest, shard.file):
            unpacked = unpack_batch(batch, columns)
            check_rows(unpacked, columns, vocab_size, longest)
            rows += batch.num_rows
            tokens += int(unpacked[columns[0].name].offsets[-1])  # type: ignore[union-attr]
            for name, values in unpacked.items():
                sinks[name].write(values)
        if (rows, tokens) != (shard.rows, shard.tokens):
            expected = f"{shard.rows:,} and {shard.tokens:,}"
            raise ValueError(f"it has {rows:,} rows and {tokens:,} tokens, not {expected}")
        for sink in sinks.values():
            sink.sync()


def _read(folder: Folder, manifest: Manifest, shard: str) -> Iterator[pa.RecordBatch]:
    try:
        yield from read_shard(folder, manifest, shard, _BATCH_ROWS)
    except Exception as error:  # each format has errors of its own
        raise ValueError(str(error)) from error


def unpack_batch(batch: pa.RecordBatch, columns: Sequence[Column]) -> dict[str, Values]:
    """The columns of a batch as arrays, without the padding of padded rows.

    Args:
        batch: rows as a shard has them.
        columns: what they are, the tokens first.

    Example:
        input_ids [[2, 9, 3, 0], [2, 3, 0, 0]], padded with 0, give Lists([2, 9, 3, 2, 3],
        [0, 3, 5]).
    """
    unpacked: dict[str, Values] = {}
    lengths: dict[Role | None, np.ndarray] = {}
    # The lists that others are aligned with come first.
    for column in sorted(columns, key=lambda column: column.role.aligned_with is not None):
        array = batch.column(column.name)
        if not is_padded(array):
            unpacked[column.name] = _plain(array)
            continue
        lengths[column.role] = _padded_lengths(array, column, lengths)
        unpacked[column.name] = _trim(array, lengths[column.role])
    return {column.name: unpacked[column.name] for column in columns}


def _padded_lengths(
    array: pa.Array, column: Column, lengths: Mapping[Role | None, np.ndarray]
) -> np.ndarray:
    """int64[rows]: how many values of each padded row are not padding."""
    aligned = column.role.aligned_with
    if aligned in lengths:
        return lengths[aligned]
    # Position 0 is never predicted and begins a row's first piece, so that a later 0 is padding.
    if column.role is Role.POSITIONS:
        return np.asarray((matrix_of(array) > 0).sum(axis=1))
    if column.role is Role.BOUNDARIES:
        return np.asarray((matrix_of(array) > 0).sum(axis=1) + 1)
    return row_lengths(array, column.pad)


def _plain(array: pa.Array) -> Values:
    if not pa.types.is_list(array.type):
        numbers: np.ndarray = array.to_numpy()
        return numbers
    values, offsets = ragged.from_arrow(array)
    return Lists(values[offsets[0] : offsets[-1]], (offsets - offsets[0]).astype(np.int64))


def _trim(array: pa.Array, lengths: np.ndarray) -> Lists:
    matrix = matrix_of(array)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Lists(matrix[np.arange(matrix.shape[1]) < lengths[:, None]], offsets)


class _Sink:
    """The files of one column.

    Args:
        enter: takes charge of closing a file.
        target: folder of the files.
        column: which one.
    """

    def __init__(self, enter: Any, target: Path, column: Column) -> None:
        self._dtype = np.dtype(column.dtype)
        self._values: BinaryIO = enter(values_path(target, column.name).open("wb"))
        self._offsets: BinaryIO | None = None
        self._end = 0
        if column.width:
            self._offsets = enter(offsets_path(target, column.name).open("wb"))
            self._offsets.write(np.zeros(1, np.int64).tobytes())

    def sync(self) -> None:
        """Have the disk keep what was written, so that a machine may stop at any moment."""
        for file in filter(None, (self._values, self._offsets)):
            file.flush()
            os.fsync(file.fileno())

    def write(self, rows: Values) -> None:
        """Append rows."""
        values = rows.values if isinstance(rows, Lists) else rows
        self._values.write(np.ascontiguousarray(values, self._dtype).data)
        if isinstance(rows, Lists) and self._offsets:
            self._offsets.write((rows.offsets[1:] + self._end).tobytes())
            self._end += int(rows.offsets[-1])


def values_path(folder: Path, column: str) -> Path:
    """The file of a column's values."""
    return folder / f"{column}.values"


def offsets_path(folder: Path, column: str) -> Path:
    """The file of where a column's lists begin."""
    return folder / f"{column}.offsets"


def map_shard(folder: Path, columns: tuple[Column, ...], rows: int) -> dict[str, Values] | None:
    """The columns of an unpacked shard, mapped into memory.

    Args:
        folder: where it was unpacked.
        columns: of the data set.
        rows: of the shard.

    Returns:
        None where files are missing or of other sizes, as after a machine has failed.
    """
    found: dict[str, Values] = {}
    for column in columns:
        dtype = np.dtype(column.dtype)
        try:
            if column.width:
                offsets = _map(offsets_path(folder, column.name), np.dtype(np.int64), rows + 1)
                length = int(offsets[-1])
                found[column.name] = Lists(
                    _map(values_path(folder, column.name), dtype, length), offsets
                )
            else:
                found[column.name] = _map(values_path(folder, column.name), dtype, rows)
        except (OSError, ValueError):
            return None
    return found


def _map(path: Path, dtype: np.dtype, length: int) -> np.ndarray:
    if path.stat().st_size != length * dtype.itemsize:
        raise ValueError(f"{path} was not written whole")
    if not length:
        return np.empty(0, dtype)
    # np.memmap keeps a file open for each mapping, of which a process may often have no more than
    # 1,024; and each slice of one costs microseconds.
    with pa.memory_map(str(path)) as file:
        return np.frombuffer(file.read_buffer(), dtype)
