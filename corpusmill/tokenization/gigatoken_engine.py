"""gigatoken as the tokenizer of long texts, for those who ask for it and have it installed.

Source: https://github.com/marcelroed/gigatoken, which Megatron-LM's preprocess_data_fast.py calls.
It tokenizes several times as fast as the kernels here, and remembers words without a bound. It is
compared with our own tokenizer before a build, and on one text of each batch during it.
"""

from importlib import import_module
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from corpusmill.errors import UserError, option

Engine = Literal["own", "gigatoken"]
FLAG = option("tokenizer_engine", "gigatoken")
# Calls for shorter texts take longer than to look up their words.
_SHORT = 256


class Gigatoken:
    """A tokenizer of gigatoken's.

    Args:
        tokenizer_json: a complete tokenizer.json.

    Raises:
        UserError: gigatoken is not installed, or does not know such a tokenizer.
    """

    def __init__(self, tokenizer_json: str) -> None:
        try:
            package: Any = import_module("gigatoken")
        except ModuleNotFoundError:
            cure = "Install it on every worker (pip install gigatoken), or leave the option out"
            raise UserError(FLAG, "gigatoken is not installed", cure) from None
        try:
            self._backend = package.Tokenizer.from_json(tokenizer_json.encode()).backend
        except Exception as error:  # Rust's errors have no common class
            cause = f"gigatoken cannot load this tokenizer ({error})"
            raise UserError(FLAG, cause, "Leave it out") from None

    def encode(
        self, text: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Tokenize texts, as `SentenceTokenizer.encode` does."""
        bounds, encode, content = offsets.tolist(), self._backend.encode, text.tobytes()
        rows = [encode(content[start:end]) for start, end in pairwise(bounds)]
        ends = np.zeros(len(offsets), np.int64)
        np.cumsum([len(row) for row in rows], out=ends[1:])
        return np.concatenate([np.empty(0, np.uint32), *rows]), ends


def is_worthwhile(offsets: npt.NDArray[np.int64]) -> bool:
    """Return whether texts are long enough on average to be given to gigatoken.

    Args:
        offsets: int64[texts + 1] into a text.
    """
    return bool(offsets[-1] - offsets[0] >= _SHORT * max(1, len(offsets) - 1))


def other_ids(difference: object) -> UserError:
    """Make the error for a text to which gigatoken gives other ids than the tokenizers library."""
    cause = f"gigatoken gives a text of the corpus other ids than the tokenizer: {difference}"
    return UserError(FLAG, cause, "Leave it out")
