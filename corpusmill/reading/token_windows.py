"""Windows of a token stream, by number: examples of any length and stride, cut when they are read.

Source: "Building the Dataset and DataLoader for training a large language model" (LLMDataset, in
memory and indexed); `corpusmill.objectives.examples.windows` counts and locates the examples.
The stream is stored once, and only what a batch takes is copied.

The middles of texts may be moved when a window is read, anew in each epoch
(`corpusmill.objectives.examples.fill_in_the_middle`).
"""

from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.columns import ANY_LENGTH, NO_PAD, Column, Role
from corpusmill.arrays.kernel_cache import njit
from corpusmill.dataset.manifest import MANIFEST
from corpusmill.errors import UserError, option
from corpusmill.objectives.examples.fill_in_the_middle import (
    FIM_TOKENS,
    WINDOWS,
    find_tokens,
    rearrange_windows,
)
from corpusmill.objectives.examples.windows import (
    count_examples,
    count_shard_examples,
    locate_in_shards,
)
from corpusmill.reading.cache.shard_cache import Stored, unpack_together
from corpusmill.reading.cache.unpacking import damaged
from corpusmill.reading.data_set import DataSet, Samples, digest_of
from corpusmill.reading.rows import (
    Integers,
    Lists,
    Values,
    check_minimum,
    check_seed,
    check_share,
    derive_sample_keys,
    group,
)

# The column of TokenWindows' rows. It is not named input_ids, as its last token is only a target.
TOKENS = "tokens"


class TokenWindows(Samples):
    """The windows of a token stream.

    Window i is the context_len + 1 tokens from place i * stride: the input is all of them but the
    last, the targets are all but the first.

    Args:
        data_set: built by `gpt --mode stream`.
        context_len: tokens of an input.
        stride: tokens from the beginning of one window to that of the next; None for context_len,
            with which each token is a target once.
        across_shards: whether a window may begin in one shard and end in the next, as if the split
            were one stream. If not, each shard is a stream of its own, and up to
            context_len + stride tokens at its end are left over.
        fim_rate: the share of the texts whose middle is moved to their end, drawn anew for each
            window and epoch; at tokens, as the text is not stored. A text lies between the tokens
            that begin and end documents, or the window's borders, and what the special tokens
            displace is cut off.
        fim_spm_share: the share of those that begin with the suffix.
        seed: the seed of these draws.

    Attributes:
        manifest: the manifest of the data set, with the column of windows.
        shard_sizes: windows that begin in each shard.
        longest: context_len.
        digest: the digest of the data set and of how it is cut.

    Raises:
        UserError: the data set is not a stream, or too short for a single window; or middles are
            to be moved that were moved before, or for which its manifest has no special tokens.

    Example:
        the stream [5, 6, 7, 8, 9] and context_len 2 give the windows [5, 6, 7] and [7, 8, 9].
    """

    def __init__(
        self,
        data_set: DataSet,
        context_len: int,
        stride: int | None = None,
        across_shards: bool = True,
        fim_rate: float = 0.0,
        fim_spm_share: float = 0.5,
        seed: int = 0,
    ) -> None:
        self.data_set, self.context_len = data_set, context_len
        self.stride = context_len if stride is None else stride
        self.across_shards = across_shards
        check_minimum("context_len", context_len, 1)
        check_minimum("stride", stride, 1)
        check_stream(data_set)
        self.fim_rate, self.fim_spm_share, self.seed = fim_rate, fim_spm_share, seed
        self._fim_tokens = self._find_fim_tokens() if fim_rate else None
        self._shard_tokens = tuple(shard.tokens for shard in data_set.shards)
        self._starts = np.cumsum([0, *self._shard_tokens], dtype=np.int64)
        self.shard_sizes = tuple(self._count().tolist())
        self._size: int = sum(self.shard_sizes)
        if not len(self):
            streams = (sum(self._shard_tokens),) if across_shards else self._shard_tokens
            cause = f"the longest stream of {data_set.folder} has {max(streams):,} tokens"
            raise UserError(f"context_len={context_len}", cause, "Give a smaller one")
        self.longest = context_len
        cut: dict[str, float] = {
            "context_len": context_len, "stride": self.stride, "across_shards": across_shards
        }  # fmt: skip
        if fim_rate:
            cut |= {"fim_rate": fim_rate, "fim_spm_share": fim_spm_share, "seed": seed}
        meaning = "the tokens of an input, and the last one's target"
        self._dtype = data_set.columns[0].dtype
        column = Column(TOKENS, self._dtype, meaning, context_len + 1, NO_PAD, Role.WINDOW)
        self.manifest = replace(data_set.manifest, columns=(column,))
        self.digest = digest_of([data_set.digest, cut])

    def __len__(self) -> int:
        return self._size

    @property
    def parts(self) -> tuple[int, ...]:
        """The part of the data set that each shard belongs to, from 0; empty if all are of one."""
        return self.data_set.parts

    def _present(self, row: dict[str, Any]) -> dict[str, npt.NDArray[Any]]:
        """Return the input_ids and targets of a window, context_len tokens each.

        Both are views of one array.
        """
        return {"input_ids": row[TOKENS][:-1], "targets": row[TOKENS][1:]}

    def lengths(self, samples: Integers) -> Integers:
        """Return context_len for each window, int64[n]."""
        return np.full(len(samples), self.context_len, np.int64)

    def _read(self, samples: Integers, epochs: Integers) -> dict[str, Values]:
        """Return one column, `tokens`, with context_len + 1 tokens per row."""
        width = self.context_len + 1
        windows = np.empty((len(samples), width), self._dtype)
        self._fill(self.find_begins(samples), windows)
        if self._fim_tokens:
            keys = derive_sample_keys(np.uint64(self.seed), samples, epochs, WINDOWS)
            share = (self.fim_rate, self.fim_spm_share)
            rearrange_windows(windows, keys, *share, *self._fim_tokens)
        offsets = np.arange(0, (len(samples) + 1) * width, width)
        return {TOKENS: Lists(windows.reshape(-1), offsets)}

    def stored_in(self, samples: Integers) -> list[Stored]:
        """Return the shards in which some windows, int64[n], begin and end."""
        begins = self.find_begins(samples)
        shards = np.searchsorted(
            self._starts, np.concatenate([begins, begins + self.context_len]), side="right"
        )
        return [(self.data_set.cache, shard) for shard in np.unique(shards - 1).tolist()]

    def find_begins(self, samples: Integers) -> Integers:
        """Return the place of each window's first token in the stream of all shards, int64[n]."""
        if self.across_shards:
            return samples * self.stride
        cut = (self._shard_tokens, self.context_len, self.stride)
        shards, places = locate_in_shards(samples, *cut)
        begins: Integers = self._starts[shards] + places
        return begins

    def _fill(self, begins: Integers, windows: npt.NDArray[Any]) -> None:
        """Copy the windows, first from the shards that they begin in, then from the next ones.

        Args:
            begins: int64[n], the place of each window's first token in the stream of all shards.
            windows: integers[n, context_len + 1], filled.
        """
        filled = np.zeros(len(begins), np.int64)
        unfinished = np.arange(len(begins))
        while len(unfinished):
            groups = group(begins[unfinished] + filled[unfinished], self._starts)
            unpack_together([(self.data_set.cache, shard) for shard, _, _ in groups])
            for shard, firsts, places in groups:
                values = stream_of(self.data_set, shard).values
                _copy_windows(values, firsts, unfinished[places], filled, windows)
            unfinished = unfinished[filled[unfinished] < windows.shape[1]]

    def _count(self) -> Integers:
        """Count the windows that begin in each shard, int64[shards]."""
        cut = (self.context_len, self.stride)
        if not self.across_shards:
            return count_shard_examples(self._shard_tokens, *cut)
        # A window begins before a place if its number is below the place divided by the stride.
        before = -(-self._starts // self.stride)
        return np.diff(np.minimum(before, count_examples(int(self._starts[-1]), *cut)))

    def _find_fim_tokens(self) -> tuple[npt.NDArray[np.int64], tuple[int, int, int]]:
        """Return the ids around documents, int64[n], and those that middles need."""
        check_share("fim_rate", self.fim_rate)
        check_share("fim_spm_share", self.fim_spm_share)
        check_seed(self.seed)
        manifest, value = self.data_set.manifest, f"fim_rate={self.fim_rate}"
        if before := manifest.objective.options.get("fim_rate"):
            cause = (
                f"middles were moved when the data set was built, with {option('fim_rate', before)}"
            )
            raise UserError(
                value, cause, f"Omit it, or build the data set without {option('fim_rate')}"
            )
        if manifest.corpus.documents.grouping:
            cause = "its documents are made of several records, whose borders are not stored"
            cure = f"Build the data set with {option('fim_rate')}, which moves middles in records"
            raise UserError(value, cause, cure)
        special = manifest.tokenizer.special
        around = {special.eos_id, *chain.from_iterable(manifest.objective.bounds_of_text or ())}
        around -= {None}
        if not around or any(special.find(role) is None for role in FIM_TOKENS):
            names = ", ".join(names[0] for names in FIM_TOKENS.values())
            cause = f"{MANIFEST} names no special tokens such as {names}"
            raise UserError(value, cause, "Build the data set anew, with a tokenizer that has them")
        return np.array([*around], np.int64), find_tokens(special)


def check_stream(data_set: DataSet) -> None:
    """Refuse a data set whose rows are not a token stream.

    Raises:
        UserError: they are not.
    """
    if data_set.columns[0].width != ANY_LENGTH:
        objective = data_set.manifest.objective
        mode = objective.options.get("mode")
        kind = " ".join(filter(None, [objective.name, mode]))
        cause = f"its examples are of {kind}, and not of a token stream"
        cure = f"Build it with {option('mode', 'stream')}" if mode else "Give one that is a stream"
        raise UserError(str(data_set.folder), cause, cure)


def stream_of(data_set: DataSet, shard: int) -> Lists:
    """Return the documents of a shard of a token stream, in their order.

    Raises:
        UserError: the shard is damaged.
    """
    column = data_set.cache.columns(shard)[data_set.columns[0].name]
    assert isinstance(column, Lists)  # noqa: S101  by the table of columns
    name, tokens = data_set.shards[shard].file, data_set.shards[shard].tokens
    if len(column.values) != tokens:
        cause = f"it has {len(column.values):,} tokens, {MANIFEST} says {tokens:,}"
        raise damaged(data_set.folder, name, cause)
    return column


@njit
def _copy_windows(
    values: np.ndarray,
    firsts: np.ndarray,
    numbers: np.ndarray,
    filled: np.ndarray,
    windows: np.ndarray,
) -> None:
    """Copy the tokens that a shard holds of some windows.

    Args:
        values: integers[tokens of the shard].
        firsts: int64[n], the place in the shard of each window's next token.
        numbers: int64[n], the windows.
        filled: int64[windows], the tokens that each window has already; updated.
        windows: integers[windows, width], filled.
    """
    width = windows.shape[1]
    for i in range(len(numbers)):
        done = filled[numbers[i]]
        count = min(width - done, len(values) - firsts[i])
        # As in copy_lists: assigning one slice to another takes four times as long.
        source = values[firsts[i] : firsts[i] + count]
        target = windows[numbers[i], done : done + count]
        for j in range(len(source)):
            target[j] = source[j]
        filled[numbers[i]] = done + count
