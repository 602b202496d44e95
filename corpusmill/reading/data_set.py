"""A data set that corpusmill wrote, opened: any of its examples, by their numbers."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.columns import Column
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.shards import read_manifest
from corpusmill.dataset.storage import UrlFolder
from corpusmill.reading.cache.shard_cache import ShardCache, default_cache_folder
from corpusmill.reading.opening import (
    check_length,
    check_present,
    check_split,
    find_damaged,
)
from corpusmill.reading.rows import Integers, Lists, Rows, Values, gather_lists, measure_rows
from corpusmill.reading.tokenizer_check import Vocabulary, check_tokenizer


class Samples(Protocol):
    """What can be read by number: a data set, windows of a token stream, a mixture."""

    @property
    def shard_sizes(self) -> tuple[int, ...]:
        """Samples that lie together, in order; orders keep them near each other."""

    @property
    def digest(self) -> str:
        """Hexadecimal; tells these samples from all others."""

    @property
    def longest(self) -> int:
        """Tokens of the longest sample."""

    @property
    def manifest(self) -> Manifest:
        """Of the data set."""

    def __len__(self) -> int: ...

    def take(self, samples: Integers, epochs: Integers | None = None) -> Rows:
        """The samples of the given numbers, in that order.

        Args:
            samples: int64[n], 0 to len - 1.
            epochs: int64[n], the epoch that each is read in; None for 0.
        """

    def lengths(self, samples: Integers) -> Integers:
        """int64[n]: tokens of each sample, without reading it."""


class DataSet:
    """One split of a data set: `__len__` examples, read by number.

    Nothing is read when it is opened but the manifest and a list of files. A shard is unpacked to
    `cache_folder` when its first example is read (`corpusmill.reading.cache.shard_cache`), and
    mapped into memory, so that memory does not grow with the data set, and ranks and workers on one
    machine share what they read. It can be pickled, and sent to other processes.

    Args:
        url: the folder that a build wrote: a path, or a URL of fsspec.
        split: "train" or "validation".
        cache_folder: where unpacked shards lie; None for the user's folder of caches.
        cache_bytes: most bytes that unpacked shards may take there; None for no limit.
        storage_options: of the filesystem, as fsspec takes them.
        tokenizer: a tokenizer.json, a folder with one, or a tokenizer of `transformers` or
            `tokenizers`, in which the tokens of the data must have the same ids; None compares
            nothing.
        max_length: tokens that the model can take; None compares nothing.
        damaged: "refuse" raises an error where a shard is missing or damaged: now where a file is
            missing or of another size, and when it is first read where its bytes are others. "skip"
            reads and compares all shards now, and leaves such ones out, which `skipped` lists. Each
            process looks by itself; that all found the same can be told by `digest`.

    Attributes:
        manifest: the manifest.
        columns: the columns that examples have.
        shard_sizes: examples of each shard.
        longest: tokens of the longest example.
        digest: of the shards, in order; the same data has the same one wherever it lies.
        skipped: shards that are left out, with why.
        skipped_rows: the examples in them.

    Raises:
        UserError: there is no whole data set there, it lacks the split, is damaged, or does not
            suit the tokenizer or the model.

    Example:
        DataSet("out")[0] is {"input_ids": array([2, 17, ...], int16), "token_type_ids": ...,
        "next_sentence_label": 1}.
    """

    def __init__(
        self,
        url: str | Path,
        split: str = "train",
        *,
        cache_folder: str | Path | None = None,
        cache_bytes: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        tokenizer: str | Path | Vocabulary | None = None,
        max_length: int | None = None,
        damaged: Literal["refuse", "skip"] = "refuse",
    ) -> None:
        self.folder = _find_folder(str(url), dict(storage_options or {}))
        self.manifest = read_manifest(self.folder)
        self.split = split
        check_split(self.folder, self.manifest, split)
        if tokenizer is not None:
            check_tokenizer(self.folder, self.manifest, tokenizer)
        self.longest = self.manifest.splits[split].longest
        if max_length is not None:
            check_length(self.manifest, self.folder.url, self.longest, max_length)
        self.columns = self.manifest.columns
        shards = self.manifest.splits[split].shards
        self.skipped: dict[str, str] = {}
        if damaged == "skip":
            self.skipped = find_damaged(self.folder, self.manifest, shards)
        else:
            check_present(self.folder, self.manifest, shards)
        self.skipped_rows = sum(shard.rows for shard in shards if shard.file in self.skipped)
        shards = tuple(shard for shard in shards if shard.file not in self.skipped)
        self.shards = shards
        self.shard_sizes = tuple(shard.rows for shard in shards)
        self.digest = hashlib.sha256(
            json.dumps([shard.sha256 for shard in shards]).encode()
        ).hexdigest()
        cache = Path(cache_folder).expanduser() if cache_folder else default_cache_folder()
        self.cache = ShardCache(self.folder, self.manifest, shards, cache, cache_bytes)
        self._starts = np.concatenate([[0], np.cumsum(self.shard_sizes, dtype=np.int64)])

    def __repr__(self) -> str:
        splits = ", ".join(
            f"{name}: {entry.rows:,} rows of {entry.tokens:,} tokens"
            for name, entry in self.manifest.splits.items()
        )
        objective = self.manifest.objective.name
        return f"<DataSet {self.folder.url} for {objective}, split {self.split!r} of {splits}>"

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, sample: int) -> dict[str, Any]:
        """One example, as numbers and arrays of the column's types."""
        return self.take(np.array([range(len(self))[sample]]))[0]

    def take(self, samples: Integers, epochs: Integers | None = None) -> Rows:
        """See Samples.

        Raises:
            IndexError: there is no such example.
            UserError: a shard is damaged.
        """
        samples = np.asarray(samples, np.int64)
        if epochs is None:
            epochs = np.zeros(len(samples), np.int64)
        parts = self._parts(samples)
        gathered = {column.name: _gather(column, parts, len(samples)) for column in self.columns}
        return Rows(gathered, samples, epochs)

    def lengths(self, samples: Integers) -> Integers:
        """See Samples."""
        samples = np.asarray(samples, np.int64)
        return _measure(self.columns[0].name, self._parts(samples), len(samples))

    def _parts(self, samples: Integers) -> list["_Part"]:
        """The shards that samples lie in, and which rows of theirs."""
        if len(samples) and not 0 <= int(samples.min()) <= int(samples.max()) < len(self):
            raise IndexError(f"there are {len(self)} examples, numbered from 0")
        shards = np.searchsorted(self._starts, samples, side="right") - 1
        found = []
        needed = np.unique(shards).tolist()
        self.cache.unpack(needed)
        for shard in needed:
            places = np.flatnonzero(shards == shard)
            rows = samples[places] - self._starts[shard]
            found.append((self.cache.columns(shard, needed), rows, places))
        return found


def _find_folder(url: str, storage_options: dict[str, Any]) -> UrlFolder:
    """The folder at a URL; a path is made absolute, as a program may go elsewhere meanwhile."""
    folder = UrlFolder(url, storage_options)
    local = folder.local_path("")
    return folder if local is None else UrlFolder(str(local.absolute()))


_Part = tuple[dict[str, Values], Integers, Integers]


def _gather(column: Column, parts: list[_Part], rows: int) -> Values:
    dtype = np.dtype(column.dtype)
    if not column.width:
        numbers = np.empty(rows, dtype)
        for columns, chosen, places in parts:
            numbers[places] = _numbers(columns[column.name])[chosen]
        return numbers
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(_measure(column.name, parts, rows), out=offsets[1:])
    gathered = np.empty(int(offsets[-1]), dtype)
    for columns, chosen, places in parts:
        lists = _lists(columns[column.name])
        gather_lists(lists.values, lists.offsets, chosen, places, gathered, offsets)
    return Lists(gathered, offsets)


def _measure(name: str, parts: list[_Part], rows: int) -> Integers:
    lengths = np.empty(rows, np.int64)
    for columns, chosen, places in parts:
        measure_rows(_lists(columns[name]).offsets, chosen, places, lengths)
    return lengths


def _lists(column: Values) -> Lists:
    assert isinstance(column, Lists)  # noqa: S101  by the table of columns
    return column


def _numbers(column: Values) -> npt.NDArray[Any]:
    assert not isinstance(column, Lists)  # noqa: S101  likewise
    return column
