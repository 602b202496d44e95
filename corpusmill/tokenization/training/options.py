"""What the training of every model has: special tokens, normalizers, a bound of memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tokenizers import normalizers

from corpusmill.errors import UserError

NormalizerName = Literal["nfc", "nfd", "nfkc", "nfkd", "lowercase", "strip-accents"]

# Marks stand alone only in decomposed text; what is left is composed again, as Korean syllables
# would stay in pieces.
_NORMALIZERS = {
    "nfc": (normalizers.NFC,),
    "nfd": (normalizers.NFD,),
    "nfkc": (normalizers.NFKC,),
    "nfkd": (normalizers.NFKD,),
    "lowercase": (normalizers.Lowercase,),
    "strip-accents": (normalizers.NFD, normalizers.StripAccents, normalizers.NFC),
}


@dataclass(frozen=True)
class TrainingOptions:
    """What the training of every model has."""

    vocab_size: int | None = None
    """Most tokens in the vocabulary, special tokens included; None for no limit."""
    special_tokens: tuple[str, ...] = ()
    """Tokens that text is never cut into, in the order of their ids."""
    normalizers: tuple[NormalizerName, ...] = ()
    """What is done to text before it is cut, in the given order."""
    max_distinct_words: int = 5_000_000
    """Distinct words, with what clings to them, that are counted at a time; about 600 MB, and many
    times as much where words are whole clauses (Chinese, for bpe and unigram): give less there, or
    a sample. Where a corpus holds more, the rarest are dropped whenever that many have gathered."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value that no tokenizer can be trained with.
        """
        _check_special_tokens(self.special_tokens)
        for name in self.normalizers:
            if name not in _NORMALIZERS:
                raise UserError(
                    f"--normalizers {name}",
                    "there is no such normalizer",
                    f"Give some of {', '.join(_NORMALIZERS)}",
                )
        check_at_least(1, "--max-distinct-words", self.max_distinct_words)


def _check_special_tokens(tokens: Sequence[str]) -> None:
    given = f"--special-tokens {' '.join(tokens)}"
    if not all(tokens):
        raise UserError(given, "one of them is empty", "Give tokens of one character or more")
    twice = [token for place, token in enumerate(tokens) if token in tokens[:place]]
    if twice:
        raise UserError(given, f"{twice[0]} is given twice", "Give each token once")


def check_at_least(least: int, flag: str, value: int) -> None:
    """Refuse a value below the least possible one.

    Raises:
        UserError: it is.
    """
    if value < least:
        raise UserError(f"{flag} {value}", f"it is less than {least}", f"Give {least} or more")


def check_vocab_size(vocab_size: int, least: int, of_what: str) -> None:
    """Refuse a vocabulary without room for what it must hold.

    Args:
        vocab_size: as asked for.
        least: tokens that it must hold.
        of_what: these, in words.

    Raises:
        UserError: it has none.
    """
    if vocab_size < least:
        raise UserError(
            f"--vocab-size {vocab_size}", f"{of_what} alone need {least}", f"Give {least} or more"
        )


def check_unknown_token(unk_token: str, special_tokens: Sequence[str]) -> None:
    """Refuse a token for unknown words that is none of the special tokens.

    Raises:
        UserError: it is none.
    """
    if unk_token not in special_tokens:
        raise UserError(
            f"--unk-token {unk_token}",
            f"it is none of the special tokens {' '.join(special_tokens)}",
            "Name one of them, or add it to --special-tokens",
        )


def make_normalizers(names: Sequence[NormalizerName]) -> list[normalizers.Normalizer]:
    """The normalizers of the given names, in the same order."""
    return [kind() for name in names for kind in _NORMALIZERS[name]]


def join_normalizers(steps: Sequence[normalizers.Normalizer]) -> normalizers.Normalizer | None:
    """One normalizer of several; None of none."""
    if len(steps) == 1:
        return steps[0]
    return normalizers.Sequence(list(steps)) if steps else None
