"""A tokenizer that was trained, as a Python program gets it."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from corpusmill.errors import UserError


@dataclass(frozen=True)
class TrainedTokenizer:
    """A tokenizer.json that was written. Whatever takes a path takes it as well.

    Attributes:
        path: its file: a path, or a URL.
        model: the kind of tokenizer ("wordpiece").
        remarks: what the training had to say, in words: the size of the vocabulary, and what was
            left out.
    """

    path: str
    model: str
    remarks: tuple[str, ...] = ()

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<{'; '.join(self.remarks) or self.path}>"

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer, as a `tokenizers.Tokenizer`.

        Raises:
            UserError: its file is not on this machine.
        """
        from tokenizers import Tokenizer  # noqa: PLC0415  takes a while to load

        path = Path(self.path).expanduser()
        if not path.is_file():
            cause = "it is not a file of this machine"
            raise UserError(self.path, cause, "Copy it, and open it with tokenizers")
        return Tokenizer.from_file(str(path))

    @property
    def vocab_size(self) -> int:
        """The number of its tokens, special tokens included."""
        size: int = self.tokenizer.get_vocab_size(with_added_tokens=True)
        return size

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of a text, without special tokens around them."""
        tokens: list[str] = self.tokenizer.encode(text, add_special_tokens=False).tokens
        return tokens
