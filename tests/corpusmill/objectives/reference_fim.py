"""Fill in the middle in plain Python, to compare the kernels with.

Sources: Bavarian et al. 2022, "Efficient Training of Language Models to Fill in the Middle"
(section 3; SPM is variant 2), and Megatron-LM's data set for it, of which empty texts lose their
end-of-text token; here they keep it.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

PREFIX, MIDDLE, SUFFIX = 1, 2, 3
ROLES = (PREFIX, MIDDLE, SUFFIX)


def cut(contents: Any, rate: float, random: Random) -> list[Any]:
    """Cut a document into prefix, middle and suffix with the probability `rate`."""
    if random.random() >= rate:
        return [contents]
    low, high = sorted(random.randint(0, len(contents)) for _ in range(2))
    return [contents[:low], contents[low:high], contents[high:]]


def permute(tokens: list[int], rate: float, spm: float, random: Random) -> list[int]:
    """Transform a document with the probability `rate`."""
    if len(parts := cut(tokens, rate, random)) == 1:
        return tokens
    prefix, middle, suffix = parts
    if random.random() < spm:
        return [PREFIX, SUFFIX, *suffix, MIDDLE, *prefix, *middle]
    return [PREFIX, *prefix, SUFFIX, *suffix, MIDDLE, *middle]


def permute_window(
    window: Sequence[int], end_of_text: int, rate: float, spm: float, random: Random
) -> list[int]:
    """Transform each text of a window, and cut the result to the window's length."""
    texts: list[list[int]] = [[]]
    for token in window:
        if token == end_of_text:
            texts.append([])
        else:
            texts[-1].append(token)
    permuted = [permute(text, rate, spm, random) if text else [] for text in texts]
    joined = [token for text in permuted for token in [*text, end_of_text]]
    return joined[: len(window)]


def undo(tokens: Sequence[int], roles: tuple[int, int, int] = ROLES) -> list[int]:
    """Return a document as it was before; its tokens must not contain the special ones."""
    prefix, middle, suffix = roles
    if prefix not in tokens:
        return [*tokens]
    assert tokens[0] == prefix
    first, second = tokens.index(suffix), tokens.index(middle)
    return [*tokens[1:first], *tokens[second + 1 :], *tokens[first + 1 : second]]
