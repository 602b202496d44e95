"""Texts with marks (`corpusmill.tokenization.text_cuts.TextMarks`) to token ids in pieces."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding, Tokenizer

from corpusmill.tokenization.growth import load_tokenizer
from corpusmill.tokenization.text_cuts import APART, BEGIN, END, read_counts
from corpusmill.tokenization.tokenizer_file import rename_tokens, special_names

# Stands before each special token of a text in which others are ordinary text.
_SPECIAL = "\ufdd3"
_MARKS = re.compile(f"[{BEGIN}{END}]")


class MarkedPieces(NamedTuple):
    """The tokens of marked texts.

    Attributes:
        token_ids: integers[tokens].
        piece_offsets: int64[pieces + 1] into the tokens; the first piece of a text is outside of
            its marks, and the next one between them.
        document_offsets: int64[texts + 1] into the pieces.
        counts: of what texts count, of "special_tokens_in_text" that are ordinary text, and of
            "crossing_tokens".
    """

    token_ids: npt.NDArray[np.integer[Any]]
    piece_offsets: npt.NDArray[np.int64]
    document_offsets: npt.NDArray[np.int64]
    counts: Counter[str]


class MarkedTokenizer:
    """Tokenizes marked texts, by the tokenizers library.

    Args:
        tokenizer_json: a complete tokenizer.json.
        special_tokens_in_text: whether what is APART becomes a special token all the same.
    """

    def __init__(self, tokenizer_json: str, special_tokens_in_text: bool = False) -> None:
        # A post-processor may move the places of tokens, and adds nothing here.
        self._described = json.loads(tokenizer_json) | {"post_processor": None}
        self._in_text = special_tokens_in_text
        self._plain = load_tokenizer(json.dumps(self._described))
        names = special_names(self._described)
        self._special = re.compile("|".join(map(re.escape, names)) or r"(?!)")

    @cached_property
    def _renamed(self) -> Tokenizer:
        """The tokenizer whose special tokens have names that no text holds."""
        described: dict[str, Any] = json.loads(json.dumps(self._described))
        names, unknown = {*special_names(described)}, described["model"].get("unk_token")
        rename_tokens(described, names, _SPECIAL)
        if unknown in names:
            described["model"]["unk_token"] = _SPECIAL + unknown
        return Tokenizer.from_str(json.dumps(described))

    def encode(self, text: str) -> tuple[list[str], Encoding]:
        """Tokenize a text; return it as the places of its tokens have it, cut at its marks."""
        pieces = _MARKS.split(read_counts(text)[1])
        tokenizer = self._plain
        if APART in text and not self._in_text:
            tokenizer = self._renamed
            pieces = [self._special.sub(lambda found: _SPECIAL + found[0], one) for one in pieces]
        pieces = [piece.replace(APART, "") for piece in pieces]
        return pieces, tokenizer.encode("".join(pieces), add_special_tokens=False)

    def encode_pieces(self, texts: Iterable[str]) -> MarkedPieces:
        """Tokenize texts, and cut their tokens at their marks."""
        counts, ids = Counter[str](), [np.zeros(0, np.int32)]
        lengths, documents = [np.zeros(1, np.int64)], [0]
        for text in texts:
            pieces, encoding = self.encode(text)
            is_inside, crossing = _find_inside(pieces, encoding)
            counts += Counter(read_counts(text)[0])
            counts += Counter(special_tokens_in_text=text.count(APART), crossing_tokens=crossing)
            # The first piece is outside, and may be empty.
            cuts = np.flatnonzero(np.diff(is_inside, prepend=False))
            lengths.append(np.diff(cuts, prepend=0, append=len(is_inside)))
            documents.append(documents[-1] + len(lengths[-1]))
            ids.append(np.array(encoding.ids, np.int32))
        offsets = np.cumsum(np.concatenate(lengths))
        return MarkedPieces(np.concatenate(ids), offsets, np.array(documents, np.int64), counts)


def _find_inside(pieces: list[str], encoding: Encoding) -> tuple[npt.NDArray[np.bool_], int]:
    """Return whether each token lies between marks, bool[tokens], and how many cross one.

    Args:
        pieces: every second one stands between marks.
        encoding: the tokens of all pieces.
    """
    sizes = np.array([len(piece) for piece in pieces])
    # A token may have no character, as a space that the tokenizer puts before a text.
    letters = np.append(np.repeat(np.arange(len(pieces)) % 2, sizes), 0)
    before = np.concatenate([[0], np.cumsum(letters)])
    places = np.array(encoding.offsets, np.int64).reshape(-1, 2)
    begins, ends = places[:, 0], np.maximum(places[:, 1], places[:, 0] + 1)
    held = before[ends] - before[begins]
    is_inside = held == ends - begins
    return is_inside, int(np.count_nonzero((held > 0) & ~is_inside))
