"""What unigram tokenizers do to a text before they look for pieces in it.

Their normalizers map characters, and treat spaces in a few ways: spaces at the ends of a text are
removed, several become one, one is put before the text, and all are written as "▁", at which the
text is broken into words. `read_spacing` reads the latter from a tokenizer.json. What becomes of
each character, the tokenizer's own normalizer is asked (`read_characters`).

Asking for one character at a time tells what becomes of a text only if no character changes what
becomes of another one. Unicode's marks do: NFC joins them to the letter before them, and the
Precompiled normalizer looks at a grapheme, a letter with its marks, and replaces all of it by what
its map has for the shortest key at its beginning. So a character that *joins* the one before it is
known only after one that is *inert*: which the normalizer leaves as it is, and with which no key
begins. Then no key stands at the beginning of the grapheme, whose characters are mapped one by one,
as are those of any grapheme of six bytes or more: among characters of three, keys do not matter.
Not known at all are characters that compose with the one before them, and those that are not the
first of a key of a SentencePiece map, which replaces keys wherever they stand
(`corpusmill.tokenization.sources.charsmap`). Marks are known in the order that NFC leaves.
"""

import base64
import re
import unicodedata
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.units import (
    BEGINS,
    DEPENDS,
    ENDS,
    GAP,
    STAYS,
    STAYS_TO_WIDE,
    WIDE,
    read_character,
)
from corpusmill.tokenization.sources.charsmap import MARKERS, read_key_characters
from corpusmill.tokenization.tokenizer_file import Part, list_steps

SPACE = "\u2581"
# How a text is broken at spaces: not at all, before each of them, or before a run of them.
WHOLE, EACH, RUNS = 0, 1, 2
# When a space is put before a text: never, unless it begins with one, or always.
NEVER, UNLESS_THERE, ALWAYS = 0, 1, 2
# What is removed at an end of a text once it is mapped: nothing, white space, or spaces.
NOTHING, WHITE_SPACE, SPACES = 0, 1, 2


class Spacing(NamedTuple):
    """What is done to the spaces of a text, in this order.

    Attributes:
        trims_left: whether white space at the beginning is removed before characters are mapped.
        trims_right: whether white space at the end is.
        strips_left: what is removed at the beginning once characters are mapped.
        strips_right: what is removed at the end.
        collapses: whether several spaces become one.
        prepends: when a space is put before the text.
        breaks: how it is broken into words.
        white_is_space: whether all white space is a space.
        only_first: whether a space is put only before what was first before characters were mapped.
    """

    trims_left: bool = False
    trims_right: bool = False
    strips_left: int = NOTHING
    strips_right: int = NOTHING
    collapses: bool = False
    prepends: int = NEVER
    breaks: int = WHOLE
    white_is_space: bool = False
    only_first: bool = False

    @property
    def is_of_words(self) -> bool:
        """Whether each word may be tokenized as a text that begins with the space before it.

        That is a text of its own, in which spaces are removed and put as in the whole one: where
        those at the beginning are removed, one is put back, and several would be one.
        """
        strips_left = self.trims_left or self.strips_left != NOTHING
        strips_right = self.trims_right or self.strips_right != NOTHING
        put_back = self.prepends != NEVER and self.collapses and strips_right
        return (
            self.breaks != WHOLE
            and (self.prepends != ALWAYS or strips_left)
            and (put_back or not strips_left)
        )


_KINDS = {
    "NFC": "m", "NFD": "m", "NFKC": "m", "NFKD": "m", "Nmt": "m", "Precompiled": "m",
    "StripAccents": "m", "Lowercase": "l", "Strip": "t",
}  # fmt: skip
_WORDS = rf"{SPACE}+[^{SPACE}]*|[^{SPACE}]+"
_ENDS, _END, _SEVERAL = r"\A +| +\z", rf"{SPACE}+\z", " {2,}"
# Steps in order, as letters: r texts, l small letters, t Strip, m other maps, b spaces at both
# ends, c and C several spaces to one and to "▁", p Prepend, w spaces to "▁", e "▁" at the end.
_MAPPED_FIRST = re.compile(r"r*l*(t?)([lm]*)([tb]?)([cC]?)(p?)(we?)?")
_PREPENDED_FIRST = re.compile(r"r*[lm]*(p)[lm]*(w?)")
# Literal characters, and a condition for what follows them.
_NAMES = re.compile(r"((?:\\[^\w\s]|\w)+)\(\?=(?:\\.|[^()\\])*\)", re.DOTALL)


def read_spacing(tokenizer_json: Part) -> Spacing | None:
    """Read what a unigram tokenizer does to spaces; None if it has steps that are not known."""
    steps = list_steps(tokenizer_json, "normalizer")
    letters = "".join(map(_letter, steps))
    breaks = list_steps(tokenizer_json, "pre_tokenizer")
    if prepended := _PREPENDED_FIRST.fullmatch(letters):
        return _add_breaks(Spacing(prepends=ALWAYS), breaks, bool(prepended[2]))
    if not (mapped := _MAPPED_FIRST.fullmatch(letters)):
        return None
    trims, _, strips, several, puts, written = mapped.groups()
    sides = [(step["strip_left"], step["strip_right"]) for step in steps if step["type"] == "Strip"]
    before = sides[0] if trims else (False, False)
    after = sides[-1] if strips == "t" else (False, False)
    spacing = Spacing(
        trims_left=before[0],
        trims_right=before[1],
        strips_left=SPACES if strips == "b" else WHITE_SPACE * after[0],
        strips_right=WHITE_SPACE * after[1] or SPACES * (strips == "b" or written == "we"),
        collapses=bool(several),
        prepends=ALWAYS if puts else NEVER,
    )
    if several == "C" and breaks and breaks[0]["type"] == "WhitespaceSplit":
        return None
    return _add_breaks(spacing, breaks, bool(written))


def _letter(step: Part) -> str:
    if step["type"] == "Prepend":
        return "p" if step["prepend"] == SPACE else "?"
    if step["type"] != "Replace":
        return _KINDS.get(step["type"], "?")
    pattern, content = step["pattern"].get("Regex"), step["content"]
    if pattern is None:
        return _letter_of_text(step["pattern"]["String"], content)
    known = {(_ENDS, ""): "b", (_END, ""): "e", (_SEVERAL, " "): "c", (_SEVERAL, SPACE): "C"}
    is_map = content in MARKERS or bool(_list_alternatives(step))
    return known.get((pattern, content), "m" if is_map else "?")


def _letter_of_text(text: str, content: str) -> str:
    if (text, content) == (" ", SPACE):
        return "w"
    if text in MARKERS:
        return "m"
    if {" ", SPACE} & {*text} or not text:
        return "?"
    return "m" if len(text) == 1 else "r"


def _list_alternatives(step: Part) -> list[str]:
    """The texts of a pattern that is nothing else, each of several characters."""
    texts: list[str] = step["pattern"].get("Regex", "").split("|")
    are_texts = all(len(text) > 1 and not re.search(r"(?!\w)[\0-\x7f]", text) for text in texts)
    return texts if are_texts else []


def _add_breaks(spacing: Spacing, steps: list[Part], is_written: bool) -> Spacing | None:
    names = [step["type"] for step in steps]
    if is_written:
        is_words = bool(steps) and (
            names[0] == "Split" and steps[0]["pattern"].get("Regex") == _WORDS
            and steps[0]["behavior"] == "Isolated" and not steps[0]["invert"]
        )  # fmt: skip
        others = steps[1:] if is_words else steps
        return (
            spacing._replace(breaks=RUNS if is_words else WHOLE)
            if all(map(_first_of_names, others))
            else None
        )
    if not steps or names[-1] != "Metaspace" or steps[-1]["replacement"] != SPACE:
        return None
    scheme, split = steps[-1]["prepend_scheme"], steps[-1]["split"]
    if names == ["Metaspace"]:
        prepends = spacing.prepends or (NEVER if scheme == "never" else UNLESS_THERE)
        breaks = EACH if split else WHOLE
        if scheme == "first" and (spacing.trims_left or spacing.strips_left):
            return None  # then no space is put before what was not first
        return spacing._replace(prepends=prepends, breaks=breaks, only_first=scheme == "first")
    if names != ["WhitespaceSplit", "Metaspace"] or scheme != "always" or spacing.prepends:
        return None
    # White space is dropped, and a space put before each word.
    return Spacing(False, False, SPACES, SPACES, True, UNLESS_THERE, EACH, True)


def _first_of_names(step: Part) -> str:
    """The character with which each match of a step begins; empty if that is not known."""
    if step["type"] != "Split" or step["behavior"] != "MergedWithPrevious" or step["invert"]:
        return ""
    names = _NAMES.fullmatch(step["pattern"].get("Regex", ""))
    return names[1].removeprefix("\\")[0] if names else ""


# Code points that are looked at: most of the first plane, and emoji. A reserved one is put between
# them, which no normalizer changes, and which belongs to no other character.
_CODES = (*range(0xD800), *range(0xF900, 0x10000), *range(0x1F000, 0x20000))
_BETWEEN = "\ue000"
# How many bytes may become of one: "½" of two becomes five.
GROWTH = 3
# The bits of what is known of a character. RANK: the rank of the symbol that it becomes, or, with
# SEVERAL, the number of its image. The bits from ORDER on are its place among marks.
# INERT: of a character after which any may join, and INERT_TO_WIDE: after which those of three
# bytes may.
RANK, SEVERAL, JOINS = (1 << 19) - 1, 1 << 19, 1 << 20
INERT, INERT_TO_WIDE, ORDER = 1 << 21, 1 << 22, 23


class Characters(NamedTuple):
    """What a tokenizer turns characters into: symbols, which are characters by rank.

    Attributes:
        known: int32[code points], the bits above; 0 for a character that is not known.
        ends: int32[images + 1]; images[ends[i] : ends[i + 1]] are the symbols of image i.
        images: int32[...].
        codes: int32[symbols], the code point of each; symbol 0 is none, -1. Those of pieces come
            first, and ascend.
        space: the rank of "▁".
        joints: uint8[code points], how they stand beside spaces (`units.find_joints`).
    """

    known: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]
    images: npt.NDArray[np.int32]
    codes: npt.NDArray[np.int32]
    space: int
    joints: npt.NDArray[np.uint8]


@cache
def _composing_later() -> frozenset[int]:
    """Code points that compose with the one before them, by NFC."""
    later = {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}
    for code in _CODES:
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            later.add(int(parts[1], 16))
    return frozenset(later)


# Outside of Unicode's categories of marks: what shares a grapheme with the character before it
# (joiners, halfwidth voiced marks, the vowels AM of Thai and Lao, modifiers of emoji, later parts
# of Korean syllables), or with the one after it (flags, first parts of them, a Malayalam sign).
_JOINING = frozenset(
    {0x200C, 0x200D, 0xE33, 0xEB3, 0xFF9E, 0xFF9F, *range(0x1F3FB, 0x1F400), *range(0x1160, 0x1200),
     *range(0xD7B0, 0xD800)}
)  # fmt: skip
_LEADING = frozenset(
    {*range(0x1F1E6, 0x1F200), *range(0x1100, 0x1160), *range(0xA960, 0xA980), 0xD4E}
)
# Unicode's White_Space.
WHITE = frozenset({*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028,
                   0x2029, 0x202F, 0x205F, 0x3000})  # fmt: skip
_LAST_WHITE = max(WHITE)
_RETURN = 0x0D  # one grapheme with the line feed after it


@cache
def _joins(code: int) -> bool:
    """Whether a character may share a grapheme with the one before it, or compose with it."""
    is_mark = unicodedata.category(chr(code)) in {"Mn", "Mc", "Me", "Cn"}
    return is_mark or code in _JOINING or code in _composing_later()


@cache
def _is_never_known(code: int) -> bool:
    return (
        unicodedata.category(chr(code)) == "Cf" or code in _LEADING or code in {_RETURN, ord(SPACE)}
    )


@cache
def _plain() -> frozenset[int]:
    """Code points, most of all, that stand by themselves in every normal form."""
    return frozenset(
        code
        for code in _CODES
        if code not in WHITE and not unicodedata.decomposition(chr(code)) and not _joins(code)
    )


class _Maps(NamedTuple):
    """What the maps of a normalizer do.

    Attributes:
        orders: whether one orders and composes marks.
        firsts: code points with which keys begin.
        unknown: code points that stand where more than one character is replaced.
    """

    orders: bool
    firsts: frozenset[int]
    unknown: frozenset[int]


def _read_maps(tokenizer_json: Part) -> _Maps:
    steps = list_steps(tokenizer_json, "normalizer")
    everywhere = any(step.get("content") in MARKERS for step in steps)
    firsts, unknown = set[int](), set[int]()
    for step in steps:
        if step["type"] == "Precompiled":
            begins, later = read_key_characters(base64.b64decode(step["precompiled_charsmap"]))
            firsts |= begins
            unknown |= later if everywhere else set()
        elif step["type"] == "Replace":
            text = step["pattern"].get("String", "")
            unknown |= {ord(text[0])} if len(text) > 1 else set()
            unknown |= {ord(one) for text in _list_alternatives(step) for one in text[1:]}
    names = map(_first_of_names, list_steps(tokenizer_json, "pre_tokenizer"))
    unknown |= {ord(name) for name in names if name}
    orders = any(step["type"].startswith("NF") for step in steps)
    # Where keys are replaced everywhere, their later characters are not known.
    return _Maps(orders, frozenset(() if everywhere else firsts), frozenset(unknown))


def read_characters(
    tokenizer_json: Part, tokenizer: Tokenizer, spacing: Spacing, in_pieces: set[str]
) -> Characters | None:
    """Find out what a tokenizer turns each character into.

    Args:
        tokenizer_json: the parsed tokenizer.json of a tokenizer whose spacing is known.
        tokenizer: the same, loaded.
        spacing: its spacing.
        in_pieces: the characters of its pieces, which have ranks, too.

    Returns:
        None if the normalizer does something else than its steps let expect, or the characters are
        too many.
    """
    text = _BETWEEN.join(["", *map(chr, _CODES), ""])
    mapped = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text
    images = mapped.split(_BETWEEN)
    if len(images) != len(_CODES) + 2 or images[0] not in {"", SPACE} or images[-1]:
        return None
    spaces = dict.fromkeys(WHITE if spacing.white_is_space else (ord(" "),), SPACE)
    images = [image.translate(spaces) for image in images[1:-1]]
    maps = _read_maps(tokenizer_json)
    # Few ranks make a small tree of pieces.
    symbols = [*sorted(in_pieces), *sorted({SPACE, *"".join(images)} - in_pieces)]
    if len(symbols) > RANK:
        return None
    ranks = {character: rank for rank, character in enumerate(symbols, 1)}
    known, joints = np.zeros(_CODES[-1] + 1, np.int32), np.zeros(_CODES[-1] + 1, np.uint8)
    several, plain = list[str](), _plain()
    for code, image in zip(_CODES, images, strict=True):
        if _is_never_known(code):
            continue
        inert = _inertness(code, image, maps)
        if code in plain and image == chr(code) and code not in maps.unknown:
            known[code], joints[code] = inert | ranks[image], ENDS | BEGINS | _stay(inert)
            continue
        joints[code] = _joint(code, image, spacing, inert)
        bits = _bits(code, image, maps, inert)
        if bits is not None and len(image) == 1:
            known[code] = bits | ranks[image]
        elif bits is not None:
            known[code] = bits | SEVERAL | len(several)
            several.append(image)
    return Characters(
        known,
        np.cumsum([0, *map(len, several)]).astype(np.int32),
        np.array([ranks[character] for image in several for character in image], np.int32),
        np.array([-1, *map(ord, symbols)], np.int32),
        ranks[SPACE],
        joints,
    )


def _inertness(code: int, image: str, maps: _Maps) -> int:
    if image != chr(code) or (maps.orders and unicodedata.decomposition(image)):
        return 0
    is_wide = code >= WIDE
    return INERT_TO_WIDE * is_wide | INERT * (code not in maps.firsts)


def _stay(inert: int) -> int:
    return (STAYS if inert & INERT else 0) | (STAYS_TO_WIDE if inert & INERT_TO_WIDE else 0)


def _joint(code: int, image: str, spacing: Spacing, inert: int) -> int:
    is_white = code in WHITE
    joint = _stay(inert)
    if image and image[-1] != SPACE and WHITE.isdisjoint({code, ord(image[-1])}):
        joint |= ENDS
    if _joins(code):
        joint |= DEPENDS
    elif not spacing.trims_left or (image and image[0] != SPACE and not is_white):
        joint |= BEGINS  # whether or not white space before it is removed
    return joint | GAP * (is_white and code < 0x80 and image == SPACE)


def _bits(code: int, image: str, maps: _Maps, inert: int) -> int | None:
    """The class of a character; None if it is not known."""
    character, later = chr(code), _composing_later()
    if code in maps.unknown or len(image.encode()) > GROWTH * len(character.encode()):
        return None
    if not _joins(code):
        parts = image[:1] + unicodedata.normalize("NFKD", character)[:1]
        return None if any(_joins(ord(part)) for part in parts) else inert
    is_new = unicodedata.category(character) == "Cn"
    if (is_new and (maps.orders or not inert & INERT)) or (maps.orders and code in later):
        return None
    is_mark = any(unicodedata.combining(part) or ord(part) in later for part in image)
    if image != character and (is_mark or not image):
        return None
    return JOINS | (unicodedata.combining(character) << ORDER if maps.orders else 0)


@njit
def is_white(code: int) -> bool:
    """Whether a character is white space by Unicode."""
    if code > _LAST_WHITE:
        return False
    if code < 0x1680:
        return 0x09 <= code <= 0x0D or code in (0x20, 0x85, 0xA0)
    return 0x2000 <= code <= 0x200A or code in (0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)


@njit
def trim_text(spacing: Spacing, text: np.ndarray, start: int, stop: int) -> tuple[int, int]:
    """Leave out white space at the ends of a text, as far as that comes first."""
    while spacing.trims_left and start < stop:
        code, size = read_character(text, start)
        if not is_white(code):
            break
        start += size
    while spacing.trims_right and start < stop:
        last = stop - 1
        while text[last] & 0xC0 == 0x80:
            last -= 1
        code, _ = read_character(text, last)
        if not is_white(code):
            break
        stop = last
    return start, stop


@njit(inline="always")
def add_symbol(symbols: np.ndarray, count: int, symbol: int, repeated: int) -> int:
    """Write a symbol, unless it and the one before it are `repeated`; return their new number."""
    if symbol == repeated and symbols[count - 1] == repeated:
        return count
    symbols[count] = symbol
    return count + 1


@njit
def map_text(
    characters: Characters,
    spacing: Spacing,
    text: np.ndarray,
    start: int,
    stop: int,
    symbols: np.ndarray,
) -> int:
    """Write the symbols of a text from 1 on; return where they end, or 0 if one is not known.

    Args:
        characters: what each character is turned into.
        spacing: what is done to spaces.
        text: uint8[bytes], valid UTF-8.
        start: where the text begins.
        stop: where it ends.
        symbols: int32[at least GROWTH * bytes + 1]; the first becomes 0.
    """
    known, ends, images = characters.known, characters.ends, characters.images
    repeated = characters.space if spacing.collapses else -1
    symbols[0] = 0  # not the space before the last text
    count, order, before = 1, 0, 0
    while start < stop:
        code, size = read_character(text, start)
        start += size
        bits = known[code] if code < len(known) else 0
        if bits & JOINS:
            needed = INERT if code < WIDE else INERT | INERT_TO_WIDE
            if not before & needed or 0 < bits >> ORDER < order:
                return 0
            order = bits >> ORDER
        else:
            before, order = bits, 0
        if bits & SEVERAL:
            image = bits & RANK
            for place in range(ends[image], ends[image + 1]):
                count = add_symbol(symbols, count, images[place], repeated)
        elif bits:
            count = add_symbol(symbols, count, bits & RANK, repeated)
        else:
            return 0
        if spacing.only_first and count == 1:
            return 0
    return count


@njit
def strip_symbols(
    characters: Characters, spacing: Spacing, symbols: np.ndarray, stop: int, is_empty: bool
) -> tuple[int, int]:
    """Leave out spaces at the ends of a text, and put one before it; return where it is.

    Args:
        characters: what symbols are.
        spacing: what is done to spaces.
        symbols: int32[...], the text from 1 on; the first may be written.
        stop: where it ends.
        is_empty: whether it had no characters before they were mapped.
    """
    codes, space, start = characters.codes, characters.space, 1
    while start < stop and spacing.strips_right != NOTHING:
        last = symbols[stop - 1]
        if not (last == space or (spacing.strips_right == WHITE_SPACE and is_white(codes[last]))):
            break
        stop -= 1
    while start < stop and spacing.strips_left != NOTHING:
        first = symbols[start]
        if not (first == space or (spacing.strips_left == WHITE_SPACE and is_white(codes[first]))):
            break
        start += 1
    puts = spacing.prepends == ALWAYS and not is_empty
    if start < stop:
        puts = puts or (spacing.prepends == UNLESS_THERE and symbols[start] != space)
    elif spacing.strips_left != NOTHING:
        puts = False
    if puts:
        start -= 1
        symbols[start] = space
    return start, stop


@njit(inline="always")
def end_of_word(breaks: int, space: int, symbols: np.ndarray, start: int, stop: int) -> int:
    """Return where the word ends that begins at a place."""
    if breaks == WHOLE:
        return stop
    end = start + 1
    while breaks != EACH and end < stop and symbols[end - 1] == space and symbols[end] == space:
        end += 1
    while end < stop and symbols[end] != space:
        end += 1
    return end
