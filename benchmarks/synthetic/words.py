"""The spelling of words by rank: English-like words, names, numbers, and some in other scripts.

A word is a row of 32 bytes, four 64-bit fields of up to eight bytes that are filled with NUL bytes:
three syllables, and an ending with the space after the word. Rows without their NUL bytes are text,
so that array operations alone make a corpus.

A hash of the rank decides the kind of word and its syllables. The shares by rank are those of
WikiText-2 train: see `_KINDS` and `_SYLLABLE_SHARES`.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Rows = npt.NDArray[np.uint64]

TABLE_RANKS = 1 << 18  # words spelled in advance; one token in 200 is another word

# The most frequent words of WikiText-2 train and their frequency in a million words.
HEAD = {
    "the": 55955, ",": 49405, ".": 36289, "of": 28130, "and": 25022, "in": 19509, "to": 19379,
    "a": 16929, '"': 13998, "was": 10377, "The": 8704, "@-@": 8360, "that": 6989, "as": 6933,
    "'s": 6924, "on": 6763, "for": 6580, "with": 6233, "by": 6007, ")": 5936, "(": 5930, "is": 5754,
    "from": 4421, "his": 4151, "at": 4048, "were": 3625, "it": 3337, "he": 2941, "an": 2915,
    "had": 2818, "which": 2741, "In": 2732, "be": 2367, "are": 2309, ";": 2089, "their": 2041,
    "but": 1995, "first": 1967, "\u2013": 1945, "not": 1931, ":": 1882, "also": 1852, "its": 1828,
    "or": 1798, "her": 1724, "have": 1702, "one": 1657, "has": 1643, "been": 1611, "two": 1601,
    "@.@": 1579, "this": 1522, "who": 1465, "they": 1454, "'": 1419, "He": 1364, "@,@": 1335,
    "after": 1305,
}  # fmt: skip

# Share of each kind of word at these ranks (powers of ten), interpolated between them; the other
# words are in lower case.
_RANKS = (2.0, 2.5, 3.25, 3.75, 4.2, 4.4, 4.6, 6.0)
_KINDS = {
    "number": (0.08, 0.060, 0.065, 0.034, 0.036, 0.042, 0.036, 0.030),
    "ordinal": (0.00, 0.001, 0.010, 0.004, 0.005, 0.007, 0.007, 0.007),
    "accented": (0.00, 0.004, 0.003, 0.006, 0.008, 0.013, 0.018, 0.030),
    "foreign": (0.00, 0.000, 0.000, 0.001, 0.002, 0.003, 0.005, 0.010),
    "upper": (0.00, 0.008, 0.016, 0.016, 0.016, 0.025, 0.034, 0.040),
    "capitalised": (0.08, 0.140, 0.235, 0.320, 0.380, 0.426, 0.495, 0.500),
}
# Share of words with a second and a third syllable, and with an ending.
_SYLLABLE_SHARES = {
    1: (0.10, 0.25, 0.50, 0.62, 0.70, 0.72, 0.72, 0.90),
    2: (0.00, 0.00, 0.10, 0.17, 0.22, 0.23, 0.23, 0.60),
}
_ENDING_SHARES = (0.10, 0.25, 0.42, 0.50, 0.53, 0.53, 0.53, 0.55)
_STEM_EVERY = 4  # every fourth word is a stem; the others come from a more frequent stem

_ONSETS = {
    "": 17, "b": 7, "c": 8, "d": 7, "f": 5, "g": 5, "h": 6, "j": 2, "k": 4, "l": 8, "m": 8, "n": 6,
    "p": 7, "r": 10, "s": 10, "t": 9, "v": 3, "w": 4, "y": 1, "z": 1, "bl": 1, "br": 2, "ch": 3,
    "cl": 1, "cr": 2, "dr": 1, "fl": 1, "fr": 1, "gr": 2, "ph": 1, "pl": 1, "pr": 3, "qu": 1,
    "sh": 2, "sl": 1, "sp": 1, "st": 4, "str": 1, "th": 3, "tr": 3, "wh": 1,
}  # fmt: skip
_NUCLEI = {
    "a": 18, "e": 20, "i": 16, "o": 14, "u": 8, "y": 2, "ai": 2, "au": 1, "ea": 3, "ee": 2, "ei": 1,
    "ia": 2, "ie": 2, "io": 2, "oo": 2, "ou": 3,
}  # fmt: skip
_CODAS = {
    "": 60, "n": 11, "r": 10, "l": 6, "s": 6, "t": 6, "c": 2, "d": 3, "m": 4, "p": 2, "g": 1,
    "k": 1, "b": 1, "nd": 2, "nt": 2, "ng": 1, "st": 2, "ck": 1, "ll": 2, "ss": 1, "rt": 1, "rd": 1,
    "x": 1,
}  # fmt: skip
_ENDINGS = {
    "s": 20, "ed": 14, "ing": 12, "er": 8, "ers": 3, "ly": 5, "al": 4, "ion": 6, "ions": 2, "on": 4,
    "an": 4, "es": 5, "y": 4, "e": 8, "ic": 2, "ity": 2, "ous": 1, "able": 1, "ment": 2, "ness": 1,
    "ton": 2, "man": 2, "ville": 1, "land": 1, "field": 1, "ism": 1, "ist": 1, "ive": 2, "o": 2,
    "a": 5,
}  # fmt: skip
_ACCENTED_NUCLEI = {
    "é": 1, "á": 1, "í": 1, "ó": 1, "ö": 1, "ü": 1, "è": 1, "ō": 1, "ã": 1, "ø": 1, "ā": 1, "ū": 1,
    "å": 1, "ñe": 1, "ça": 1, "ł": 1, "š": 1,
}  # fmt: skip
_FOREIGN = {
    "да": 1, "ми": 1, "не": 1, "ская": 1, "λο": 1, "δη": 1, "κα": 1, "ア": 1, "リ": 1, "の": 1,
    "大": 1, "山": 1, "本": 1, "שם": 1, "ال": 1,
}  # fmt: skip

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_LETTER_CASE = np.uint64(0x2020202020202020)
_CHOICES = 1 << 16


def word_rows(ranks: Integers, salt: int = 0) -> Rows:
    """Return the rows of words, `uint64[ranks, 4]`.

    Args:
        ranks: `int64[ranks]`, from 1.
        salt: each salt gives another spelling, of the same kind.
    """
    keys = ranks.astype(np.uint64)
    own = _hash(keys + np.uint64(salt << 56))
    is_stem = (ranks % _STEM_EVERY == 1) & (salt == 0)
    stem_ranks = np.where(is_stem, ranks, _stem_ranks(ranks, own))
    stem = _hash(stem_ranks.astype(np.uint64))
    rows = np.stack([_SYLLABLES[_part(stem, part)] for part in range(4)], axis=1)
    for syllable, shares in _SYLLABLE_SHARES.items():
        share = np.interp(np.log10(stem_ranks), _RANKS, shares)
        rows[_part(_hash(stem), syllable) >= share * _CHOICES, syllable] = 0
    log_rank = np.log10(ranks)
    has_ending = _part(own, 0) < np.interp(log_rank, _RANKS, _ENDING_SHARES) * _CHOICES
    rows[:, 3] = np.where(has_ending, _ENDING_FIELDS[_part(own, 3)], _SPACE)
    _apply_kinds(rows, log_rank, _uniform(_hash(~keys)), own)
    return rows


def word_table() -> Rows:
    """Return the rows of the most frequent words, `uint64[TABLE_RANKS, 4]`, with unique spellings.

    Row 0 is the most frequent word.
    """
    ranks = np.arange(1, TABLE_RANKS + 1)
    rows = word_rows(ranks)
    rows[: len(HEAD)] = _fields([f"{word} " for word in HEAD], 4)
    spellings: set[bytes] = set()
    salt = 0
    unsettled = np.arange(TABLE_RANKS)
    while len(unsettled):
        words = rows[unsettled].tobytes().translate(None, delete=b"\0").split(b" ")[:-1]
        again = []
        for index, word in zip(unsettled.tolist(), words, strict=True):
            if word in spellings:
                again.append(index)
            spellings.add(word)
        salt += 1
        unsettled = np.array(again, dtype=np.int64)
        rows[unsettled] = word_rows(ranks[unsettled], salt % 256)
    return rows


def _stem_ranks(ranks: Integers, own: Rows) -> Integers:
    """Return the ranks of the stems whose syllables the words have, at most their own."""
    return (ranks * _uniform(_hash(own))).astype(np.int64) // _STEM_EVERY * _STEM_EVERY + 1


def _apply_kinds(rows: Rows, log_rank: Floats, draw: Floats, spelling: Rows) -> None:
    """Turn rows, in place, into kinds of words, chosen by `draw`, which is uniform in [0, 1)."""
    below = np.zeros(len(rows))
    members = {}
    for kind, shares in _KINDS.items():
        above = below + np.interp(log_rank, _RANKS, shares)
        members[kind] = np.flatnonzero((draw >= below) & (draw < above))
        below = above
    for kind, suffix in (("number", " "), ("ordinal", "th ")):
        chosen = members[kind]
        # Log-uniform, with more digits for rarer words, so that there are enough different ones.
        exponents = 0.7 + spelling[chosen] / 2.0**64 * log_rank[chosen]
        rows[chosen] = _fields([f"{int(10**x)}{suffix}" for x in exponents], 4)
    chosen = members["accented"]
    rows[chosen, 1] = _ACCENTED[_part(spelling[chosen], 1)]
    chosen = members["foreign"]
    for field in range(3):
        rows[chosen, field] = _FOREIGN_FIELDS[_part(spelling[chosen], field)]
    rows[chosen, 3] = _SPACE
    chosen = members["upper"]
    rows[chosen, :3] &= ~_LETTER_CASE
    rows[chosen, 3] = _SPACE
    rows[members["capitalised"], 0] &= ~(_LETTER_CASE & np.uint64(0xFF))


def _hash(keys: Rows) -> Rows:
    """Return 64 well-mixed bits for each key (the finalizer of splitmix64, Steele et al. 2014)."""
    mixed = (keys + np.uint64(1)) * _MULTIPLIER
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _uniform(hashes: Rows) -> Floats:
    return (hashes >> np.uint64(11)) / 2.0**53


def _part(spelling: Rows, part: int) -> Rows:
    return (spelling >> np.uint64(16 * part)) & np.uint64(_CHOICES - 1)


def _fields(texts: list[str], fields: int) -> Rows:
    """Return texts as rows of `fields` 64-bit fields, filled with NUL bytes."""
    filled = b"".join(text.encode().ljust(8 * fields, b"\0") for text in texts)
    return np.frombuffer(filled, dtype="<u8").reshape(-1, fields).astype(np.uint64)


def _choices(weights: Mapping[str, float]) -> Rows:
    """Return 65,536 fields in which each text occurs in proportion to its weight."""
    cumulative = np.cumsum(list(weights.values()))
    places = (np.arange(_CHOICES) + 0.5) / _CHOICES * cumulative[-1]
    chosen: Rows = _fields(list(weights), 1)[np.searchsorted(cumulative, places), 0]
    return chosen


def _syllables(nuclei: Mapping[str, int]) -> dict[str, float]:
    """Return all syllables (onset, nucleus, coda) with the products of their weights."""
    return {
        onset + nucleus + coda: a * b * c
        for onset, a in _ONSETS.items()
        for nucleus, b in nuclei.items()
        for coda, c in _CODAS.items()
    }


_SYLLABLES = _choices(_syllables(_NUCLEI))
_ACCENTED = _choices(_syllables(_ACCENTED_NUCLEI))
_ENDING_FIELDS = _choices({f"{ending} ": weight for ending, weight in _ENDINGS.items()})
_FOREIGN_FIELDS = _choices(_FOREIGN)
_SPACE = _fields([" "], 1)[0, 0]
