"""The special tokens of filling in the middle."""

from collections.abc import Mapping, Sequence

from corpusmill.errors import UserError
from corpusmill.tokenization.special_tokens import SpecialTokens

# The special tokens by role, with the names that models have given them.
FIM_TOKENS: Mapping[str, Sequence[str]] = {
    "fim_prefix": ("<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "<PRE>", "\u2581<PRE>"),
    "fim_middle": ("<|fim_middle|>", "<fim_middle>", "<fim-middle>", "<MID>", "\u2581<MID>"),
    "fim_suffix": ("<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "<SUF>", "\u2581<SUF>"),
}


def require_tokens(tokenizer_name: str, special: SpecialTokens) -> None:
    """Make sure that a tokenizer has the special tokens.

    Raises:
        UserError: it lacks one.
    """
    missing = [names[0] for role, names in FIM_TOKENS.items() if special.find(role) is None]
    if missing:
        names = " ".join(f"'{names[0]}'" for names in FIM_TOKENS.values())
        raise UserError(
            f"--tokenizer {tokenizer_name}",
            f"it has no special token {', '.join(missing)}, which filling in the middle needs",
            "Add the token to the tokenizer as a special token, or train one with "
            f"`train-tokenizer --model bpe --special-tokens '<|endoftext|>' {names}`",
        )


def find_tokens(special: SpecialTokens) -> tuple[int, int, int]:
    """Return the ids of FIM_TOKENS, in their order; `require_tokens` has made sure of them."""
    prefix, middle, suffix = (special.find(role) for role in FIM_TOKENS)
    assert prefix is not None and middle is not None and suffix is not None  # noqa: PT018, S101
    return prefix, middle, suffix
