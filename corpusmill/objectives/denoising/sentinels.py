"""Sentinels, which stand for what was left out, by the roles of special tokens."""

from collections.abc import Mapping, Sequence

from corpusmill.errors import UserError
from corpusmill.tokenization.tokenizer_file import Vocabulary


def sentinel_roles(number: int) -> Mapping[str, Sequence[str]]:
    """Return the roles of sentinels in their order, with T5's names, which are the usual ones."""
    return {f"sentinel_{place}": (f"<extra_id_{place}>",) for place in range(number)}


def find_sentinels(tokenizer: Vocabulary, number: int, row_tokens: int) -> tuple[int, ...]:
    """Return the ids of the sentinels in their order.

    Args:
        tokenizer: with the roles of `sentinel_roles`.
        number: how many there must be.
        row_tokens: the tokens of the longest row, for the message.

    Raises:
        UserError: the tokenizer lacks one.
    """
    found = list(map(tokenizer.special.find, sentinel_roles(number)))
    if None in found:
        raise UserError(
            f"--tokenizer {tokenizer.name}",
            f"rows of up to {row_tokens} tokens have up to {number} spans, and of as many "
            f"sentinels, <extra_id_0> to <extra_id_{number - 1}>, it lacks "
            f"<extra_id_{found.index(None)}>",
            "Add them to the tokenizer as special tokens, train one with `train-tokenizer "
            "--special-tokens` and their names, or give a smaller --max-seq-length or longer spans",
        )
    return tuple(token for token in found if token is not None)


def find_modes(tokenizer: Vocabulary, roles: Mapping[str, Sequence[str]]) -> Mapping[str, int]:
    """Return the ids of the tokens of modes by role.

    Raises:
        UserError: the tokenizer lacks one.
    """
    ids: dict[str, int] = {}
    for role, names in roles.items():
        token = tokenizer.special.find(role)
        if token is None:
            raise UserError(
                f"--tokenizer {tokenizer.name}",
                f"it has no special token {' or '.join(names)}, which begins inputs of a mode",
                "Add it to the tokenizer, train one with `train-tokenizer --special-tokens "
                f"{names[0]}` and the others, or name another with --role-tokens {role}=...",
            )
        ids[role] = token
    return ids
