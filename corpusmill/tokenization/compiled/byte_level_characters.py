"""Characters, and first bytes of them, with which the merging of byte-level BPE may begin.

Let the merges come in order: one that makes a token always has a lower rank than those that join
this token to others. Then merging goes through the ranks from the lowest to the highest. Let the
bytes of a character be merged to one token, and let no other merge take away a token on its left or
right edge before that: each merge that has the character's first token, at some moment, as its
right part has a higher rank than the merge that joins this token within the character, and each
that has its last one as its left part has none that is lower. (If the ranks are equal, so are the
pairs, of which the leftmost comes first.) Then, whatever stands beside the character, its bytes are
merged to its token, and before any pair is joined of which that token is a part.

The same holds for any other bytes that always stand together, such as all bytes of a character but
the last one. In Thai, merges join the last byte of a character with the first two of the next one,
which are the same for most characters: merging can begin with these two as one token.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from corpusmill.tokenization.compiled import byte_level_kernels as kernels
from corpusmill.tokenization.compiled.byte_level_patterns import byte_alphabet
from corpusmill.tokenization.tokenizer_json import Part

# Most bytes of a character, and one that may be the last of any.
_LONGEST, _LAST_BYTE = 4, b"\x80"


def begin_with_characters(merges: kernels.Merges, model: Part) -> kernels.Merges:
    """Let merging begin with characters, or their first bytes, wherever that gives the same ids.

    Args:
        merges: the tables of a model, to begin with bytes.
        model: the BPE model of a tokenizer.json.
    """
    pairs, ranks = merges.joined, np.arange(len(model["merges"]))
    size = max(model["vocab"].values()) + 1
    made, (as_left, as_right) = np.full(size, -1), np.full((2, size), len(pairs))
    np.maximum.at(made, pairs[:, 2], ranks)
    np.minimum.at(as_left, pairs[:, 0], ranks)
    np.minimum.at(as_right, pairs[:, 1], ranks)
    if (made >= np.minimum(as_left, as_right)).any():
        return merges
    tokens = [*byte_tokens(model, _LONGEST).values()]
    merged, joined_last = kernels.merge_tokens(merges, *join_tokens(tokens))
    last = np.full((size, 3), -1)  # both parts of each token, and the rank of their merge
    joined = (merged >= 0) & (np.array([*map(len, tokens)]) > 1)
    last[merged[joined]] = joined_last[joined]
    ids = np.arange(size)
    apart = (last[:, 2] >= 0) & _is_apart(ids, last, 0, as_right) & _is_apart(ids, last, 1, as_left)
    begun = {
        token: number
        for token, number in zip(tokens, merged.tolist(), strict=True)
        if number >= 0 and apart[number]
    }
    codes = {_code_point(token): number for token, number in begun.items()}
    blocks = {_code_point(token + _LAST_BYTE) // 64: number for token, number in begun.items()}
    return merges._replace(characters=_tabulate(codes), prefixes=_tabulate(blocks))


def _is_apart(
    tokens: npt.NDArray[np.int64],
    last: npt.NDArray[np.int64],
    edge: int,
    lowest_ranks: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    """Whether no merge with a token beside them comes before the last one within tokens.

    Args:
        tokens: int64[n], their ids.
        last: int64[ids, 3], both parts of each token and the rank of their merge; -1 for a byte.
        edge: 0 for the left edge, 1 for the right one.
        lowest_ranks: int64[ids], the lowest rank of a merge that joins each token to one beyond
            that edge.
    """
    apart = np.ones(len(tokens), np.bool_)
    for _ in range(_LONGEST - 1):
        parts, ranks = last[tokens, edge], last[tokens, 2]
        is_joined = parts >= 0
        lowest = lowest_ranks[parts]
        apart &= ~is_joined | (lowest > ranks if edge == 0 else lowest >= ranks)
        tokens = np.where(is_joined, parts, tokens)
    return apart


def _tabulate(numbers: dict[int, int]) -> npt.NDArray[np.int32]:
    """Return an array of numbers by their keys; those of negative keys are left out."""
    table = np.full(max(numbers, default=-1) + 1, kernels.NO_TOKEN, np.int32)
    for key, number in numbers.items():
        if key >= 0:
            table[key] = number
    return table


def _code_point(token: bytes) -> int:
    """The code point of a token that is a single character; -1 for others."""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return -1
    return ord(text) if len(text) == 1 else -1


def read_pairs(model: Part) -> npt.NDArray[np.int32]:
    """Return int32[merges, 3]: by rank, the ids of both parts and of the joined token."""
    vocabulary = model["vocab"]
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    ids = [(vocabulary[left], vocabulary[right], vocabulary[left + right]) for left, right in pairs]
    return np.array(ids, np.int32).reshape(-1, 3)


def byte_tokens(model: Part, longest: int) -> dict[str, bytes]:
    """Return the bytes of each token of a vocabulary that has at most `longest` of them."""
    alphabet = byte_alphabet()
    return {
        token: bytes(alphabet[character] for character in token)
        for token in model["vocab"]
        if 0 < len(token) <= longest and alphabet.keys() >= set(token)
    }


def join_tokens(
    tokens: Iterable[bytes],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the bytes of tokens, one after the other, and int64[tokens + 1], where each begins."""
    tokens = [*tokens]
    return np.frombuffer(b"".join(tokens), np.uint8), np.cumsum([0, *map(len, tokens)])
