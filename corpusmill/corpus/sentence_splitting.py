"""Running text into sentences: each line of a document is cut by the rules of its language.

Chinese and Japanese are cut by their punctuation, all other languages by sentencex (Wikimedia's
rules: abbreviations, initials, decimals, quotes, ellipses, lists). Only white space at a cut is
lost: this is checked for every line, whatever the library returns.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.corpus.batches import DocumentBatch, ReadCounts
from corpusmill.errors import UserError, option

BY_PUNCTUATION = ("ja", "yue", "zh")
# Languages that sentencex has rules for. It accepts any other code, and treats it as English.
BY_LIBRARY = (
    "am", "ar", "bg", "bn", "ca", "da", "de", "el", "en", "es", "fi", "fr", "gu", "hi", "hy", "it",
    "kk", "kn", "ml", "mr", "my", "nl", "pa", "pl", "pt", "ru", "sk", "ta", "te", "uk",
)  # fmt: skip

# At each full stop the library looks back to the last white space, so that the cost of a line may
# grow with the square of its length. It gets this many characters of a longer line at a time.
WINDOW = 8192

Split = Callable[[str], list[str]]

# A run of marks and the quotes and brackets that close after it, unless the clause continues there.
# "!" and "?" of ASCII may be part of an address, "．" of a number. Titles and short asides are
# skipped as a whole.
_PUNCTUATION = re.compile(
    r"""
      《[^《》]{0,64}》 | 〈[^〈〉]{0,64}〉 | （[^（）]{0,64}(?<!。)）
    | (?P<end>
        (?: [。｡！？；…][\ufe00-\ufe0f]* | [!?．](?![\w０-９=&/\#%+-]) )++
        ["'”’»›」｣』）】》〉］｝〕〗〙〛)\]}]*+
        (?! [ \u3000]*[，、：,:] | (?<=[」』])(?:と|って) )
      )
    """,
    re.VERBOSE | re.ASCII,
)
# The library fails on some initials before white space that is longer than a byte.
_WIDE_SPACE = re.compile("[\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")


def splitter_of(language: str | None) -> str | None:
    """Name what cuts the sentences of a language, with its version, for the manifest.

    Args:
        language: None if sentences are not cut.

    Raises:
        UserError: the library is not installed, or does not know the language.
    """
    if language is None or language in BY_PUNCTUATION:
        return language and "punctuation"
    load_splitter(language)
    return f"sentencex {version('sentencex')}"


def load_splitter(language: str) -> Split:
    """Return the function that cuts a line of a language into pieces, which add up to the line.

    Raises:
        UserError: the language is not known, or the library for it is not installed.
    """
    if language in BY_PUNCTUATION:
        return split_by_punctuation
    if language not in BY_LIBRARY:
        known = ", ".join(sorted(BY_PUNCTUATION + BY_LIBRARY))
        raise UserError(
            option("language", language),
            f"there are no rules for it, only for {known}",
            "Give a language with similar punctuation (en knows the full stops of all scripts), or"
            f" {option('sentence_rule', 'line')}",
        )
    try:
        from sentencex import segment  # noqa: PLC0415  an extra that most jobs do not need
    except ImportError:
        raise UserError(
            option("sentence_rule", "split"),
            f"the sentences of {language!r} are split by sentencex, which is not installed",
            "Install the extra 'sentences' (pip install 'corpusmill[sentences]')",
        ) from None
    return lambda line: split_in_windows(line, lambda text: segment(language, text))


def split_by_punctuation(line: str) -> list[str]:
    """Cut a line of Chinese or Japanese after 。！？；… and the quotes that close there.

    Example:
        "他说：“你好！”然后走了。" gives ["他说：“你好！”", "然后走了。"].
    """
    ends = [match.end() for match in _PUNCTUATION.finditer(line) if match["end"]]
    cuts = [0, *(end for end in ends if end < len(line)), len(line)]
    return [line[begin:end] for begin, end in pairwise(cuts)]


def split_in_windows(line: str, segment: Split, window: int = WINDOW) -> list[str]:
    """Cut a line with a function that gets at most `window` characters of it at a time.

    A window starts with the sentence that the one before left open. The end of a window is not a
    cut, so a sentence longer than a window stays whole.

    Args:
        line: of any length.
        segment: cuts a text into pieces, which add up to the text.
        window: number of characters.
    """
    if line.isascii() and len(line) <= window:
        return segment(line)
    narrow = line if line.isascii() else _WIDE_SPACE.sub(" ", line)
    cuts, start = [0], 0
    while True:
        pieces = segment(narrow[start : start + window])
        is_last = start + window >= len(line)
        ends = list(accumulate(map(len, pieces if is_last else pieces[:-1]), initial=start))[1:]
        cuts += ends
        if is_last:
            return [line[begin:end] for begin, end in pairwise(cuts)]
        start = ends[-1] if ends and ends[-1] > start else start + window


def split_sentences(batch: DocumentBatch, language: str) -> DocumentBatch:
    """Cut the sentences of documents further, and strip white space around the new ones.

    Each line is cut on its own, so it does not matter which lines are in one batch. Lines on which
    the library fails, or changes the text, stay whole; they are counted as `unsplit_lines`.

    Args:
        batch: documents whose sentences are lines.
        language: code of ISO 639, one of BY_PUNCTUATION or BY_LIBRARY.

    Raises:
        UserError: there are no rules for the language, or the library is not installed.

    Example:
        [["Hi. I am here.", "So"]] in "en" gives [["Hi.", "I am here.", "So"]].
    """
    split = load_splitter(language)
    lists = batch.documents.column("sentences")
    sentences: list[str] = []
    ends, unsplit = [0], 0
    for line in lists.flatten().to_pylist():
        pieces = _split_or_keep(line, split)
        unsplit += pieces is None
        sentences += [text for piece in pieces or [line] if (text := piece.strip())]
        ends.append(len(sentences))
    offsets = lists.offsets.to_numpy()
    cut = ragged.to_arrow(
        pa.array(sentences, pa.string()), np.array(ends, np.int32)[offsets - offsets[0]]
    )
    counts = ReadCounts(sentences=len(sentences) - len(ends) + 1, unsplit_lines=unsplit)
    documents = batch.documents.set_column(1, batch.documents.schema.field(1), cut)
    return replace(batch, documents=documents, counts=batch.counts + counts)


def _split_or_keep(line: str, split: Split) -> list[str] | None:
    """Return the pieces of a line; None if the library fails on it."""
    try:
        pieces = split(line)
    except BaseException as error:
        # A panic of Rust is not an Exception, so that nobody catches it by accident.
        if type(error).__name__ == "PanicException":
            return None
        raise
    return pieces if "".join(pieces) == line else None
