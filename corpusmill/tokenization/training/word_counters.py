"""Counters of words: sentences in Arrow's columns to distinct words and counts.

A counter counts in compiled loops what these are proven to cut like the tokenizers library, and
passes the rest to the library: `ByteLevelCounter` for byte-level BPE, `BertCounter` for WordPiece.
`UnitCounter` is for every other model: it counts the *units* between spaces, and the library cuts
each distinct unit once.
"""

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tokenizers import normalizers, pre_tokenizers
from tokenizers.normalizers import BertNormalizer, Normalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, PreTokenizer

from corpusmill.arrays import ragged
from corpusmill.errors import PanicError, UserError, catch_panics, option
from corpusmill.knobs import knob
from corpusmill.tokenization.compiled.byte_level_pieces import (
    RULES,
    PieceRules,
    character_classes,
    learn_classes,
)
from corpusmill.tokenization.compiled.units import cut_long
from corpusmill.tokenization.compiled.wordpiece import (
    BLANK,
    IN_WORD,
    PUNCTUATION,
    classify,
    join_parts,
)
from corpusmill.tokenization.training import counting_kernels as kernels
from corpusmill.tokenization.training.counting_kernels import UNKNOWN, Alphabet
from corpusmill.tokenization.training.parts import (
    PATTERNS,
    NormalizerName,
    make_normalizer,
    split_by,
)
from corpusmill.tokenization.training.word_table import WORDS_AT_ONCE, WordTable, list_spans

# Below the first lie nearly all scripts that are written with spaces, below the second all but the
# rarest ideographs.
FEW_CODES, MANY_CODES = 0x3000, 0x2CEB0
# Ideographs, each of which becomes itself and a word of its own, as in
# `corpusmill.tokenization.compiled.units`.
IDEOGRAPHS = (
    *range(0x3400, 0x4DC0), *range(0x4E00, 0xA000), *range(0x20000, 0x2A6E0),
    *range(0x2A700, 0x2B820), *range(0x2B920, 0x2CEB0),
)  # fmt: skip
# Halves of characters, and scripts that are no longer written.
_NOT_ASKED = (*range(0xD800, 0xE000), *range(0x10000, 0x1F000), *range(0x20000, 0x2CEB0))
_SEPARATOR = "|"
_UNKNOWN_PART = bytes([0, UNKNOWN])


@cache
def read_bert_characters(lowercase: bool, codes: int) -> Alphabet:
    """Find out what the code points below a limit are turned into.

    The normalizer maps characters one by one. It also decomposes them and reorders combining marks,
    but drops all that it moved; the few others are left as unknown.

    Args:
        lowercase: whether text is lower-cased and accents are stripped.
        codes: the limit.
    """
    encoded = dict.fromkeys(range(codes), _UNKNOWN_PART)
    asked = sorted({*range(codes)}.difference(_NOT_ASKED, IDEOGRAPHS))
    texts = list(map(chr, asked))
    normalized = _normalize(BertNormalizer(lowercase=lowercase), texts)
    classes = classify(BertPreTokenizer(), "".join(normalized))
    for code, character, text in zip(asked, texts, normalized, strict=True):
        encoded[code] = _encode(character, text, classes)
    for code in IDEOGRAPHS:
        if code < codes:
            content = chr(code).encode()
            encoded[code] = bytes([len(content), PUNCTUATION]) + content
    plain = np.full((128, 2), UNKNOWN, np.uint8)
    for code in range(128):
        if len(encoded[code]) == 3:
            plain[code] = tuple(encoded[code][1:])
    characters = join_parts(encoded.values(), zip(texts, normalized, strict=True))
    return Alphabet(characters, plain)


def _normalize(normalizer: BertNormalizer, characters: list[str]) -> list[str]:
    """Normalize characters, all but one in a single call."""
    others = ["" if one == _SEPARATOR else one for one in characters]
    normalized: list[str] = normalizer.normalize_str(_SEPARATOR.join(others)).split(_SEPARATOR)
    normalized[ord(_SEPARATOR)] = normalizer.normalize_str(_SEPARATOR)
    return normalized


def _encode(character: str, text: str, classes: dict[str, int]) -> bytes:
    """Return a character's part of `Characters.parts`."""
    kinds = [classes[one] for one in text]
    category = unicodedata.category(character)
    is_moved = category.startswith("M") and category != "Mn" and unicodedata.combining(character)
    words = sum(
        kind == PUNCTUATION or (kind == IN_WORD and before != IN_WORD)
        for before, kind in pairwise([BLANK, *kinds])
    )
    if category == "Cn" or is_moved or words > 1:
        return _UNKNOWN_PART
    return b"".join(
        bytes([len(one.encode()), kind]) + one.encode()
        for one, kind in zip(text, kinds, strict=True)
    )


CutWords = Callable[[str], list[str]]

# In bytes. Longer units are rare, and do not recur.
_LONGEST_UNIT = 64


MOST_WORDS = knob("most_words", 2**20, test=200)
"""The distinct words at which a task's counter is written to files and emptied."""
MOST_WORD_BYTES = knob("most_word_bytes", 32 * 2**20, test=2**11)
"""Likewise by the bytes of its words; a full table of both takes 130 MB."""
NORMALIZED_BYTES = knob("normalized_bytes", 2**18, test=64)
"""The normalized text that a step of BERT's counter fills; a longer sentence makes it grow."""
UNKNOWN_BYTES = knob("unknown_bytes", 2**16, test=64)
"""After more text of characters that are not compiled, BERT's counter compiles all others."""


def _has_filled(table: WordTable) -> bool:
    return len(table) >= MOST_WORDS or table.text_bytes >= MOST_WORD_BYTES


class WordCounter(ABC):
    """Counts the words of sentences.

    Args:
        names: normalizers that are applied to each sentence before it is cut.

    Attributes:
        table: the words.
        counted: the number of words so far, equal ones counted each.
    """

    def __init__(self, names: Sequence[NormalizerName] = ()) -> None:
        self.table, self.counted = WordTable(), 0
        self._spans = np.empty((WORDS_AT_ONCE, 3), np.uint64)
        self._copies = np.ones(WORDS_AT_ONCE, np.int64)  # how often each word is counted
        self._normalizer, self._lowercase = make_normalizer(names), "lowercase" in names

    @property
    def is_full(self) -> bool:
        """Whether the table should be drained before more is counted."""
        return _has_filled(self.table)

    def add_copies(self, documents: pa.RecordBatch, copies: npt.NDArray[np.int64]) -> None:
        """Count the words of documents, those of each so many times."""
        for number in np.unique(copies[copies > 0]).tolist():
            self._copies.fill(number)
            is_chosen = copies == number
            chosen = documents if is_chosen.all() else documents.filter(pa.array(is_chosen))
            self.add(chosen.column("sentences").flatten())

    def add(self, sentences: pa.Array) -> None:
        """Count the words of sentences, a string array without nulls."""
        if self._normalizer:
            sentences = self._normalize(sentences)
        text, offsets = ragged.from_arrow(sentences)
        self._count(text, offsets)

    def finish(self) -> None:  # noqa: B027  most have nothing to do
        """Put everything that was counted into the table."""

    @abstractmethod
    def _count(self, text: npt.NDArray[np.uint8], offsets: npt.NDArray[np.integer]) -> None:
        """Count the words of sentences that are normalized already."""

    def _normalize(self, sentences: pa.Array) -> pa.Array:
        normalizer, lowercase = self._normalizer, self._lowercase

        def normalize(sentence: str) -> str:
            # The only normalizer that changes ASCII is the one of case.
            if sentence.isascii():
                return sentence.lower() if lowercase else sentence
            return str(normalizer.normalize_str(sentence))  # type: ignore[union-attr]

        return pa.array(map(normalize, sentences.to_pylist()), pa.large_string())

    def _run(
        self, cut: Callable[..., kernels.Progress], words: kernels.Words, sentences: int, most: int
    ) -> npt.NDArray[np.int64]:
        """Count the words that a kernel cuts, as many at a time as there is room for.

        Args:
            cut: the kernel, to which the progress and the stretches that are left are given.
            words: where it writes words, or where their text is and it writes their places.
            sentences: the number of sentences.
            most: most stretches that may be left.

        Returns:
            int64[left, 2], the stretches of text that are left.
        """
        left = np.empty((most, 2), np.int64)
        progress = kernels.Progress(0, -1, 0, 0)
        while progress.sentence < sentences:
            progress = kernels.Progress(*cut(progress, left))
            self.table.add(words.text, words.spans[: progress.written], self._copies)
            self.counted += progress.written * int(self._copies[0])
        return left[: progress.left]

    def _count_left(self, cut: CutWords, text: np.ndarray, left: np.ndarray) -> None:
        """Count the words of stretches of text that the library cuts."""
        words: list[str] = []
        for start, stop in left.tolist():
            for part in cut_long(str(text[start:stop].data, "utf-8")):
                words += cut(part)
                if len(words) >= WORDS_AT_ONCE:
                    self._add_words(words)
                    words = []
        self._add_words(words)

    def _add_words(self, words: Sequence[str], counts: Sequence[int] | None = None) -> None:
        """Add words that the library has cut."""
        text, offsets = ragged.from_arrow(pa.array(words, pa.large_string()))
        numbers = np.array(counts or np.full(len(words), self._copies[0]), np.int64)
        self.table.add_words(text, offsets, numbers)
        self.counted += int(numbers.sum())


class ByteLevelCounter(WordCounter):
    """Counts the pieces of byte-level BPE, as they stand in the text.

    Args:
        names: normalizers.
        add_prefix_space: whether a sentence that does not begin with a space gets one.
        pattern: that of `split_by`.
    """

    def __init__(
        self, names: Sequence[NormalizerName], add_prefix_space: bool, pattern: str = "gpt2"
    ) -> None:
        super().__init__(names)
        self._adds_space, self._pattern = add_prefix_space, pattern
        self._regex = "\n".join(PATTERNS.get(pattern, (pattern,)))
        self._split = word_cutter(None, pre_tokenizers.Sequence(split_by(pattern)))
        rules = RULES.get(self._regex)
        self._rules = rules and PieceRules(character_classes(self._regex), *rules)

    def _count(self, text: npt.NDArray[np.uint8], offsets: npt.NDArray[np.integer]) -> None:
        if self._adds_space:
            text, offsets = kernels.begin_with_spaces(text, offsets)
        left = np.column_stack([offsets[:-1], offsets[1:]]).astype(np.int64)
        if self._rules:
            left = self._count_pieces(text, offsets)
            if learn_classes(self._rules.classes, text, left, self._regex):
                text, offsets = _join_stretches(text, left)
                left = self._count_pieces(text, offsets)
        self._count_left(self._cut, text, left)

    def _count_pieces(self, text: np.ndarray, offsets: np.ndarray) -> npt.NDArray[np.int64]:
        """Count what is compiled, and return the stretches that are left."""

        def cut(progress: kernels.Progress, left: np.ndarray) -> Any:
            return kernels.cut_pieces(self._rules, text, offsets, progress, left, self._spans)

        words, sentences = kernels.Words(text, self._spans), len(offsets) - 1
        return self._run(cut, words, sentences, sentences)

    def _cut(self, text: str) -> list[str]:
        try:
            with catch_panics("the regular expression"):
                return self._split(text)
        except PanicError as error:
            cure = "Give one without repeats of what is repeated itself"
            raise UserError(option("pattern", self._pattern), str(error), cure) from None


def _join_stretches(
    text: npt.NDArray[np.uint8], spans: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return stretches of a text, one after the other, and where each begins."""
    offsets = np.cumsum([0, *(spans[:, 1] - spans[:, 0])])
    return np.concatenate([text[start:stop] for start, stop in spans.tolist()]), offsets


class BertCounter(WordCounter):
    """Counts words as BERT's normalizer and pre-tokenizer break them.

    Args:
        names: normalizers; BERT's own follows them.
        lowercase: whether text is lower-cased and accents are stripped.
    """

    def __init__(self, names: Sequence[NormalizerName], lowercase: bool) -> None:
        super().__init__(names)
        self._bert_lowercase = lowercase
        self._cut = word_cutter(
            normalizers.BertNormalizer(lowercase=lowercase), pre_tokenizers.BertPreTokenizer()
        )
        self._left_bytes, self._text = 0, np.empty(NORMALIZED_BYTES, np.uint8)
        self._know(FEW_CODES)

    def _know(self, codes: int) -> None:
        self._codes = codes
        self._alphabet = read_bert_characters(self._bert_lowercase, codes)

    def _count(self, text: npt.NDArray[np.uint8], offsets: npt.NDArray[np.integer]) -> None:
        left = self._count_known(text, offsets)
        self._left_bytes += int((left[:, 1] - left[:, 0]).sum())
        has_many = self._left_bytes > UNKNOWN_BYTES
        if len(left) and self._codes == FEW_CODES and has_many:
            self._know(MANY_CODES)  # which takes half a second
            text, offsets = _join_stretches(text, left)
            left = self._count_known(text, offsets)
        self._count_left(self._cut, text, left)

    def _count_known(
        self, text: npt.NDArray[np.uint8], offsets: npt.NDArray[np.integer]
    ) -> npt.NDArray[np.int64]:
        """Count what is compiled, and return the stretches that are left."""
        growth, sentences = self._alphabet.characters.growth, len(offsets) - 1
        longest = int(np.diff(offsets).max(initial=0))
        if len(self._text) < growth * (longest + 8):
            self._text = np.empty(growth * (longest + 8), np.uint8)
        words = kernels.Words(self._text, self._spans)

        def cut(progress: kernels.Progress, left: np.ndarray) -> Any:
            return kernels.cut_bert_words(self._alphabet, text, offsets, progress, left, words)

        most_left = int(offsets[-1] - offsets[0]) // 2 + 1
        return self._run(cut, words, sentences, most_left)


class UnitCounter(WordCounter):
    """Counts units, and has each distinct unit cut into words once.

    For models whose words never reach across a space, and whose first word of a text may differ
    from the same word later.

    Args:
        normalizer: applied to each unit; None for none.
        pre_tokenizer: cuts units into words.
    """

    def __init__(self, normalizer: Normalizer | None, pre_tokenizer: PreTokenizer) -> None:
        super().__init__()
        self._units, self._cut = WordTable(), word_cutter(normalizer, pre_tokenizer)

    @property
    def is_full(self) -> bool:
        """Whether there are too many units or words."""
        return _has_filled(self._units) or super().is_full

    def _count(self, text: npt.NDArray[np.uint8], offsets: npt.NDArray[np.integer]) -> None:
        text, offsets = text[offsets[0] : offsets[-1]], offsets - offsets[0]
        spaces = text == ord(" ")
        begins = np.append(spaces, True)  # a unit begins at each space, or several in a row, and
        begins[1:-1] &= ~spaces[:-1]
        begins[offsets] = True  # with each sentence
        cuts = np.flatnonzero(begins)
        is_long = np.diff(cuts) > _LONGEST_UNIT
        for first in range(0, len(is_long), WORDS_AT_ONCE):
            spans = list_spans(text, cuts[first : first + WORDS_AT_ONCE + 1])
            short = ~is_long[first : first + WORDS_AT_ONCE]
            self._units.add(text, spans if short.all() else spans[short], self._copies)
        for unit in np.flatnonzero(is_long).tolist():
            self._add_words(self._cut(str(text[cuts[unit] : cuts[unit + 1]].data, "utf-8")))

    def finish(self) -> None:
        """Cut the units into words."""
        numbers = self._units.numbers()
        for first in range(0, len(numbers), WORDS_AT_ONCE):
            some = numbers[first : first + WORDS_AT_ONCE]
            units = self._units.words(some).cast(pa.large_string()).to_pylist()
            words: list[str] = []
            counts: list[int] = []
            for unit, count in zip(units, self._units.counts(some).tolist(), strict=True):
                cut = self._cut(unit)
                words += cut
                counts += [count] * len(cut)
            self._add_words(words, counts)
        self._units.clear()


def word_cutter(normalizer: Normalizer | None, pre_tokenizer: PreTokenizer) -> CutWords:
    """Return the function that cuts text into words like a tokenizer with these parts."""

    def cut(text: str) -> list[str]:
        normalized = normalizer.normalize_str(text) if normalizer else text
        return [word for word, _ in pre_tokenizer.pre_tokenize_str(normalized)]

    return cut
