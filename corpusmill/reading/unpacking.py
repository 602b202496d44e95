"""A shard's columns as plain arrays in files, so that any row can be read without its neighbours.

Shards are compressed by thousands of rows. Whoever reads rows in another order would take apart
thousands for each; so a shard is taken apart once, into a folder with two files a list column and
one file a column of numbers, in the machine's own types and without headers:

    input_ids.values    input_ids.offsets (int64[rows + 1])    next_sentence_label.values
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from corpusmill import ragged
from corpusmill.columns import Column
from corpusmill.faults import UserError
from corpusmill.formats.table import FORMATS, part_names
from corpusmill.manifest import columns_of, listed_files, output_options_of
from corpusmill.reading.rows import Lists, Values
from corpusmill.recount import is_padded, matrix_of, row_lengths
from corpusmill.shards import read_shard
from corpusmill.storage import Folder

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
        UserError: a file is missing, cannot be read, or has other bytes.
    """
    expected = listed_files(manifest)
    copied = scratch is not None and folder.local_path(shard) is None
    for name in shard_parts(manifest, shard):
        digest, size = hashlib.sha256(), 0
        with ExitStack() as files:
            copy = files.enter_context((scratch / name).open("wb")) if scratch and copied else None
            for block in _blocks(folder, name):
                digest.update(block)
                size += len(block)
                if copy:
                    copy.write(block)
        entry = expected[name]
        if (size, digest.hexdigest()) != (entry.bytes, entry.sha256):
            cause = f"its {size:,} bytes are not the {entry.bytes:,} that were written"
            raise damaged(folder, name, cause)
    return Folder(str(scratch)) if copied else folder


def _blocks(folder: Folder, name: str) -> Iterator[bytes]:
    try:
        with folder.open(name) as stream:
            while block := stream.read(_BLOCK_BYTES):
                yield block
    except FileNotFoundError:
        raise damaged(folder, name, "the file is missing") from None
    except OSError as error:
        raise damaged(folder, name, f"it cannot be read ({error})") from error


def damaged(folder: Folder, name: str, cause: str) -> UserError:
    """What a shard that is not as the manifest says is refused with."""
    cure = 'Copy or build the data set again, or pass damaged="skip" to leave such shards out'
    return UserError(f"{folder.url}/{name}", cause, cure)


def unpack_shard(folder: Folder, manifest: Mapping[str, Any], shard: str, target: Path) -> None:
    """Write the columns of a shard into an empty folder.

    Args:
        folder: of the data set, or of a copy of the shard.
        manifest: of the data set.
        shard: name of the shard.
        target: where the files go.

    Raises:
        ValueError: the shard is damaged.
        OSError: it cannot be read, or the files not written.
    """
    columns = columns_of(manifest)
    pad_id = manifest["tokenizer"]["special"].get("pad_id") or 0
    with ExitStack() as files:
        sinks = {column.name: _Sink(files.enter_context, target, column) for column in columns}
        for batch in read_shard(folder, manifest, shard, _BATCH_ROWS):
            for name, values in unpack_batch(batch, pad_id).items():
                sinks[name].write(values)


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
