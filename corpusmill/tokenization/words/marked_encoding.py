"""Texts to token ids, which a rule of words marks: whether each continues the word before it.

The rule `wordpiece` finds words as runs of pieces, by the vocabulary instead of the text. Google's
programs count as a word what a WordPiece tokenizer made of one: a piece and the pieces that
continue it, which its vocabulary marks ("un ##aff ##able"). A SentencePiece vocabulary marks the
pieces that begin a word instead ("▁un aff able"); there ALBERT's program takes a piece for one that
continues if it has nothing but Latin letters and punctuation, and is not a single sign.
"""

import re
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from corpusmill.errors import UserError, option
from corpusmill.knobs import knob
from corpusmill.tokenization.compiled.units import EncodeSpans, completed
from corpusmill.tokenization.tokenizer_file import mark
from corpusmill.tokenization.words.words import WordRule, find_words

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
    ids = []
    if prefix:
        ids = [number for token, number in pieces.items() if token.startswith(prefix)]
    elif any(token.startswith(_BEGIN) for token in pieces):
        ids = [
            number
            for token, number in pieces.items()
            if _LETTERS_AND_SIGNS.fullmatch(token) and (len(token) > 1 or token.isalpha())
        ]
    if not ids:
        raise UserError(
            option("words", "wordpiece"),
            "no piece of the tokenizer's vocabulary is marked as one that continues a word, as "
            "##ing is, or as one that begins a word, as in SentencePiece's",
            "Give a WordPiece or SentencePiece tokenizer, or another rule of words, such as "
            "unicode",
        )
    continuing = np.zeros(max(tokenizer.get_vocab().values()) + 1, np.bool_)
    continuing[ids] = True
    return continuing


TEXTS_PER_CALL = knob("texts_per_call", 4096, test=3)
"""The texts that the tokenizers library gets at once. While it exists, an encoding takes some
hundred bytes a token."""


def encode_texts(
    tokenizer: Tokenizer, rule: WordRule | None, texts: list[str]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Tokenize texts with the tokenizers library.

    Args:
        tokenizer: the tokenizer.
        rule: marks the ids; None leaves them unmarked.
        texts: the texts.

    Returns:
        ids: int32[tokens], one text's after another's.
        offsets: int64[texts + 1] into the ids.
    """
    # The fast method leaves the offsets out.
    encode = tokenizer.encode_batch_fast if rule is None else tokenizer.encode_batch
    offsets = np.zeros(len(texts) + 1, np.int64)
    parts = [np.empty(0, np.int32)]
    for first in range(0, len(texts), TEXTS_PER_CALL):
        batch = texts[first : first + TEXTS_PER_CALL]
        encodings = encode(batch, add_special_tokens=False)
        rows = [encoding.ids for encoding in encodings]
        counts = np.array([len(row) for row in rows], np.int64)
        offsets[first + 1 : first + 1 + len(batch)] = counts
        ids = np.fromiter(chain.from_iterable(rows), np.int32)
        if rule is not None:
            flat = chain.from_iterable
            characters = np.fromiter(flat(flat(one.offsets for one in encodings)), np.int64)
            sizes = np.array([len(text) for text in batch], np.int64)
            bases = np.repeat(np.cumsum(sizes) - sizes, counts)
            tokens = characters.reshape(-1, 2) + bases[:, np.newaxis]
            ids = mark(ids, find_continued(tokens, find_words(rule, batch)))
        parts.append(ids)
    return np.concatenate(parts), np.cumsum(offsets)


def find_continued(
    tokens: npt.NDArray[np.int64], words: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Find the tokens that continue the word of the token before them.

    A token belongs to the word of the first of its characters that is in a word: white space before
    a word does not count, and a token that covers several words belongs to the first one. A token
    without characters, as normalizers may insert it, belongs to the word around it. All others,
    such as tokens of white space, belong to no word; they neither continue one nor are continued.

    Args:
        tokens: int64[tokens, 2], the first character and the end of each token.
        words: int64[words, 2], likewise, ascending.

    Returns:
        bool[tokens].

    Example:
        in " don't,go" with the words [1, 6), [6, 7), [7, 9), the tokens " do" [0, 3), "n" [3, 4),
        "'t" [4, 6), ",g" [6, 8), "o" [8, 9) give [False, True, True, False, False].
    """
    first = np.searchsorted(words[:, 1], tokens[:, 0], side="right")
    nowhere = np.iinfo(np.int64).max
    belongs = np.append(words[:, 0], nowhere)[first] < tokens[:, 1]
    continues = np.zeros(len(first), np.bool_)
    continues[1:] = belongs[1:] & belongs[:-1] & (first[1:] == first[:-1])
    return continues


def mark_words(
    rule: WordRule, encode_spans: EncodeSpans, encode_plainly: EncodeSpans, space_id: int
) -> EncodeSpans:
    """Turn a compiled tokenizer, which returns no offsets, into one that marks its ids.

    If a stretch is one word, perhaps after a space, each of its tokens continues the word except
    the first one and the one after a token that is only the space: compiled tokenizers have no
    tokens without characters.

    Args:
        rule: a rule of words that cuts at spaces.
        encode_spans: the compiled tokenizer; returns ids.
        encode_plainly: the same tokenizer for stretches that are not one word; returns marked ids.
        space_id: id of the token that is only a space; -1 if there is none.
    """

    def is_one_word(text: str) -> bool:
        begin = int(text.startswith(" "))
        return [tuple(span) for span in rule.cut(text)] == [(begin, len(text))]

    def encode_words(
        text: np.ndarray, spans: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        view = text.data
        stretches = (str(view[start:end], "utf-8") for start, end in spans.tolist())
        whole = np.fromiter(map(is_one_word, stretches), np.bool_, len(spans))
        ids, ends = encode_spans(text, spans[whole])
        starts = ends[:-1][np.diff(ends) > 0]
        continues = np.ones(len(ids) + 1, np.bool_)
        continues[starts] = False
        continues[starts[ids[starts] == space_id] + 1] = False
        counts = np.zeros(len(spans) + 1, np.int64)
        counts[1:][whole] = np.diff(ends)
        return mark(ids, continues[:-1]), np.cumsum(counts), ~whole

    return completed(encode_words, encode_plainly)
