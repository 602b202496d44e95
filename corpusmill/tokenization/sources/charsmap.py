"""SentencePiece's map of characters, as normalizers of the tokenizers library.

SentencePiece reads a text from left to right and replaces the longest key of the map that begins
at each place. The library's Precompiled normalizer looks at whole graphemes instead: of one with
fewer than six bytes it finds the shortest key at its beginning, and puts that key's value in the
place of all of it. So every mark is separated from what is before it, which leaves single
characters to Precompiled, and NFC then makes one character of what a key of the map joins.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np
from tokenizers import Regex
from tokenizers.normalizers import NFC, Normalizer, Precompiled, Replace

# Pairs of reserved code points, each of which is a grapheme that composes with nothing: between
# what two keys map, and within what one key maps. A second one that stands in a text is separated
# like a mark, so that what is removed is only what was inserted.
_BETWEEN, _WITHIN = MARKERS = "\ufff0\ufff1", "\ufff0\ufff2"
# What shares a grapheme with the character before it, though no key may have it: marks, joiners,
# halfwidth voiced marks, the vowels AM of Thai and Lao, modifiers of emoji, tags, a line feed, and
# marks that are newer than the classes of the library's regular expressions.
_JOINING = (
    r"\p{M}\x{200C}\x{200D}\x{FF9E}\x{FF9F}\x{E33}\x{EB3}\x{1F3FB}-\x{1F3FF}\x{E0020}-\x{E007F}\n"
    r"\x{1ACF}-\x{1AFF}\x{10EFA}\x{10EFB}\x{11B60}-\x{11B67}\x{1E6E3}-\x{1E6F5}\x{FFF1}\x{FFF2}"
)
# Of all keys of a map together: fifty times those of NFKC. A unit that leads to itself has no end.
_MOST_BEGINNINGS = 2**20


@lru_cache(maxsize=2)
def map_as_sentencepiece(charsmap: bytes) -> tuple[Normalizer, ...]:
    """Return the steps that change a text as SentencePiece does by a map.

    Args:
        charsmap: a precompiled_charsmap: the size of a trie in bytes, the trie (a double array of
            darts-clone), and the values that its leaves point to.
    """
    return tuple(_steps(charsmap))


def _steps(charsmap: bytes) -> Iterator[Normalizer]:
    singles, values = dict[int, str](), dict[str, str]()
    for key, value in read_map(charsmap).items():
        if len(key) == 1:
            singles[ord(key)] = value
        else:
            values[key] = value
    joining = f"(?=[{_class(key[-1] for key in values)}{_JOINING}])"
    yield Replace(Regex(rf"{joining}(?!\A|{_ends_within(values)})"), _BETWEEN)
    steps = [
        Replace(Regex(rf"{joining}(?!\A|(?<=\x{{FFF1}}))"), _WITHIN),
        Precompiled(charsmap),
        Replace(_WITHIN, ""),
        NFC(),
    ]
    # What is left: scripts that are newer than the library's NFC, and Greek iotas that a map to
    # small letters makes letters of before they can be joined. Python maps single characters as
    # the steps before NFC do, in a fifth of their time.
    keys = sorted(values, key=len, reverse=True)
    mapped = NFC().normalize_str(_BETWEEN.join(keys).translate(singles)).split(_BETWEEN)
    others: dict[str, list[str]] = defaultdict(list)
    for key, result in zip(keys, mapped, strict=True):
        if result != values[key]:
            others[values[key]].append(key)
    for value, its_keys in others.items():
        yield Replace(Regex("|".join(its_keys)), value)
    yield from steps
    yield Replace(_BETWEEN, "")


def read_map(charsmap: bytes) -> dict[str, str]:
    """Read all keys of a precompiled_charsmap, with their values."""
    values, keys = dict[str, str](), [b""]
    strings = charsmap[4 + int.from_bytes(charsmap[:4], "little") :]
    for before, labels, begins in _walk(charsmap):
        keys = [
            keys[number] + bytes([label])
            for number, label in zip(before.tolist(), labels.tolist(), strict=True)
        ]
        for key, begin in zip(keys, begins.tolist(), strict=True):
            if begin >= 0:
                values[key.decode()] = strings[begin : strings.index(b"\0", begin)].decode()
    return values


def measure_longest(charsmap: bytes) -> int:
    """Return the characters of the longest value of a precompiled_charsmap."""
    values = charsmap[4 + int.from_bytes(charsmap[:4], "little") :].split(b"\0")
    return max(len(value.decode(errors="ignore")) for value in values)


def read_key_characters(charsmap: bytes) -> tuple[set[int], set[int]]:
    """Read the code points with which keys of a precompiled_charsmap begin, and all later ones."""
    codes = lefts = np.zeros(1, np.int64)
    is_first = np.ones(1, np.bool_)
    firsts, later = set[int](), set[int]()
    for before, labels, _ in _walk(charsmap):
        is_lead = lefts[before] == 0
        is_first = np.where(is_lead, codes[before] == 0, is_first[before])
        sizes = (labels >= 0xC0).astype(np.int64) + (labels >= 0xE0) + (labels >= 0xF0)
        begun = np.where(labels < 0x80, labels, labels & (0x3F >> sizes))
        codes = np.where(is_lead, begun, codes[before] << 6 | labels & 0x3F)
        lefts = np.where(is_lead, sizes, lefts[before] - 1)
        firsts.update(codes[(lefts == 0) & is_first].tolist())
        later.update(codes[(lefts == 0) & ~is_first].tolist())
    return firsts, later


def _walk(charsmap: bytes) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Walk through the trie of keys, a byte at a time.

    Yields:
        For each beginning of a key that has one byte more than the last ones: the number of the one
        that it continues, its last byte, and where the key's value begins, or -1 if it is no key.
    """
    size = int.from_bytes(charsmap[:4], "little")
    units = np.frombuffer(charsmap, "<u4", size // 4, 4)
    # A unit's place is its parent's first child, XOR its label; a value has the highest bit set.
    labels = (units & 0x800000FF).astype(np.int64)
    places = np.arange(len(units))
    first_child = places ^ ((units >> 10) << ((units & 0x200) >> 6)).astype(np.int64)
    nodes = np.flatnonzero((labels > 0) & (labels >> 31 == 0))
    nodes = nodes[np.argsort((nodes ^ labels[nodes]), kind="stable")]
    parents = nodes ^ labels[nodes]
    bases, seen = first_child[:1], 0
    while len(bases):
        seen += len(bases)
        if seen > _MOST_BEGINNINGS:
            raise ValueError("keys of its map of characters have no end")
        first, last = (np.searchsorted(parents, bases, side) for side in ("left", "right"))
        counts = last - first
        begins = np.repeat(first - np.cumsum(counts) + counts, counts)
        level = nodes[begins + np.arange(len(begins))]
        before, bases = np.repeat(np.arange(len(counts)), counts), first_child[level]
        values = np.where(units[level] & 0x100, units[bases] & 0x7FFFFFFF, np.int64(-1))
        yield before, labels[level], values


def _ends_within(keys: Iterable[str]) -> str:
    """A pattern for places before the last character of a key and after all others of it."""
    before = defaultdict(set)
    for key in keys:
        before[key[-1]].add(key[:-1])
    ends = defaultdict(list)
    for end, begins in before.items():
        ends[frozenset(begins)].append(end)
    return "|".join(
        sorted(f"(?=[{_class(chars)}])(?<={_any_begin(begins)})" for begins, chars in ends.items())
    )


def _any_begin(begins: Iterable[str]) -> str:
    """A pattern for strings, whose first characters are put together where the others are equal."""
    firsts = defaultdict(set)
    for begin in begins:
        firsts[begin[1:]].add(begin[0])
    rests = defaultdict(list)
    for rest, chars in firsts.items():
        rests[frozenset(chars), rest if len(rest) > 1 else len(rest)].append(rest)
    return "|".join(
        sorted(
            f"[{_class(chars)}]"
            + "".join(f"[{_class(column)}]" for column in zip(*same, strict=True))
            for (chars, _), same in rests.items()
        )
    )


def _class(characters: Iterable[str]) -> str:
    """The inside of a class of characters, as ranges of code points."""
    codes = np.unique([ord(character) for character in characters])
    runs = np.split(codes, np.flatnonzero(np.diff(codes) != 1) + 1)
    return "".join(rf"\x{{{run[0]:X}}}-\x{{{run[-1]:X}}}" for run in runs)
