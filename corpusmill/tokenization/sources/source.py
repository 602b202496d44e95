"""What the kinds of tokenizer files have in common: their surroundings, result and refusals."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from tokenizers import Tokenizer

from corpusmill.errors import UserError, option
from corpusmill.tokenization.tokenizer_file import Encode, TokenizerOptions

CURE = (
    "Give a tokenizer.json, a vocab.txt, a vocab.json with its merges.txt, a .tiktoken or "
    "SentencePiece .model file, a folder with one of them, tiktoken:NAME, bytes or a name on "
    "the Hugging Face hub; `train-tokenizer` makes one"
)
INSTALL = "Install it: pip install 'corpusmill[tokenizers]'"

ReadBytes = Callable[[str], bytes | None]
Companions = Mapping[str, Mapping[str, Any]]


class SourceFile(NamedTuple):
    """A tokenizer's main file and its surroundings.

    Attributes:
        name: the tokenizer as the user named it.
        path: the main file; for an encoding of the tiktoken library, its name.
        content: the file's bytes.
        companions: parsed files beside it, by name.
        read_bytes: returns the bytes of a path, or None if there is no such file.
        options: how to read it, as the user gave them.
    """

    name: str
    path: str
    content: bytes
    companions: Companions
    read_bytes: ReadBytes
    options: TokenizerOptions

    @property
    def config(self) -> Mapping[str, Any]:
        """The parsed tokenizer_config.json; empty if there is none."""
        return self.companions.get("tokenizer_config.json", {})

    def refuse(self, cause: str, cure: str = CURE) -> NoReturn:
        """Raise the UserError of a tokenizer that cannot be used."""
        refuse(self.name, cause, cure)

    def check_options(self, form: str, *applicable: str) -> None:
        """Refuse options that mean nothing for a kind of file.

        Args:
            form: the kind of file, in words.
            applicable: names of the options that mean something.

        Raises:
            UserError: another option has a value.
        """
        kinds = {"lowercase": "vocab.txt or .model", "strip_accents": "vocab.txt or .model",
                 "tiktoken_pattern": "tiktoken file"}  # fmt: skip
        for name, kind in kinds.items():
            value = getattr(self.options, name)
            if value is not None and name not in applicable:
                raise UserError(
                    option(name, value, is_switch=False),
                    f"it is for a {kind}, and {option('tokenizer', self.name)} is a {form}",
                    "Leave it out",
                )


@dataclass(frozen=True)
class Source:
    """A tokenizer after its conversion.

    Attributes:
        form: the kind of file, in words.
        tokenizer: the equal tokenizer of the tokenizers library.
        options: the options it was read with, guessed values included.
        reference: encodes texts with the library that the file was made for, without special
            tokens around them; None if that is the tokenizers library itself.
    """

    form: str
    tokenizer: Tokenizer
    options: TokenizerOptions
    reference: Encode | None = None


def refuse(name: str, cause: str, cure: str = CURE) -> NoReturn:
    """Raise the UserError of a tokenizer that cannot be used."""
    raise UserError(option("tokenizer", name), cause, cure) from None


def list_merges(ranks: Mapping[str, Any], *, sort_splits: bool) -> list[tuple[str, str]]:
    """Every split of a token into two other tokens, in the order of the tokens' ranks.

    Args:
        ranks: a sortable rank for each token.
        sort_splits: whether the splits of one token are in the order of their parts' ranks; if
            not, the shortest left part is first.

    Example:
        for the ranks {"a": 0, "b": 1, "ab": 2}: [("a", "b")].
    """
    merges = []
    for token in sorted(ranks, key=ranks.__getitem__):
        splits = [(token[:place], token[place:]) for place in range(1, len(token))]
        known = [split for split in splits if split[0] in ranks and split[1] in ranks]
        if sort_splits:
            known.sort(key=lambda split: (ranks[split[0]], ranks[split[1]]))
        merges += known
    return merges
