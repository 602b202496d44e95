"""Running text to sentences: each line of a document is cut where the rules of its language say.

Chinese and Japanese are cut by their punctuation, all other languages by sentencex (Wikimedia's
rules: abbreviations, initials, decimals, quotes, ellipses, lists). No character but white space at
a cut is lost, which is checked for every line and not left to the library.
"""

import re
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.errors import UserError

BY_PUNCTUATION = ("ja", "yue", "zh")
# Those that sentencex has rules for; it takes any other code, too, and treats it as English.
BY_LIBRARY = (
    "am", "ar", "bg", "bn", "ca", "da", "de", "el", "en", "es", "fi", "fr", "gu", "hi", "hy", "it",
    "kk", "kn", "ml", "mr", "my", "nl", "pa", "pl", "pt", "ru", "sk", "ta", "te", "uk",
)  # fmt: skip

# The library looks back to the last white space at each full stop, so that a line's cost may grow
# with the square of its length; it is given so many characters of a longer line at a time.
WINDOW = 8192

Split = Callable[[str], list[str]]

# A run of marks, the quotes and brackets that close behind it, and no cut where the clause goes on.
# "!" and "?" of ASCII may be part of an address, "．" of a number. Titles and short asides are
# passed over as a whole.
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
    """What cuts the sentences of a language, with its version, as the manifest names it.

    Args:
        language: None where a line is a sentence, which nothing cuts.

    Raises:
        UserError: the library is not installed, or does not know the language.
    """
    if language is None or language in BY_PUNCTUATION:
        return language and "punctuation"
    load_splitter(language)
    return f"sentencex {version('sentencex')}"


def load_splitter(language: str) -> Split:
    """The function that cuts a line of a language into pieces, which together are the line.

    Raises:
        UserError: the language is not known, or the library for it is not installed.
    """
    if language in BY_PUNCTUATION:
        return split_by_punctuation
    if language not in BY_LIBRARY:
        known = ", ".join(sorted(BY_PUNCTUATION + BY_LIBRARY))
        raise UserError(
            f"--language {language}",
            f"no rules are known for it; those of {known} are",
            "Give one that is written alike (en knows the full stops of all scripts), or"
            " --sentence-rule line",
        )
    try:
        from sentencex import segment  # noqa: PLC0415  an extra, which most jobs do without
    except ImportError:
        raise UserError(
            "--sentence-rule split",
            f"the sentences of {language!r} are split by sentencex, which is not installed",
            "Install the extra 'sentences' (pip install '.[sentences]')",
        ) from None
    return lambda line: split_in_windows(line, lambda text: segment(language, text))


def split_by_punctuation(line: str) -> list[str]:
    """Cut a line of Chinese or Japanese behind 。！？；… and what closes behind them.

    Example:
        "他说：“你好！”然后走了。" gives ["他说：“你好！”", "然后走了。"].
    """
    ends = [match.end() for match in _PUNCTUATION.finditer(line) if match["end"]]
    cuts = [0, *(end for end in ends if end < len(line)), len(line)]
    return [line[begin:end] for begin, end in pairwise(cuts)]


def split_in_windows(line: str, segment: Split, window: int = WINDOW) -> list[str]:
    """Cut a line with a function that is given at most `window` characters of it at a time.

    A window starts with the sentence that the one before left open; where it ends is no cut, so
    that a sentence longer than a window stays whole.

    Args:
        line: of any length.
        segment: cuts a text into pieces, which together are the text.
        window: characters.
    """
    if line.isascii() and len(line) <= window:
        return segment(line)
    narrow = line if line.isascii() else _WIDE_SPACE.sub(" ", line)
    cuts, at = [0], 0
    while True:
        pieces = segment(narrow[at : at + window])
        is_last = at + window >= len(line)
        ends = list(accumulate(map(len, pieces if is_last else pieces[:-1]), initial=at))[1:]
        cuts += ends
        if is_last:
            return [line[begin:end] for begin, end in pairwise(cuts)]
        at = ends[-1] if ends and ends[-1] > at else at + window


def split_sentences(documents: pa.RecordBatch, language: str) -> tuple[pa.RecordBatch, int]:
    """Cut the sentences of documents further; white space around the new ones is stripped.

    Each line is cut for itself, so that it does not matter which lines come in one batch.

    Args:
        documents: rows of `corpusmill.corpus.batches.TEXT_SCHEMA`, whose sentences are lines.
        language: code of ISO 639, one of BY_PUNCTUATION or BY_LIBRARY.

    Returns:
        The same documents; and how many lines stay whole because the library failed on them or
        gave something else than the line's own text.

    Raises:
        UserError: as `load_splitter`.

    Example:
        [["Hi. I am here.", "So"]] of "en" gives [["Hi.", "I am here.", "So"]].
    """
    split = load_splitter(language)
    lists = documents.column("sentences")
    sentences: list[str] = []
    ends, unsplit = [0], 0
    for line in lists.flatten().to_pylist():
        pieces = _split_or_keep(line, split)
        unsplit += pieces is None
        sentences += _stripped(pieces or [line])
        ends.append(len(sentences))
    offsets = lists.offsets.to_numpy()
    cut = ragged.to_arrow(
        pa.array(sentences, pa.string()), np.array(ends, np.int32)[offsets - offsets[0]]
    )
    columns = [documents.column("document"), cut]
    return pa.RecordBatch.from_arrays(columns, schema=documents.schema), unsplit


def _stripped(pieces: list[str]) -> Iterator[str]:
    return (sentence for piece in pieces if (sentence := piece.strip()))


def _split_or_keep(line: str, split: Split) -> list[str] | None:
    """The pieces of a line; None where the library cannot be trusted with it."""
    try:
        pieces = split(line)
    except BaseException as failure:
        # A panic of Rust, which is no Exception, so that it is not met by chance.
        if type(failure).__name__ == "PanicException":
            return None
        raise
    return pieces if "".join(pieces) == line else None
