"""A piece's columns as plain arrays in files, so that any row can be read without its neighbours.

Shards are compressed in groups of thousands of rows. Reading rows in another order would decompress
a group for each row; so a piece is unpacked once, into a folder with two files per column of lists
and one file per column of numbers, in the machine's own types and without headers:

    input_ids.values    input_ids.offsets (int64[rows + 1])    next_sentence_label.values

A hostile row could make a kernel read or write outside its arrays. A correct digest only shows that
a shard is what the author of the manifest wrote, whoever that was. Compiled loops trust positions
and lengths, so these are checked once, when a shard is unpacked.
"""

import errno
import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import google_crc32c
import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import ANY_LENGTH, Column, Role, column_of
from corpusmill.arrays.ragged import is_padded, matrix_of, row_lengths
from corpusmill.dataset.manifest import MANIFEST, Manifest, Shard
from corpusmill.dataset.shards import read_rows, read_shard
from corpusmill.errors import UserError, in_one_line
from corpusmill.knobs import knob
from corpusmill.location import Location, locate
from corpusmill.reading.cache.pieces import COMPARED_BYTES, Piece, is_intact, write_checksums
from corpusmill.reading.rows import Lists, Part, Values, gather_lists, gather_numbers


def check_rows(
    rows: Mapping[str, Values], columns: Sequence[Column], vocab_size: int, longest: int
) -> None:
    """Refuse rows that contradict the roles of their columns.

    Args:
        rows: the columns by name.
        columns: their descriptions, the tokens first.
        vocab_size: the bound of token ids.
        longest: the most tokens of a row.

    Raises:
        ValueError: a column is not of its type, a row is too long, a column's lists are not as long
            as those they are aligned with, or a value is out of range.

    Example:
        input_ids [[2, 9, 3]] with masked_lm_positions [[5]] are refused: the row has no position 5.
    """
    for column in columns:
        _check_kind(rows[column.name], column)
    tokens = _lists(rows, columns[0].name)
    if len(tokens.offsets) > 1 and int(tokens.lengths.max()) > longest:
        raise ValueError(f"a row is longer than the {longest} tokens of the longest one")
    for column in columns:
        values = rows[column.name]
        if _count_rows(values) != len(tokens.offsets) - 1:
            raise ValueError(f"{column.name} has another number of rows")
        if column.role.aligned_with:
            aligned = column_of(columns, column.role.aligned_with)
            name = aligned.name if aligned else str(column.role.aligned_with)
            lists = (_lists(rows, column.name), _lists(rows, name))
            if not np.array_equal(lists[0].offsets, lists[1].offsets):
                raise ValueError(f"rows of {column.name} are not as long as those of {name}")
        _check_range(values, column, vocab_size)
        if column.role is Role.POSITIONS:
            positions = _lists(rows, column.name)
            lengths = np.repeat(tokens.lengths, positions.lengths)
            if (positions.values < 0).any() or (positions.values >= lengths).any():
                raise ValueError(f"{column.name} has a place that its row does not have")
        if column.role is Role.BOUNDARIES:
            _check_boundaries(_lists(rows, column.name), column.name, tokens)


def _check_kind(values: Values, column: Column) -> None:
    """Refuse arrays of another type, and lists that are longer than others or than their values."""
    name = column.name
    if isinstance(values, Lists) != bool(column.width):
        raise ValueError(f"{name} does not have {'lists' if column.width else 'numbers'}")
    numbers = values.values if isinstance(values, Lists) else values
    if not isinstance(numbers, np.ndarray) or numbers.dtype != column.dtype or numbers.ndim != 1:
        raise ValueError(f"{name} does not have values of the type {column.dtype}")
    if isinstance(values, Lists):
        offsets = values.offsets
        if not len(offsets) or offsets[0] or (offsets[1:] < offsets[:-1]).any():
            raise ValueError(f"{name} has offsets that do not ascend from 0")
        if offsets[-1] != len(numbers):
            raise ValueError(f"{name} has {len(numbers):,} values, its lists {offsets[-1]:,}")
        if column.width != ANY_LENGTH and values.lengths.max(initial=0) > column.width:
            raise ValueError(f"{name} has a list of more than {column.width:,} values")


def _count_rows(values: Values) -> int:
    return len(values.offsets) - 1 if isinstance(values, Lists) else len(values)


def _lists(rows: Mapping[str, Values], name: str) -> Lists:
    lists = rows.get(name)
    if not isinstance(lists, Lists):
        raise ValueError(f"it has no lists of {name}")
    return lists


def _check_range(values: Values, column: Column, vocab_size: int) -> None:
    largest = column.largest
    if column.role in {Role.TOKEN_IDS, Role.PREDICTED_IDS, Role.TARGET_IDS}:
        largest = vocab_size - 1
    if largest is None:
        return
    numbers: np.ndarray[Any, Any] = values.values if isinstance(values, Lists) else values
    if len(numbers) and not column.smallest <= int(numbers.min()) <= int(numbers.max()) <= largest:
        bounds = f"{column.smallest} to {largest}"
        raise ValueError(f"{column.name} has a value that is not from {bounds}")


def _check_boundaries(boundaries: Lists, name: str, tokens: Lists) -> None:
    firsts, lasts = boundaries.offsets[:-1], boundaries.offsets[1:] - 1
    is_valid = bool((boundaries.lengths > 0).all())
    if is_valid:
        steps = np.diff(boundaries.values.astype(np.int64))
        # From the last boundary of a row to the first of the next, values may fall.
        steps[lasts[:-1]] = 0
        is_valid = bool((boundaries.values[firsts] == 0).all() and (steps >= 0).all())
        is_valid = is_valid and np.array_equal(boundaries.values[lasts], tokens.lengths)
    if not is_valid:
        raise ValueError(f"{name} does not lead from 0 to its row's length")


def always() -> bool:
    """Say that a shard is wanted."""
    return True


def fetch_parts(
    folder: Location,
    manifest: Manifest,
    shard: str,
    scratch: Path | None = None,
    is_wanted: Callable[[], bool] = always,
) -> Location:
    """Read the bytes of a shard once, compare them with the manifest, and return their folder.

    Args:
        folder: the folder of the data set.
        manifest: its manifest.
        shard: the name of the shard.
        scratch: an empty folder for copies of remote files; None makes no copies.
        is_wanted: asked between blocks; StoppedError is raised if not.

    Raises:
        DamagedError: a file is missing or differs from the manifest.
        UserError: a file cannot be read now.
        OSError: a copy cannot be written.
    """
    entries = manifest.entries
    copied = scratch is not None and folder.local_path(shard) is None
    for name in manifest.parts(shard):
        digest, size, expected = hashlib.sha256(), 0, entries[name]
        with ExitStack() as files:
            copy = None
            if scratch and copied:
                (scratch / name).parent.mkdir(exist_ok=True)
                copy = files.enter_context((scratch / name).open("wb"))
            for block in _blocks(folder, name):
                if not is_wanted():
                    raise StoppedError
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
            raise damaged(folder, name, "its bytes differ from those that were written")
    return locate(str(scratch)) if copied else folder


def _blocks(folder: Location, name: str) -> Iterator[bytes]:
    local = folder.local_path(name)
    if local is not None and local.exists() and not local.is_file():
        raise damaged(folder, name, "it is not a file")  # opening a pipe would block for ever
    try:
        with folder.open(name) as stream:
            while block := stream.read(COMPARED_BYTES):
                yield block
    except FileNotFoundError:
        raise damaged(folder, name, "the file is missing") from None
    except Exception as error:  # each filesystem has its own errors
        if local is not None and getattr(error, "errno", 0) == errno.EIO:
            raise damaged(folder, name, f"the disk cannot read it ({error})") from error
        # The file itself may be intact.
        cause = f"it cannot be read now ({getattr(error, 'strerror', None) or error})"
        cure = "Try again, or check the connection and the permissions"
        raise UserError(f"{folder}/{name}", cause, cure) from error


class DamagedError(UserError):
    """A file of a data set is missing, or differs from what was written."""


class StoppedError(Exception):
    """A shard is not wanted any longer."""


def damaged(folder: Location, name: str, cause: str) -> DamagedError:
    """Return the error about a file that contradicts the manifest."""
    cure = 'Copy or build the data set again, or pass damaged="skip" to leave such shards out'
    return DamagedError(f"{folder}/{name}", cause, cure)


# Seconds until the user is warned.
_NOTICE_SECONDS = 10.0


def warn_if_slow(
    piece: Piece, batch_rows: int, clock: Callable[[], float] = time.monotonic
) -> Callable[[], bool]:
    """Return what is called before each batch of a piece: it is true, and warns once if it is late.

    Args:
        piece: the rows that are unpacked.
        batch_rows: rows that are unpacked at a time.
        clock: returns seconds.
    """
    begin, done, has_warned = clock(), 0, False

    def count_batch() -> bool:
        nonlocal done, has_warned
        seconds = clock() - begin
        if seconds >= _NOTICE_SECONDS and not has_warned:
            has_warned = True
            warnings.warn(
                f"{piece.shard.file}: rows are unpacked before the first is read, "
                f"{done / max(1, piece.rows):.0%} of {piece.rows:,} rows in {seconds:.0f} s. This "
                "happens once. Shards of fewer rows, by a larger --num-shards, are read sooner.",
                stacklevel=2,
            )
        done = min(done + batch_rows, piece.rows)
        return True

    return count_batch


def unpack_piece(
    folder: Location,
    manifest: Manifest,
    piece: Piece,
    target: Path,
    is_wanted: Callable[[], bool] = always,
) -> None:
    """Write a piece's columns and their checksums into an empty folder.

    They are not flushed to disk: after a machine has stopped, checksums tell what is missing.

    Args:
        folder: the folder of the data set, or of a copy of the shard.
        manifest: the manifest of the data set.
        piece: rows of a shard.
        target: the folder for the files.
        is_wanted: asked before each batch; StoppedError is raised if not.

    Raises:
        ValueError: the shard is damaged, or its rows contradict the manifest.
        OSError: the files cannot be written.
    """
    checksums: dict[str, int] = {}
    with ExitStack() as files:
        streams: dict[str, BinaryIO] = {}

        def append(name: str, values: np.ndarray) -> None:
            if name not in streams:
                streams[name] = files.enter_context((target / name).open("wb"))
            content = pa.py_buffer(values.data)
            streams[name].write(content)
            checksums[name] = google_crc32c.extend(checksums.get(name, 0), content)

        ends = {column.name: 0 for column in manifest.columns}
        for column in manifest.columns:
            append(f"{column.name}.values", np.empty(0, column.dtype))
            if column.width:
                append(f"{column.name}.offsets", np.zeros(1, np.int64))
        for unpacked in read_piece(folder, manifest, piece, is_wanted):
            for name, rows in unpacked.items():
                values = rows.values if isinstance(rows, Lists) else rows
                append(f"{name}.values", np.ascontiguousarray(values))
                if isinstance(rows, Lists):
                    append(f"{name}.offsets", rows.offsets[1:] + ends[name])
                    ends[name] += int(rows.offsets[-1])
    write_checksums(target, checksums)


def load_piece(folder: Location, manifest: Manifest, piece: Piece) -> dict[str, Values]:
    """Return a piece's columns in memory.

    Args:
        folder: the folder of the data set.
        manifest: its manifest.
        piece: rows of a shard.

    Raises:
        ValueError: the shard is damaged, or its rows contradict the manifest.
    """
    batches = list(read_piece(folder, manifest, piece))
    columns: dict[str, Values] = {}
    for column in manifest.columns:
        parts, end = [], 0
        for batch in batches:
            values = batch[column.name]
            rows = np.arange(_count_rows(values))
            parts.append(Part(values, rows, rows + end))
            end += len(rows)
        gather = gather_lists if column.width else gather_numbers
        columns[column.name] = gather(parts, end, column.dtype)
    return columns


def read_piece(
    folder: Location,
    manifest: Manifest,
    piece: Piece,
    is_wanted: Callable[[], bool] = always,
) -> Iterator[dict[str, Values]]:
    """Yield the columns of a piece, checked, some rows at a time; the rest as of `unpack_piece`."""
    columns, vocab_size = manifest.columns, manifest.tokenizer.vocab_size
    shard = piece.shard
    longest = next(split.longest for split in manifest.splits.values() if shard in split.shards)
    rows = tokens = 0
    for batch in _read_rows(folder, manifest, piece, batch_rows(shard)):
        if not is_wanted():
            raise StoppedError
        unpacked = unpack_batch(batch, columns)
        check_rows(unpacked, columns, vocab_size, longest)
        rows += batch.num_rows
        tokens += int(unpacked[columns[0].name].offsets[-1])  # type: ignore[union-attr]
        yield unpacked
    # How many tokens some of its rows have, the manifest does not say.
    if rows != piece.rows or (piece.is_whole and tokens != shard.tokens):
        expected = f"{piece.rows:,} and {piece.tokens:,}"
        raise ValueError(f"it has {rows:,} rows and {tokens:,} tokens, not {expected}")


def describe_checks(manifest: Manifest, shard: Shard | None) -> str:
    """Describe all that the rows of shards are compared with when they are unpacked.

    Args:
        manifest: of the data set.
        shard: one of them, which are all of one split; None if there are none.
    """
    columns = [
        [column.name, column.dtype, column.width, column.pad, column.role, column.smallest,
         column.largest]
        for column in manifest.columns
    ]  # fmt: skip
    longest = [split.longest for split in manifest.splits.values() if shard in split.shards]
    return json.dumps([columns, manifest.tokenizer.vocab_size, longest, manifest.output.format])


UNPACKED_ROWS = knob("unpacked_rows", 2**10, test=4)
"""The least rows that are unpacked at once, however long they are."""
MOST_UNPACKED_ROWS = knob("most_unpacked_rows", 2**16, test=16)
"""The most rows that are unpacked at once, however short they are."""
UNPACKED_TOKENS = knob("unpacked_tokens", 2**19, test=100)
"""The tokens that are unpacked at once, on average."""


def batch_rows(shard: Shard) -> int:
    """Return how many rows of a shard are unpacked at a time, by the average length of its rows.

    Of larger arrays the allocator returns the memory each time, and threads wait for new pages. Of
    short rows so few would take as long for the calls as for the rows.
    """
    fitting = UNPACKED_TOKENS * shard.rows // max(1, shard.tokens)
    return max(UNPACKED_ROWS, min(fitting, MOST_UNPACKED_ROWS))


def _read_rows(
    folder: Location, manifest: Manifest, piece: Piece, rows: int
) -> Iterator[pa.RecordBatch]:
    file = piece.shard.file
    try:
        if piece.is_whole:
            yield from read_shard(folder, manifest, file, rows)
        else:
            yield from read_rows(folder, manifest, file, piece.begin, piece.end, rows)
    except Exception as error:  # each format has its own errors
        raise ValueError(in_one_line(error)) from error


def unpack_batch(batch: pa.RecordBatch, columns: Sequence[Column]) -> dict[str, Values]:
    """Return the columns of a batch as arrays, without the padding of padded rows.

    Args:
        batch: rows as a shard has them.
        columns: their descriptions, the tokens first.

    Raises:
        ValueError: a column has nulls, or values after the end of a padded row.

    Example:
        input_ids [[2, 9, 3, 0], [2, 3, 0, 0]], padded with 0, gives Lists([2, 9, 3, 2, 3],
        [0, 3, 5]).
    """
    unpacked: dict[str, Values] = {}
    lengths: dict[Role | None, np.ndarray] = {}
    # Lists with which others are aligned come first.
    for column in sorted(columns, key=lambda column: column.role.aligned_with is not None):
        array = batch.column(column.name)
        if array.null_count:
            raise ValueError(f"{column.name} has nulls")
        if not is_padded(array):
            unpacked[column.name] = _plain(array)
            continue
        lengths[column.role] = _padded_lengths(array, column, lengths)
        unpacked[column.name] = _trim(array, lengths[column.role], column)
    return {column.name: unpacked[column.name] for column in columns}


def _padded_lengths(
    array: pa.Array, column: Column, lengths: Mapping[Role | None, np.ndarray]
) -> np.ndarray:
    """Count the values of each padded row that are not padding, int64[rows]."""
    aligned = column.role.aligned_with
    if aligned in lengths:
        return lengths[aligned]
    # Position 0 is never predicted, and a row's first piece begins there, so a later 0 is padding.
    if column.role in {Role.POSITIONS, Role.BOUNDARIES}:
        positive = (matrix_of(array) > 0).sum(axis=1)
        return np.asarray(positive + (column.role is Role.BOUNDARIES))
    return row_lengths(array, column.pad)


def _plain(array: pa.Array) -> Values:
    if not pa.types.is_list(array.type):
        return ragged.to_numpy(array)
    values, offsets = ragged.from_arrow(array)
    return Lists(values[offsets[0] : offsets[-1]], (offsets - offsets[0]).astype(np.int64))


def _trim(array: pa.Array, lengths: np.ndarray, column: Column) -> Lists:
    matrix = matrix_of(array)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    values = matrix[np.arange(matrix.shape[1]) < lengths[:, None]]
    if len(values) != offsets[-1]:
        raise ValueError(f"{column.name} has lists of {matrix.shape[1]:,} values")
    if np.count_nonzero(matrix != column.pad) != np.count_nonzero(values != column.pad):
        raise ValueError(f"{column.name} has values after the end of a row")
    return Lists(values, offsets)


def map_piece(folder: Path, columns: tuple[Column, ...], rows: int) -> dict[str, Values] | None:
    """Map the columns of an unpacked piece into memory.

    Args:
        folder: the folder of its files.
        columns: the columns of the data set.
        rows: the number of the piece's rows.

    Returns:
        None if files are missing or do not hold what was written, as after a machine has failed.
    """
    mapped: dict[str, Values] = {}
    if not is_intact(folder):
        return None
    try:
        for column in columns:
            path, dtype = folder / f"{column.name}.values", np.dtype(column.dtype)
            if column.width:
                offsets = _map(path.with_suffix(".offsets"), np.dtype(np.int64), rows + 1)
                if offsets[0] or (np.diff(offsets) < 0).any():
                    raise ValueError(f"{path} has offsets that fall")
                mapped[column.name] = Lists(_map(path, dtype, int(offsets[-1])), offsets)
            else:
                mapped[column.name] = _map(path, dtype, rows)
    except (OSError, ValueError):
        return None
    return mapped


def _map(path: Path, dtype: np.dtype, length: int) -> np.ndarray:
    if path.stat().st_size != length * dtype.itemsize:
        raise ValueError(f"{path} is incomplete")
    if not length:
        return np.empty(0, dtype)
    # np.memmap keeps a file open for each mapping, and a process may often have only 1,024 open
    # files; also, each slice of a memmap costs microseconds.
    with pa.memory_map(str(path)) as file:
        return np.frombuffer(file.read_buffer(), dtype)
