"""Words as runs of pieces, by the vocabulary instead of the text: the rule `wordpiece`.

Google's programs count as a word what a WordPiece tokenizer made of one: a piece and the pieces
that continue it, which its vocabulary marks ("un ##aff ##able"). A SentencePiece vocabulary marks
the pieces that begin a word instead ("\u2581un aff able"); there ALBERT's program takes a piece for
one that continues if it has nothing but Latin letters and punctuation, and is not a single sign.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from corpusmill.errors import UserError

_BEGIN = "\u2581"
_LETTERS_AND_SIGNS = re.compile(r"""[A-Za-z!"#$%&()*+,\-./:;?@\[\\\]^_`{|}~]+""")


def find_continuing(tokenizer: Tokenizer, model: dict[str, Any]) -> npt.NDArray[np.bool_]:
    """Find the tokens of a vocabulary that continue a word wherever they stand.

    Args:
        tokenizer: the tokenizer.
        model: the part "model" of its tokenizer.json.

    Returns:
        bool[largest id + 1].

    Raises:
        UserError: there is no such token.

    Example:
        the vocabulary un, ##aff and ##able, with ids from 0, gives [False, True, True].
    """
    prefix = model.get("continuing_subword_prefix") or ""
    added = tokenizer.get_added_tokens_decoder().keys()
    vocabulary = tokenizer.get_vocab(with_added_tokens=False)
    pieces = {token: number for token, number in vocabulary.items() if number not in added}
    ids = list(_list_continuing(pieces, prefix))
    if not ids:
        raise UserError(
            "--words wordpiece",
            "no piece of the tokenizer's vocabulary is marked as one that continues a word, as "
            "##ing is, or as one that begins a word, as in SentencePiece's",
            "Give a WordPiece or SentencePiece tokenizer, or another rule of words, such as "
            "unicode",
        )
    continuing = np.zeros(max(tokenizer.get_vocab().values()) + 1, np.bool_)
    continuing[ids] = True
    return continuing


def _list_continuing(vocabulary: dict[str, int], prefix: str) -> Iterator[int]:
    if prefix:
        yield from (number for token, number in vocabulary.items() if token.startswith(prefix))
    elif any(token.startswith(_BEGIN) for token in vocabulary):
        for token, number in vocabulary.items():
            is_sign = len(token) == 1 and not token.isalpha()
            if _LETTERS_AND_SIGNS.fullmatch(token) and not is_sign:
                yield number
