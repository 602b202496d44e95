"""Counting and locating the examples of a token stream without reading it.

Source: "Building the Dataset and DataLoader for training a large language model" (LLMDataset):
example i of a stream of tokens is `context_len` tokens from place i * stride, and its targets are
the tokens one place later; there are (tokens - context_len - 1) // stride + 1 examples.

A data set of documents that end with the end-of-text token is such a stream: the `input_ids` of its
shards in sequence. The manifest holds the number of tokens of each shard, so that nothing is read
to number the examples. Either the whole split is one stream, as in the source, and an example may
begin in one shard and end in the next; or each shard is a stream of its own, which leaves out up to
context_len + stride tokens per shard and needs one shard at a time.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Stretch(NamedTuple):
    """Consecutive tokens in one shard.

    Attributes:
        shard: the shard's number.
        begin: the first token.
        end: the one after the last token.
    """

    shard: int
    begin: int
    end: int


def count_examples(tokens: int, context_len: int, stride: int) -> int:
    """Return the number of examples in a stream of tokens.

    Args:
        tokens: the tokens of the stream.
        context_len: the tokens of an example's input, at least 1; its targets end one token later.
        stride: the tokens from the beginning of an example to that of the next, at least 1.

    Example:
        10 tokens have 2 examples of context_len 4 with stride 4: inputs from 0 and 4, targets from
        1 and 5.
    """
    return max(0, (tokens - context_len - 1) // stride + 1)


def locate_in_stream(
    example: int, shard_tokens: Sequence[int], context_len: int, stride: int
) -> tuple[Stretch, ...]:
    """Locate the context_len + 1 tokens of an example, if a split's shards are one stream.

    The input is all of these tokens except the last one, the targets all except the first one.

    Args:
        example: 0 to `count_examples(sum(shard_tokens), context_len, stride)` - 1.
        shard_tokens: the tokens of each shard.
        context_len: as in `count_examples`.
        stride: as in `count_examples`.

    Raises:
        IndexError: the example does not exist.

    Example:
        example 1 of shards with 6 and 9 tokens, context_len 4 and stride 4, is the tokens 4 and 5
        of shard 0 and 0 to 2 of shard 1.
    """
    starts = np.cumsum([0, *shard_tokens], dtype=np.int64)
    count = count_examples(int(starts[-1]), context_len, stride)
    if not 0 <= example < count:
        raise IndexError(f"example {example} does not exist: the stream has {count}")
    begin = example * stride
    end = begin + context_len + 1
    first = int(np.searchsorted(starts, begin, side="right")) - 1
    last = int(np.searchsorted(starts, end, side="left"))
    stretches = []
    for shard in range(first, last):
        start, stop = int(starts[shard]), int(starts[shard + 1])
        if start < stop:
            stretches.append(Stretch(shard, max(begin, start) - start, min(end, stop) - start))
    return tuple(stretches)


def count_shard_examples(
    shard_tokens: Sequence[int], context_len: int, stride: int
) -> npt.NDArray[np.int64]:
    """Return the number of examples in each shard, if each is a stream of its own.

    Returns:
        int64[shards].
    """
    counts = [count_examples(tokens, context_len, stride) for tokens in shard_tokens]
    return np.array(counts, np.int64)


def locate_in_shards(
    examples: npt.NDArray[np.int64], shard_tokens: Sequence[int], context_len: int, stride: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Locate the beginnings of examples, if each shard is a stream of its own.

    Args:
        examples: int64[n], numbered consecutively through all shards.
        shard_tokens: the tokens of each shard.
        context_len: as in `count_examples`.
        stride: as in `count_examples`.

    Returns:
        shards: int64[n].
        begins: int64[n], the first token's place in its shard.

    Raises:
        IndexError: an example does not exist.

    Example:
        shards with 6 and 9 tokens have the examples 0 and 1, 2 with context_len 4 and stride 4;
        example 2 begins at token 4 of shard 1.
    """
    ends = np.cumsum(count_shard_examples(shard_tokens, context_len, stride))
    count = int(ends[-1]) if len(ends) else 0
    if ((examples < 0) | (examples >= count)).any():
        raise IndexError(f"there are {count} examples, numbered from 0")
    shards = np.searchsorted(ends, examples, side="right")
    firsts = np.concatenate([[0], ends[:-1]])
    return shards, (examples - firsts[shards]) * stride
