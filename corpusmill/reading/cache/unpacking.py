"""A shard's columns as plain arrays in files, so that any row can be read without its neighbours.

Shards are compressed by thousands of rows. Whoever reads rows in another order would take apart
thousands for each; so a shard is taken apart once, into a folder with two files a list column and
one file a column of numbers, in the machine's own types and without headers:

    input_ids.values    input_ids.offsets (int64[rows + 1])    next_sentence_label.values
"""

import errno
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column
from corpusmill.arrays.ragged import is_padded, matrix_of, row_lengths
from corpusmill.dataset.manifest import MANIFEST, columns_of, output_options_of
from corpusmill.dataset.shards import read_shard
from corpusmill.dataset.storage import Folder
from corpusmill.errors import UserError
from corpusmill.formats.shard_formats import FORMATS, part_names
from corpusmill.reading.cache.row_checks import check_rows
from corpusmill.reading.rows import Lists, Values

_BATCH_ROWS = 8192
_BLOCK_BYTES = 2**22


def shard_parts(manifest: Mapping[str, Any], shard: str) -> tuple[str, ...]:
    """The names of a shard's files."""
    options = output_options_of(manifest)
    return part_names(shard, FORMATS[options.output_format].suffixes(options))


def fetch_parts(
    folder: Folder, manifest: Mapping[str, Any], shard: str, scratch: Path | None = None
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
    names = shard_parts(manifest, shard)
    expected = _entries_of(manifest, names)
    copied = scratch is not None and folder.local_path(shard) is None
    for name in names:
        digest, size, of = hashlib.sha256(), 0, expected[name]
        with ExitStack() as files:
            copy = files.enter_context((scratch / name).open("wb")) if scratch and copied else None
            for block in _blocks(folder, name):
                digest.update(block)
                size += len(block)
                if size > of["bytes"]:
                    break
                if copy:
                    copy.write(block)
        if size != of["bytes"]:
            more = " and more" if size > of["bytes"] else ""
            cause = f"it has {size:,} bytes{more}, {MANIFEST} says {of['bytes']:,}"
            raise damaged(folder, name, cause)
        if digest.hexdigest() != of["sha256"]:
            raise damaged(folder, name, "its bytes are not those that were written")
    return Folder(str(scratch)) if copied else folder


def _entries_of(manifest: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """What the manifest says of some files, by name."""
    of_splits = (split["shards"] for split in manifest["splits"].values())
    entries = chain(manifest["files"], *of_splits)
    return {entry["file"]: entry for entry in entries if entry["file"] in names}


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


def unpack_shard(folder: Folder, manifest: Mapping[str, Any], shard: str, target: Path) -> None:
    """Write the columns of a shard into an empty folder, and have the disk keep them.

    Args:
        folder: of the data set, or of a copy of the shard.
        manifest: of the data set.
        shard: name of the shard.
        target: where the files go.

    Raises:
        ValueError: the shard is damaged, or its rows are not what the manifest says.
        OSError: the files cannot be written.
    """
    columns, entry = columns_of(manifest), _entries_of(manifest, (shard,))[shard]
    special, vocab_size = manifest["tokenizer"]["special"], manifest["tokenizer"]["vocab_size"]
    longest = _longest_beside(manifest, shard)
    rows = tokens = 0
    with ExitStack() as files:
        sinks = {column.name: _Sink(files.enter_context, target, column) for column in columns}
        for batch in _read(folder, manifest, shard):
            unpacked = unpack_batch(batch, special["pad_id"] or 0)
            check_rows(unpacked, vocab_size, longest)
            rows += batch.num_rows
            tokens += int(unpacked["input_ids"].offsets[-1])  # type: ignore[union-attr]
            for name, values in unpacked.items():
                sinks[name].write(values)
        if (rows, tokens) != (entry["rows"], entry["tokens"]):
            expected = f"{entry['rows']:,} and {entry['tokens']:,}"
            raise ValueError(f"it has {rows:,} rows and {tokens:,} tokens, not {expected}")
        for sink in sinks.values():
            sink.sync()


def _longest_beside(manifest: Mapping[str, Any], shard: str) -> int:
    """Tokens of the longest row of the split that a shard is of."""
    for split in manifest["splits"].values():
        if any(entry["file"] == shard for entry in split["shards"]):
            return len(split["distributions"]["length"]) - 1
    raise ValueError(f"{shard} is of no split")


def _read(folder: Folder, manifest: Mapping[str, Any], shard: str) -> Iterator[pa.RecordBatch]:
    try:
        yield from read_shard(folder, manifest, shard, _BATCH_ROWS)
    except Exception as error:  # each format has errors of its own
        raise ValueError(str(error)) from error


def unpack_batch(batch: pa.RecordBatch, pad_id: int) -> dict[str, Values]:
    """The columns of a batch as arrays, without what fills padded rows.

    Example:
        input_ids [[2, 9, 3, 0], [2, 3, 0, 0]], padded with 0, give Lists([2, 9, 3, 2, 3],
        [0, 3, 5]).
    """
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    lengths: dict[str, np.ndarray] = {}
    if any(is_padded(array) for array in arrays.values()):
        lengths = _padded_lengths(arrays, pad_id)
    return {
        name: _trim(array, lengths[name]) if is_padded(array) else _plain(array)
        for name, array in arrays.items()
    }


def _plain(array: pa.Array) -> Values:
    if not pa.types.is_list(array.type):
        numbers: np.ndarray = array.to_numpy()
        return numbers
    values, offsets = ragged.from_arrow(array)
    return Lists(values[offsets[0] : offsets[-1]], (offsets - offsets[0]).astype(np.int64))


def _padded_lengths(arrays: Mapping[str, pa.Array], pad_id: int) -> dict[str, np.ndarray]:
    """int64[rows] for each padded column: as many values as its rows have in truth."""
    of_rows = row_lengths(arrays["input_ids"], pad_id)
    found = {name: of_rows for name, array in arrays.items() if is_padded(array)}
    # Place 0 is never predicted and begins a row's first piece, so that a later 0 is filling.
    if "masked_lm_positions" in found:
        predictions = (matrix_of(arrays["masked_lm_positions"]) > 0).sum(axis=1)
        found |= {"masked_lm_positions": predictions, "masked_lm_ids": predictions}
    if "cu_seqlens" in found:
        found["cu_seqlens"] = (matrix_of(arrays["cu_seqlens"]) > 0).sum(axis=1) + 1
    return found


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
