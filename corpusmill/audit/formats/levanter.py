"""Caches of Levanter and Marin: shard_ledger.json, and two Zarr arrays for each column.

`data` holds the values of all rows. `offsets` holds the number of rows, and then where each row
ends (levanter/store/jagged_array.py). What is missing of an array is read as zeros.
"""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import orjson

from corpusmill.audit.formats.beside import find_beside
from corpusmill.audit.formats.columns import ColumnTokens, Lists, Part, choose_columns
from corpusmill.audit.formats.flat import INDEX_NUMBERS, cut_batches
from corpusmill.audit.token_files import TokenFile, TokenFolder, TokenFormat
from corpusmill.errors import UserError

_LEDGER = "shard_ledger.json"
_DRIVERS = {"zarr.json": "zarr3", ".zarray": "zarr"}


def _open(folder: TokenFolder, name: str) -> Sequence[TokenFile]:
    """Open a cache, of which each shard may have arrays of its own.

    Raises:
        ValueError: it has no ids.
    """
    ledger, within = orjson.loads(folder.location.read(name)), name.removesuffix(_LEDGER)
    caches = dict[str, dict[str, tuple[str, str]]]()
    for path in folder.sizes:
        array, _, kind = path.rpartition("/offsets/")
        if path.startswith(within) and kind in _DRIVERS:
            cache, _, column = array.removesuffix("/0").rpartition("/")
            caches.setdefault(cache, {})[column] = array, _DRIVERS[kind]
    metadata = ledger.get("metadata", {}).get("preprocessor_metadata") or {}
    files = list[TokenFile]()
    for cache, arrays in caches.items():
        file = ColumnTokens(f"{folder.location}/{cache or name}", "levanter")
        file.meanings, file.tokenizer = choose_columns(arrays), str(metadata.get("tokenizer", ""))
        file.list_parts = partial(_list_parts, folder, file, arrays)
        if not ledger["is_finished"]:
            file.faults.append("its ledger says that it was not finished")
        rows = ledger.get("shard_rows", {}).get(posixpath.basename(cache))
        file.rows = ledger["total_num_rows"] if len(caches) == 1 else rows
        files.append(file)
    if not files:
        raise ValueError("it has no arrays")
    return files


class _Array:
    """An array, of which only the chunks that are there are read.

    Args:
        folder: of the cache.
        name: of the array.
        driver: its version of Zarr.

    Attributes:
        room: the numbers that its chunks have room for.

    Raises:
        UserError: tensorstore is not installed.
    """

    def __init__(self, folder: TokenFolder, name: str, driver: str) -> None:
        try:
            import tensorstore  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
        except ImportError:
            cause = "a cache of Levanter is read by tensorstore, which is not installed"
            raise UserError(name, cause, "Run pip install 'corpusmill[levanter]'") from None
        path = folder.location.local_path(name)
        store = {"driver": "file", "path": f"{path}/"} if path else f"{folder.location.url}/{name}/"
        self._array = tensorstore.open({"driver": driver, "kvstore": store}, open=True).result()
        chunks = sum(other.startswith(f"{name}/") for other in folder.sizes) - 1
        self.room = chunks * self._array.chunk_layout.write_chunk.shape[0]

    def read(self, begin: int, end: int) -> np.ndarray:
        """Return its values from one place to another."""
        if end > self.room:
            raise ValueError(f"{end:,} numbers are needed, and its chunks have {self.room:,}")
        return np.asarray(self._array[begin:end].read().result())

    def read_ends(self, begin: int, end: int) -> np.ndarray:
        """Return where rows begin, and where the last one ends, of an array of offsets."""
        ends = self.read(begin, end + 1).astype(np.int64)
        if begin == 0:
            ends[:1] = 0  # the number of rows is in its place
        if (np.diff(ends) < 0).any():
            raise ValueError("a row ends before it begins")
        return ends


def _list_parts(
    folder: TokenFolder, file: ColumnTokens, arrays: Mapping[str, tuple[str, str]]
) -> Iterator[Part]:
    opened = {
        column: [_Array(folder, f"{name}/{part}", driver) for part in ("offsets", "data")]
        for column, (name, driver) in arrays.items()
        if column in file.meanings
    }

    def load(first: int, number: int) -> Iterator[Mapping[str, Lists]]:
        lists = dict[str, Lists]()
        for column, (offsets, data) in opened.items():
            ends = offsets.read_ends(first, first + number)
            lists[column] = data.read(int(ends[0]), int(ends[-1])), ends - ends[0]
        yield lists

    [ids, *_] = file.meanings
    rows = int(opened[ids][0].read(0, 1)[0])
    for row in range(0, rows, INDEX_NUMBERS):
        ends = opened[ids][0].read_ends(row, min(row + INDEX_NUMBERS, rows))
        # What leads beyond the data is found when it is loaded.
        ends = np.minimum(ends, opened[ids][1].room + 1)
        for _, batch in cut_batches(ends, row):
            if batch.is_begun:
                yield load(batch.first, len(batch.offsets) - 1)


_find = partial(find_beside, index=_LEDGER)
_ENDS = "Set enforce_eos in the data config, and tokenize again"
_BEGINS = "Set enforce_bos in the data config, and tokenize again"
FORMAT = TokenFormat(_find, _open, "Levanter", _ENDS, _BEGINS)
