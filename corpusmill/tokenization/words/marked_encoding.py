"""Texts to marked token ids: which tokens go on with the word of the token before them."""

from itertools import chain

import numpy as np
from tokenizers import Tokenizer

from corpusmill.tokenization.compiled.byte_level_bpe import fill_in
from corpusmill.tokenization.compiled.word_memo import EncodeSpans
from corpusmill.tokenization.words.word_marks import mark
from corpusmill.tokenization.words.words import WordRule, find_words


def find_continued(
    token_begins: np.ndarray,
    token_ends: np.ndarray,
    word_begins: np.ndarray,
    word_ends: np.ndarray,
) -> np.ndarray:
    """Which tokens go on with the word of the token before them.

    A token belongs to the word of the first of its characters that is in a word, so that white
    space before a word does not count, and a token that covers several words belongs to the first
    of them. One without a character, as normalizers may put in, belongs to the word that it stands
    inside of. All others, such as a token of white space, belong to none, and neither go on with a
    word nor are gone on with.

    Args:
        token_begins: int64[tokens], first character of each.
        token_ends: int64[tokens], behind the last one of each.
        word_begins: int64[words], likewise.
        word_ends: int64[words], likewise; both ascending.

    Returns:
        bool[tokens].

    Example:
        of " don't,go" with the words [1, 6), [6, 7), [7, 9) the tokens " do" [0, 3), "n" [3, 4),
        "'t" [4, 6), ",g" [6, 8), "o" [8, 9) give [False, True, True, False, False].
    """
    first = np.searchsorted(word_ends, token_begins, side="right")
    nowhere = np.iinfo(np.int64).max
    belongs = np.append(word_begins, nowhere)[first] < token_ends
    continues = np.zeros(len(first), np.bool_)
    continues[1:] = belongs[1:] & belongs[:-1] & (first[1:] == first[:-1])
    return continues


def encode_marked(
    tokenizer: Tokenizer, rule: WordRule, texts: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """The marked ids of texts, by the characters that the tokenizer says each token stands for.

    Args:
        tokenizer: any.
        rule: of words.
        texts: any.

    Returns:
        marked: int32[tokens], one text's behind the other's.
        counts: int64[texts], how many each has.
    """
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
    rows = [encoding.ids for encoding in encodings]
    counts = np.array([len(row) for row in rows], np.int64)
    flat = chain.from_iterable
    ids = np.fromiter(flat(rows), np.int32)
    spans = np.fromiter(flat(flat(encoding.offsets for encoding in encodings)), np.int64)
    sizes = np.array([len(text) for text in texts], np.int64)
    bases = np.repeat(np.cumsum(sizes) - sizes, counts)
    continues = find_continued(spans[0::2] + bases, spans[1::2] + bases, *find_words(rule, texts))
    return mark(ids, continues), counts


class MarkingEncoder:
    """The marked ids of stretches of text, most of them from a tokenizer that gives no offsets.

    Where a stretch is one word, behind a space at most, each of its tokens goes on with the word
    but the first one, and the one behind a token that is nothing but the space: no tokenizer that
    is compiled gives a token that stands for no character.

    Args:
        rule: of words, which cuts at spaces.
        encode_spans: a compiled tokenizer of stretches; gives ids.
        encode_plainly: the same tokenizer for stretches that are not one word; gives marked ids.
        space_id: of the token that is a space and nothing else; -1 where there is none.
    """

    def __init__(
        self,
        rule: WordRule,
        encode_spans: EncodeSpans,
        encode_plainly: EncodeSpans,
        space_id: int,
    ) -> None:
        self._rule, self._space_id = rule, space_id
        self._encode_spans, self._plainly = encode_spans, encode_plainly

    def encode(self, text: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `corpusmill.tokenization.compiled.byte_level_bpe.ByteLevelEncoder.encode`, marked."""
        view = text.data
        stretches = (str(view[start:end], "utf-8") for start, end in spans.tolist())
        whole = np.fromiter(map(self._is_one_word, stretches), np.bool_, len(spans))
        if not whole.any():
            return self._plainly(text, spans)
        ids, ends = self._encode_spans(text, spans[whole])
        starts = ends[:-1][np.diff(ends) > 0]
        continues = np.ones(len(ids) + 1, np.bool_)
        continues[starts] = False
        continues[starts[ids[starts] == self._space_id] + 1] = False
        counts = np.zeros(len(spans) + 1, np.int64)
        counts[1:][whole] = np.diff(ends)
        marked = mark(ids, continues[:-1])
        return fill_in(marked, np.cumsum(counts), ~whole, self._plainly, text, spans)

    def _is_one_word(self, text: str) -> bool:
        begin = int(text.startswith(" "))
        return [tuple(span) for span in self._rule.cut(text)] == [(begin, len(text))]
