"""Sentences cut into words in compiled loops, straight from the bytes of the text.

A kernel writes the words as `corpusmill.tokenization.training.word_table.add_spans` takes them. It
stops at a word when there is no more room for them, and continues from there. What it does not know
for sure it leaves: a stretch of text that begins where a word begins and ends where one ends, or
with its sentence, and whose words are those of the stretch alone.
"""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.byte_level_pieces import LETTER, PieceRules, end_of_piece
from corpusmill.tokenization.compiled.units import read_character
from corpusmill.tokenization.compiled.wordpiece import (
    BLANK,
    IN_WORD,
    PUNCTUATION,
    Characters,
)
from corpusmill.tokenization.training.word_table import put_span

# One more class of characters.
UNKNOWN = 3
_SPACE = 0x20


class Alphabet(NamedTuple):
    """What BERT turns each character into.

    Attributes:
        characters: of all characters that are known; of none more than one word.
        plain: uint8[128, 2], class and byte of each ASCII character; UNKNOWN for those that become
            none or several.
    """

    characters: Characters
    plain: np.ndarray


class Words(NamedTuple):
    """Where normalized words are written.

    Attributes:
        text: uint8[...], one word after another.
        spans: uint64[n, 3], the words.
    """

    text: np.ndarray
    spans: np.ndarray


class Progress(NamedTuple):
    """How far a kernel has come.

    Attributes:
        sentence: the sentence from which it continues; their number at the end.
        place: the byte from which it continues; -1 for the sentence's first.
        left: the number of stretches that are left so far.
        written: the number of words that were written by the last call.
    """

    sentence: int
    place: int
    left: int
    written: int


@njit(inline="always")
def end_of_plain_word(classes: np.ndarray, text: np.ndarray, place: int, stop: int) -> int:
    """Return where a word of ASCII letters after at most one space ends; 0 for any other piece."""
    begin: int = place + (text[place] == _SPACE)
    end = begin
    while end < stop and text[end] < 0x80 and classes[text[end]] == LETTER:
        end += 1
    if end == begin or (end < stop and text[end] >= 0x80):
        return 0
    return end


@njit
def cut_pieces(
    rules: PieceRules,
    text: np.ndarray,
    offsets: np.ndarray,
    progress: Progress,
    left: np.ndarray,
    spans: np.ndarray,
) -> Progress:
    """Cut sentences into the pieces of byte-level BPE, as bytes of the text.

    Args:
        rules: those of the pattern.
        text: uint8[bytes], valid UTF-8.
        offsets: integers[sentences + 1] into text.
        progress: how far the kernel has come.
        left: int64[sentences, 2], written: the stretches that are left.
        spans: uint64[n, 3], written: the words.
    """
    first, place, others, _ = progress
    written = 0
    for sentence in range(first, len(offsets) - 1):
        stop = np.int64(offsets[sentence + 1])
        if place < 0:
            place = offsets[sentence]
        while place < stop:
            if written == len(spans):
                return Progress(sentence, place, others, written)
            end = end_of_plain_word(rules.classes, text, place, stop)
            if not end:
                end = end_of_piece(rules, text, place, stop)
            if end < 0:
                left[others, 0], left[others, 1] = place, stop
                others += 1
                break
            put_span(spans, written, text, place, end - place)
            written += 1
            place = end
        place = -1
    return Progress(len(offsets) - 1, -1, others, written)


@njit
def begin_with_spaces(text: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Put a space before each sentence that begins with none, unless it is empty.

    Args:
        text: uint8[bytes].
        offsets: integers[sentences + 1] into text.

    Returns:
        The text and its int64[sentences + 1] offsets.
    """
    spaced = np.empty(offsets[-1] - offsets[0] + len(offsets), np.uint8)
    ends = np.zeros(len(offsets), np.int64)
    written = 0
    for sentence in range(len(offsets) - 1):
        start, stop = offsets[sentence], offsets[sentence + 1]
        if start < stop and text[start] != _SPACE:
            spaced[written] = _SPACE
            written += 1
        spaced[written : written + stop - start] = text[start:stop]
        written += stop - start
        ends[sentence + 1] = written
    return spaced[:written], ends


@njit
def take_character(
    alphabet: Alphabet, code: int, words: Words, begin: int, end: int, written: int
) -> tuple[int, int, int]:
    """Append a character to the word before it, and write the words that end with it.

    Args:
        alphabet: what each character is turned into.
        code: the character.
        words: where words are written.
        begin: the first byte of the word before it, in the text of `words`.
        end: where that word ends.
        written: the number of words.

    Returns:
        First byte and end of the word that has not ended, and the new number of words; -1 in its
        place for a character that is not known.
    """
    characters = alphabet.characters
    if code + 1 >= len(characters.ends):
        return begin, end, -1
    part, stop = characters.ends[code], characters.ends[code + 1]
    while part < stop:
        width, kind = np.int64(characters.parts[part]), characters.parts[part + 1]
        if kind == UNKNOWN:
            return begin, end, -1
        if kind != IN_WORD and end > begin:
            put_span(words.spans, written, words.text, begin, end - begin)
            begin, written = end, written + 1
        if kind != BLANK:
            for i in range(width):
                words.text[end] = characters.parts[part + 2 + i]
                end += 1
        if kind == PUNCTUATION:
            put_span(words.spans, written, words.text, begin, end - begin)
            begin, written = end, written + 1
        part += 2 + width
    return begin, end, written


@njit
def end_of_unknown(alphabet: Alphabet, text: np.ndarray, place: int, stop: int) -> int:
    """Return the first place where words end, whatever is before it; `stop` if there is none.

    There white space or a character begins that is a word of its own. No combining mark is moved
    across either.

    Args:
        alphabet: what each character is turned into.
        text: uint8[bytes], valid UTF-8.
        place: where the search begins.
        stop: where the sentence ends.
    """
    ends, parts = alphabet.characters.ends, alphabet.characters.parts
    while place < stop:
        code, step = read_character(text, place)
        has_part = code + 1 < len(ends) and ends[code] < ends[code + 1]
        if has_part and parts[ends[code] + 1] in (BLANK, PUNCTUATION):
            break
        place += step
    return place


@njit
def cut_bert_words(
    alphabet: Alphabet,
    text: np.ndarray,
    offsets: np.ndarray,
    progress: Progress,
    left: np.ndarray,
    words: Words,
) -> Progress:
    """Cut sentences into words as BERT normalizes and breaks them.

    Args:
        alphabet: what each character is turned into.
        text: uint8[bytes], valid UTF-8.
        offsets: integers[sentences + 1] into text.
        progress: how far the kernel has come.
        left: int64[bytes // 2 + 1, 2], written: the stretches that are left, each with a character
            that is not known, of two bytes or more.
        words: where words are written.
    """
    first, place, others, _ = progress
    begin = end = written = 0
    growth, plain = alphabet.characters.growth, alphabet.plain
    for sentence in range(first, len(offsets) - 1):
        stop = np.int64(offsets[sentence + 1])
        if place < 0:
            place = offsets[sentence]
        source = place  # where the word begins that has not ended
        while place < stop:
            if end == begin:
                source = place
            # A character ends at most two words.
            if written + 3 > len(words.spans) or end + 8 * growth > len(words.text):
                return Progress(sentence, source, others, written)
            lead = text[place]
            if lead < 0x80 and plain[lead, 0] == IN_WORD:
                words.text[end] = plain[lead, 1]
                end, place = end + 1, place + 1
                continue
            code, step = read_character(text, place)
            before = written
            begin, end, written = take_character(alphabet, code, words, begin, end, written)
            if written < 0:  # not known
                written, end = before, begin
                place = end_of_unknown(alphabet, text, place + step, stop)
                left[others, 0], left[others, 1] = source, place
                others += 1
                continue
            if written > before:
                source = place
            place += step
        if end > begin:
            put_span(words.spans, written, words.text, begin, end - begin)
            begin, written = end, written + 1
        place = -1
    return Progress(len(offsets) - 1, -1, others, written)
