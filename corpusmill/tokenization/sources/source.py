"""What every kind of tokenizer file is turned into, and the options of reading it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from tokenizers import Tokenizer

from corpusmill.errors import UserError

CURE = (
    "Give a tokenizer.json, a vocab.txt, a vocab.json with its merges.txt, a .tiktoken or "
    "SentencePiece .model file, a folder with one of them, tiktoken:NAME or a name on the "
    "Hugging Face hub; `train-tokenizer` makes one"
)

ReadBytes = Callable[[str], bytes | None]
Encode = Callable[[list[str]], list[list[int]]]


@dataclass(frozen=True)
class TokenizerOptions:
    """How a tokenizer is read that does not say all by itself."""

    lowercase: bool | None = None
    """Of a vocab.txt: lower-case the text, as BERT's do_lower_case. By default as the
    tokenizer_config.json beside it says; without one, where no word of the vocabulary has an
    upper-case letter."""
    strip_accents: bool | None = None
    """Of a vocab.txt: strip accents. By default as the tokenizer_config.json beside it says;
    without one, where the text is lower-cased."""
    special_tokens_in_text: bool = True
    """A special token that stands in the text, such as <|endoftext|> or [SEP], becomes its id; if
    not, it is tokenized as ordinary text."""
    tiktoken_pattern: str | None = None
    """Of a tiktoken file: what breaks text into pieces; gpt2, r50k, p50k, cl100k, o200k, or a
    regular expression. By default the one that the file's name tells of."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: the pattern is empty.
        """
        if self.tiktoken_pattern is not None and not self.tiktoken_pattern.strip():
            raise UserError(
                "--tiktoken-pattern ''",
                "it is empty",
                "Give gpt2, r50k, p50k, cl100k, o200k or a regular expression",
            )

    def refuse_inapplicable(self, path: str, form: str, *applicable: str) -> None:
        """Refuse options that are given and mean nothing for a kind of file.

        Args:
            path: the tokenizer.
            form: what it is.
            applicable: names of the options that mean something.

        Raises:
            UserError: such an option is given.
        """
        kinds = {"lowercase": "vocab.txt", "strip_accents": "vocab.txt",
                 "tiktoken_pattern": "tiktoken file"}  # fmt: skip
        for name, kind in kinds.items():
            value = getattr(self, name)
            if value is not None and name not in applicable:
                raise UserError(
                    f"--{name.replace('_', '-')} {value}",
                    f"it is for a {kind}, and --tokenizer {path} is a {form}",
                    "Leave it out",
                )


@dataclass(frozen=True)
class Source:
    """A tokenizer as it was found.

    Attributes:
        form: what the file is, in words.
        tokenizer: the same for the tokenizers library.
        options: as given, with what was guessed filled in.
        companions: parsed files beside it, by name.
        reference: texts to their ids by the library that the file was made for, without special
            tokens around them; None where that is the tokenizers library itself.
    """

    form: str
    tokenizer: Tokenizer
    options: TokenizerOptions
    companions: dict[str, dict[str, object]] = field(default_factory=dict)
    reference: Encode | None = None


def refuse(path: str, cause: str, cure: str = CURE) -> NoReturn:
    """Raise the UserError of a tokenizer that cannot be used."""
    raise UserError(f"--tokenizer {path}", cause, cure) from None
