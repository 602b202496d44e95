"""A tokenizer as it travels: its tokenizer.json, its special tokens, and how it was read.

Only types live here, so that code that names them need not load the tokenizers library.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Protocol, Self

import numpy as np

from corpusmill.arrays.columns import smallest_integer
from corpusmill.errors import UserError
from corpusmill.tokenization.special_tokens import SpecialTokens, add_roles

TOKENIZER_JSON = "tokenizer.json"
PATTERN_CHOICES = "gpt2, r50k, p50k, cl100k, o200k or a regular expression"

# The largest vocabulary: kernels and libraries keep a table of all ids up to the largest.
MOST_TOKENS = 2**24

Encode = Callable[[list[str]], list[list[int]]]


@dataclass(frozen=True)
class TokenizerOptions:
    """How to read a tokenizer whose file does not say everything."""

    lowercase: bool | None = None
    """For a vocab.txt: lower-case the text, like BERT's do_lower_case. By default the
    tokenizer_config.json beside it decides; without one, text is lower-cased if no word of the
    vocabulary has an upper-case letter."""
    strip_accents: bool | None = None
    """For a vocab.txt: strip accents. By default the tokenizer_config.json beside it decides;
    without one, accents are stripped if the text is lower-cased."""
    special_tokens_in_text: bool = True
    """Turn a special token that occurs in the text, such as <|endoftext|> or [SEP], into its id; if
    not, tokenize it as ordinary text."""
    tiktoken_pattern: str | None = None
    """For a tiktoken file: what breaks text into pieces; gpt2, r50k, p50k, cl100k, o200k, or a
    regular expression. By default the file's name decides."""

    role_tokens: tuple[str, ...] = ()
    """Special tokens of the roles that an objective needs, as role=token, where the tokenizer has
    none of the usual names: fim_prefix=<PRE> fim_suffix=<SUF> fim_middle=<MID>."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: the pattern is empty, or a role or its token is.
        """
        for pair in self.role_tokens:
            if not all(pair.partition("=")):
                cause = "it is not of the form role=token"
                raise UserError(f"--role-tokens {pair}", cause, "Give fim_prefix=<PRE>, say")
        if self.tiktoken_pattern is not None and not self.tiktoken_pattern.strip():
            raise UserError("--tiktoken-pattern ''", "it is empty", f"Give {PATTERN_CHOICES}")


@dataclass(frozen=True)
class TokenizerFile:
    """A tokenizer, ready to be sent to workers.

    Attributes:
        name: as the user gave it.
        json: a complete tokenizer.json, without padding, truncation and dropout.
        vocab_size: largest id + 1, added tokens included.
        special: the special tokens.
        digest: hexadecimal sha256 of `json`.
        form: the kind of file, in words.
        options: the options it was read with, guessed values included.
        revision: the commit on the Hugging Face hub; None for a file.
        reference: encodes texts with the library that the file was made for; None if that is the
            tokenizers library itself. It stays in the process that read the file.
    """

    name: str
    json: str
    vocab_size: int
    special: SpecialTokens
    digest: str
    form: str = TOKENIZER_JSON
    options: TokenizerOptions = field(default_factory=TokenizerOptions)
    revision: str | None = None
    reference: Encode | None = field(default=None, compare=False, repr=False)

    @property
    def public_name(self) -> str:
        """The name without the folders of this machine or of a store.

        Example:
            /home/me/bert/ is bert; org/bert, fetched from the hub, and tiktoken:gpt2 stay.
        """
        if self.revision is not None:
            return self.name
        return PurePosixPath(self.name).name or TOKENIZER_JSON

    @property
    def token_dtype(self) -> np.dtype:
        """The smallest of int16, uint16 and int32 that holds every id."""
        return token_dtype(self.vocab_size)

    def with_roles(self, roles: Mapping[str, Sequence[str]]) -> Self:
        """Return the tokenizer with the special tokens of further roles, which `add_roles` finds.

        Args:
            roles: for each role the usual names of its token (`ObjectiveOptions.special_tokens`).

        Raises:
            UserError: the option `role_tokens` names another role, or a token that does not exist.
        """
        named = dict(pair.split("=", 1) for pair in self.options.role_tokens)
        if unknown := sorted(named.keys() - roles.keys()):
            cause = "the objective does not ask for this role"
            cure = f"Give one of {', '.join(roles)}" if roles else "Leave it out"
            raise UserError(f"--role-tokens {unknown[0]}={named[unknown[0]]}", cause, cure)
        wanted = {role: [named[role]] if role in named else names for role, names in roles.items()}
        special = add_roles(self.special, json.loads(self.json), wanted) if roles else self.special
        for role, token in named.items():
            if special.find(role) is None:
                cause = f"the tokenizer {self.name} has no special token of this name"
                raise UserError(f"--role-tokens {role}={token}", cause, "Correct the name")
        return replace(self, special=special)


class Vocabulary(Protocol):
    """What an objective needs to know of a tokenizer, or of the data that it made."""

    @property
    def name(self) -> str:
        """The tokenizer's name, for messages."""

    @property
    def vocab_size(self) -> int:
        """The largest id + 1."""

    @property
    def special(self) -> SpecialTokens:
        """The special tokens."""

    @property
    def token_dtype(self) -> np.dtype:
        """The type of token ids."""


def token_dtype(vocab_size: int) -> np.dtype:
    """The smallest of int16, uint16 and int32 that holds every id."""
    return smallest_integer(max(vocab_size - 1, np.iinfo(np.int16).max))
