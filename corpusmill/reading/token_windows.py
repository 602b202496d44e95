"""Windows of a token stream, by number: examples of any length and stride, cut when they are read.

Source: "Building the Dataset and DataLoader for training a large language model" (LLMDataset, in
memory and indexed); how many examples there are and where they lie is told by
`corpusmill.objectives.examples.token_stream`. The stream is stored once; nothing is copied but what
a batch takes.
"""

import hashlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.columns import ANY_LENGTH, NO_PAD, Column, Role
from corpusmill.arrays.kernel_cache import njit
from corpusmill.dataset.manifest import MANIFEST
from corpusmill.errors import UserError
from corpusmill.objectives.examples.token_stream import (
    count_examples,
    count_shard_examples,
    locate_in_shards,
)
from corpusmill.reading.cache.unpacking import damaged
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.rows import Integers, Lists, Rows

# The column of TokenWindows' rows: not input_ids, as its last token is a target alone.
TOKENS = "tokens"


class TokenWindows:
    """The windows of a stream of tokens; see `corpusmill.reading.data_set.Samples`.

    Window i is the context_len + 1 tokens from place i * stride: the input is all of them but the
    last, the targets all but the first.

    Args:
        data_set: built by `gpt --mode stream`.
        context_len: tokens of an input.
        stride: tokens from the beginning of a window to that of the next; None for context_len,
            with which each token is a target once.
        across_shards: whether a window may begin in one shard and end in the next, as if the split
            were one stream. If not, each shard is a stream of its own, of which up to
            context_len + stride tokens are left over.

    Attributes:
        manifest: that of the data set, with the column of windows.
        shard_sizes: windows that begin in each shard.
        longest: context_len.
        digest: of the data set and how it is cut.

    Raises:
        UserError: the data set is no stream, or too short for a single window.

    Example:
        of the stream [5, 6, 7, 8, 9], context_len 2 gives the windows [5, 6, 7] and [7, 8, 9].
    """

    def __init__(
        self,
        data_set: DataSet,
        context_len: int,
        stride: int | None = None,
        across_shards: bool = True,
    ) -> None:
        self.data_set, self.context_len = data_set, context_len
        self.stride = context_len if stride is None else stride
        self.across_shards = across_shards
        self._check()
        self._shard_tokens = tuple(shard.tokens for shard in data_set.shards)
        self._starts = np.cumsum([0, *self._shard_tokens], dtype=np.int64)
        self.shard_sizes = tuple(self._count().tolist())
        self._size: int = sum(self.shard_sizes)
        if not len(self):
            streams = (sum(self._shard_tokens),) if across_shards else self._shard_tokens
            cause = f"the longest stream of {data_set.folder.url} has {max(streams):,} tokens"
            raise UserError(f"context_len={context_len}", cause, "Give a smaller one")
        self.longest = context_len
        cut = {"context_len": context_len, "stride": self.stride, "across_shards": across_shards}
        meaning = "the tokens of an input, and the last one's target"
        dtype = data_set.columns[0].dtype
        column = Column(TOKENS, dtype, meaning, context_len + 1, NO_PAD, Role.WINDOW)
        self.manifest = replace(data_set.manifest, columns=(column,))
        self.digest = hashlib.sha256(json.dumps([data_set.digest, cut]).encode()).hexdigest()

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, sample: int) -> dict[str, npt.NDArray[Any]]:
        """The input_ids and targets of one window, context_len tokens each; both see one array."""
        window = self.take(np.array([range(len(self))[sample]])).lists(TOKENS).values
        return {"input_ids": window[:-1], "targets": window[1:]}

    def take(self, samples: Integers, epochs: Integers | None = None) -> Rows:
        """See Samples.

        Returns:
            rows with one column, `tokens`, of which each has context_len + 1.

        Raises:
            IndexError: there is no such window.
            UserError: a shard is damaged.
        """
        samples = np.asarray(samples, np.int64)
        if epochs is None:
            epochs = np.zeros(len(samples), np.int64)
        width = self.context_len + 1
        windows = np.empty((len(samples), width), self.data_set.columns[0].dtype)
        self._fill(self._places(samples), windows)
        offsets = np.arange(0, (len(samples) + 1) * width, width)
        return Rows({TOKENS: Lists(windows.reshape(-1), offsets)}, samples, epochs)

    def lengths(self, samples: Integers) -> Integers:
        """See Samples."""
        return np.full(len(samples), self.context_len, np.int64)

    def _places(self, samples: Integers) -> Integers:
        """int64[n]: the first token of each window in the stream of all shards."""
        if not self.across_shards:
            cut = (self._shard_tokens, self.context_len, self.stride)
            shards, begins = locate_in_shards(samples, *cut)
            return self._starts[shards] + begins
        if len(samples) and not 0 <= int(samples.min()) <= int(samples.max()) < len(self):
            raise IndexError(f"there are {len(self)} examples, numbered from 0")
        return samples * self.stride

    def _fill(self, places: Integers, windows: npt.NDArray[Any]) -> None:
        """Copy what the shards that windows begin in have of them, then what the next ones have."""
        filled = np.zeros(len(places), np.int64)
        left = np.arange(len(places))
        while len(left):
            reached = places[left] + filled[left]
            shards = np.searchsorted(self._starts, reached, side="right") - 1
            needed = np.unique(shards).tolist()
            self.data_set.cache.unpack(needed)
            for shard in needed:
                of_shard = shards == shard
                firsts = reached[of_shard] - self._starts[shard]
                _copy_windows(self._tokens(shard), firsts, left[of_shard], filled, windows)
            left = left[filled[left] < windows.shape[1]]

    def _tokens(self, shard: int) -> npt.NDArray[Any]:
        """integers[tokens of the shard]: its rows, one behind the other."""
        column = self.data_set.cache.columns(shard)[self.data_set.columns[0].name]
        assert isinstance(column, Lists)  # noqa: S101  by the table of columns
        if len(column.values) != self._shard_tokens[shard]:
            name, tokens = self.data_set.shards[shard].file, self._shard_tokens[shard]
            cause = f"it has {len(column.values):,} tokens, {MANIFEST} says {tokens:,}"
            raise damaged(self.data_set.folder, name, cause)
        return column.values

    def _count(self) -> Integers:
        """int64[shards]: windows that begin in each."""
        cut = (self.context_len, self.stride)
        if not self.across_shards:
            return count_shard_examples(self._shard_tokens, *cut)
        # A window begins before a place where its number is below the place over the stride.
        before = -(-self._starts // self.stride)
        return np.diff(np.minimum(before, count_examples(int(self._starts[-1]), *cut)))

    def _check(self) -> None:
        for name, value in (("context_len", self.context_len), ("stride", self.stride)):
            if value < 1:
                raise UserError(f"{name}={value}", "the value is out of range", "Give 1 or more")
        if self.data_set.columns[0].width != ANY_LENGTH:
            objective = self.data_set.manifest.objective
            kind = filter(None, [objective.name, objective.options.get("mode")])
            cause = f"its examples are of {' '.join(kind)}, and not of a token stream"
            raise UserError(self.data_set.folder.url, cause, "Build it with gpt --mode stream")


@njit
def _copy_windows(
    values: np.ndarray,
    firsts: np.ndarray,
    places: np.ndarray,
    filled: np.ndarray,
    windows: np.ndarray,
) -> None:
    """Copy what a shard has of some windows.

    Args:
        values: integers[tokens of the shard].
        firsts: int64[n], where in the shard each goes on.
        places: int64[n], which windows.
        filled: int64[windows], tokens that each has; counted on.
        windows: integers[windows, width], filled.
    """
    width = windows.shape[1]
    for i in range(len(places)):
        done = filled[places[i]]
        count = min(width - done, len(values) - firsts[i])
        # As in gather_lists: an assignment of slices takes four times as long.
        source = values[firsts[i] : firsts[i] + count]
        target = windows[places[i], done : done + count]
        for j in range(len(source)):
            target[j] = source[j]
        filled[places[i]] = done + count
