"""Examples of a token stream, counted and found without reading it.

Source: "Building the Dataset and DataLoader for training a large language model" (LLMDataset): of a
stream of tokens, example i is `context_len` tokens from place i * stride, and its targets are the
tokens one place later; there are (tokens - context_len - 1) // stride + 1 examples.

A data set of documents that end with the end-of-text token is such a stream: its shards'
`input_ids`, one behind the other. How many tokens each shard has is in the manifest, so that
nothing is read to number the examples. An example may begin in one shard and end in the next (the
whole split is one stream, as in the source), or each shard is a stream of its own, which leaves out
up to context_len + stride tokens a shard, and needs one shard at a time.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Stretch(NamedTuple):
    """Tokens that lie next to each other in one shard.

    Attributes:
        shard: its number.
        begin: first token.
        end: behind the last token.
    """

    shard: int
    begin: int
    end: int


def count_examples(tokens: int, context_len: int, stride: int) -> int:
    """How many examples a stream of tokens has.

    Args:
        tokens: of the stream.
        context_len: tokens of an example's input, 1 or more; its targets reach one token further.
        stride: tokens from the beginning of an example to that of the next, 1 or more.

    Example:
        10 tokens have 2 examples of context_len 4 with stride 4: inputs from 0 and 4, targets from
        1 and 5.
    """
    return max(0, (tokens - context_len - 1) // stride + 1)


def locate_in_stream(
    example: int, shard_tokens: Sequence[int], context_len: int, stride: int
) -> tuple[Stretch, ...]:
    """Where the context_len + 1 tokens of an example lie, where a split's shards are one stream.

    Input and targets are all of these tokens but the last, and but the first.

    Args:
        example: from 0, below `count_examples(sum(shard_tokens), context_len, stride)`.
        shard_tokens: tokens of each shard.
        context_len: as in `count_examples`.
        stride: as in `count_examples`.

    Raises:
        IndexError: there is no such example.

    Example:
        example 1 of shards with 6 and 9 tokens, context_len 4 and stride 4, is token 4 to 6 of
        shard 0 and token 0 to 3 of shard 1.
    """
    starts = np.cumsum([0, *shard_tokens], dtype=np.int64)
    number = count_examples(int(starts[-1]), context_len, stride)
    if not 0 <= example < number:
        raise IndexError(f"there is no example {example}; the stream has {number}")
    begin = example * stride
    end = begin + context_len + 1
    first = int(np.searchsorted(starts, begin, side="right")) - 1
    behind = int(np.searchsorted(starts, end, side="left"))
    found = []
    for shard in range(first, behind):
        start, stop = int(starts[shard]), int(starts[shard + 1])
        if start < stop:
            found.append(Stretch(shard, max(begin, start) - start, min(end, stop) - start))
    return tuple(found)


def count_shard_examples(
    shard_tokens: Sequence[int], context_len: int, stride: int
) -> npt.NDArray[np.int64]:
    """int64[shards]: how many examples each shard has, where each is a stream of its own."""
    counts = [count_examples(tokens, context_len, stride) for tokens in shard_tokens]
    return np.array(counts, np.int64)


def locate_in_shards(
    examples: npt.NDArray[np.int64], shard_tokens: Sequence[int], context_len: int, stride: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where examples begin, where each shard is a stream of its own.

    Args:
        examples: int64[n], numbered through all shards.
        shard_tokens: tokens of each shard.
        context_len: as in `count_examples`.
        stride: as in `count_examples`.

    Returns:
        shards: int64[n].
        begins: int64[n], the first token's place in its shard.

    Raises:
        IndexError: there is no such example.

    Example:
        shards with 6 and 9 tokens have the examples 0 and 1, 2 with context_len 4 and stride 4;
        example 2 begins at token 4 of shard 1.
    """
    behind = np.cumsum(count_shard_examples(shard_tokens, context_len, stride))
    number = int(behind[-1]) if len(behind) else 0
    if ((examples < 0) | (examples >= number)).any():
        raise IndexError(f"there are {number} examples, numbered from 0")
    shards = np.searchsorted(behind, examples, side="right")
    firsts = np.concatenate([[0], behind[:-1]])
    return shards, (examples - firsts[shards]) * stride
