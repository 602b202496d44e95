"""Text broken into pieces in compiled loops, as byte-level BPE does before merging.

The pieces are those of the regular expressions below. Each expression is written exactly as in
tokenizer.json files, which are recognized by it. (The tiktoken library writes some of them in a way
that means something else to the tokenizers library, whose regular expressions read {1,3}+ and $
differently.)

Pairs of numbers are found in a hash table. Two arrays together are the table: `joined`, integers[n,
3], holds by *rank* both numbers of a pair and what belongs to them. `pairs`, uint32[a power of
two], is in buckets: the rank + 1 of each pair, below a tag of its hash, or 0. So most pairs that
are not in the table cost a single access to little memory. A pair is in its own bucket, or after
buckets that are full.

Pieces of text that byte-level BPE merges to a single token are found by their bytes. In text like
that on which a vocabulary was trained, these are most pieces: 98 of 100 in English, 93 in Thai, 61
in Chinese. Finding one takes as long as a merge or two.
"""

import unicodedata
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.units import (
    HALF,
    MULTIPLIER,
    ONE,
    WORD_BYTES,
    read_character,
    read_part,
)

# GPT-2 (Radford et al. 2019), RoBERTa; the ByteLevel pre-tokenizer has it built in.
GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
# GPT-2's, but numbers are pieces of one digit, or of up to three, without the space before them.
DIGITS, DIGITS3 = (GPT2.replace(r" ?\p{N}+", digits) for digits in (r"\p{N}", r"\p{N}{1,3}"))
# GPT-3.5 and GPT-4 (cl100k_base), Llama 3.
CL100K = (
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"""
    r"""| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
# Qwen 2.
QWEN2 = CL100K.replace("{1,3}", "")
# GPT-4o (o200k_base).
_CONTRACTION = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
O200K = (
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"""
    rf"""{_CONTRACTION}|"""
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"""
    rf"""{_CONTRACTION}|"""
    r"""\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
# DeepSeek V3: digits, ideographs and kana, and the rest, each within the pieces of the one before.
DEEPSEEK_STEPS = (
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    (
        """[!"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"""
        "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
        "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
    ),
)
DEEPSEEK = "\n".join(DEEPSEEK_STEPS)
# any_case, most_digits, cased and segmented of `PieceRules`.
RULES = {
    GPT2: (False, 2**62, False, False), DIGITS: (False, 1, False, False),
    DIGITS3: (False, 3, False, False), CL100K: (True, 3, False, False),
    QWEN2: (True, 1, False, False), O200K: (True, 3, True, False), DEEPSEEK: (True, 3, False, True),
}  # fmt: skip
# These take the last character of white space from what follows it, line breaks included.
GPT2S = frozenset({GPT2, DIGITS, DIGITS3})


@cache
def byte_alphabet() -> dict[str, int]:
    """The bytes in order, by the characters that GPT-2 writes: printable ones as themselves."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return {chr(byte if byte in printable else next(others)): byte for byte in range(256)}


RANK_BITS = np.uint32(22)
MOST_PAIRS = 2**22
_RANK_MASK = np.uint32(MOST_PAIRS - 1)
_TAG_SHIFT = np.uint64(32 + 22)  # a tag is the rest of 32 bits
# Entries that are compared at once.
_BUCKET = np.uint64(4)


@njit(inline="always")
def hash_pair(left: int, right: int) -> np.uint64:
    """Return the hash of a pair."""
    first = np.uint64(left)
    product = ((first << HALF | first >> HALF) ^ np.uint64(right)) * MULTIPLIER
    return product ^ (product >> HALF)


@njit(inline="always")  # each call counts references to the arrays
def find_rank(pairs: np.ndarray, joined: np.ndarray, left: int, right: int) -> np.int64:
    """Return the rank of a pair; -1 for others.

    All entries of a bucket are compared, without a branch for each: most pairs are never joined,
    and which are cannot be predicted.
    """
    value, last = hash_pair(left, right), np.uint64(len(pairs) - 1)
    tag, begin = np.uint32(value >> _TAG_SHIFT), value * _BUCKET & last
    while True:
        found = np.uint32(0)
        for place in range(_BUCKET):
            entry = pairs[begin + np.uint64(place)]
            found = max(found, entry & _RANK_MASK if entry >> RANK_BITS == tag else np.uint32(0))
        if found:
            rank = np.int64(found) - 1
            if joined[rank, 0] == left and joined[rank, 1] == right:
                return rank
            for place in range(_BUCKET):  # several may have the tag
                rank = np.int64(pairs[begin + np.uint64(place)] & _RANK_MASK) - 1
                if rank >= 0 and joined[rank, 0] == left and joined[rank, 1] == right:
                    return rank
        if not pairs[begin + np.uint64(_BUCKET - 1)]:
            return np.int64(-1)
        begin = (begin + np.uint64(_BUCKET)) & last


@njit
def put_rank(pairs: np.ndarray, joined: np.ndarray, rank: int) -> None:
    """Write the rank of a pair into the hash table, in place of an earlier one."""
    left, right = joined[rank, 0], joined[rank, 1]
    value, last = hash_pair(left, right), np.uint64(len(pairs) - 1)
    slot = value * _BUCKET & last
    while pairs[slot]:
        known = np.int64(pairs[slot] & _RANK_MASK) - 1
        if joined[known, 0] == left and joined[known, 1] == right:
            break
        slot = (slot + ONE) & last
    pairs[slot] = np.uint32(value >> _TAG_SHIFT) << RANK_BITS | np.uint32(rank + 1)


@njit
def hash_pairs(joined: np.ndarray) -> np.ndarray:
    """Return the hash table of the pairs in `joined`; if one comes twice, it has its later rank."""
    size = 16
    while size < 2 * len(joined):
        size *= 2
    pairs = np.zeros(size, np.uint32)
    for rank in range(len(joined)):
        put_rank(pairs, joined, rank)
    return pairs


# Classes of characters, and what GPT-4o's pattern tells apart: letters with and without case, and
# marks, which count as letters and, by the lowest bits, as other characters. To DeepSeek's, marks
# are letters; ideographs and kana, signs among them, and what is not assigned there end what is
# before them; STRAY characters are nothing unless a letter follows.
OTHER, LETTER, NUMBER, SPACE, UNKNOWN = 0, 1, 2, 3, 4
UPPER, LOWER, MARK, _WITHOUT_MARKS = 5, 6, 8, 7
IDEOGRAPH, IDEOGRAPHIC_SIGN, IDEOGRAPHIC_GAP, STRAY = 5, 6, 7, 12
_PROPERTIES: dict[str, dict[int, tuple[str, ...]]] = {
    O200K: {
        UPPER: ("Lu", "Lt"), LOWER: ("Ll",), LETTER: ("Lm", "Lo"), MARK: ("M",), NUMBER: ("N",),
    },
    DEEPSEEK: {LETTER: ("L", "M"), NUMBER: ("N",), STRAY: ("C",)},
}  # fmt: skip
_OTHER_PROPERTIES = {LETTER: ("L",), NUMBER: ("N",)}

_LONG_S = 0x17F  # equals "s" if case does not matter
_APOSTROPHE, _BLANK, _SLASH = 0x27, 0x20, 0x2F
# The characters with Unicode's property White_Space, which \s matches.
_WHITE_SPACE = (
    *range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F,
    0x205F, 0x3000,
)  # fmt: skip
# After the last letters that are assigned.
_LAST_CODE = 0x34000
# Normalizers are asked about the characters before this one; rare ideographs follow.
_LAST_NORMAL = 0x20000
# First and last of those that DeepSeek's pattern takes out.
_IDEOGRAPHS = ((0x4E00, 0x9FA5), (0x3040, 0x30FF))


class PieceRules(NamedTuple):
    """What differs between patterns.

    Attributes:
        classes: uint8[code points].
        any_case: whether 'S is treated like 's, and a single character that is not a letter or
            number joins the letters after it, and line ends join the signs before them (GPT-4 and
            later).
        most_digits: most numbers in a piece; a blank precedes them only if there is no limit.
        cased: whether words end before capitals and after 's (GPT-4o).
        segmented: whether numbers, ideographs and kana end what is before them (DeepSeek).
    """

    classes: np.ndarray
    any_case: bool
    most_digits: int
    cased: bool
    segmented: bool


@cache
def character_classes(pattern: str = GPT2) -> npt.NDArray[np.uint8]:
    """The class of every code point, uint8[0x110000]; UNKNOWN if Unicode has not assigned it yet.

    The tokenizer may know a later Unicode: `learn_classes` asks it when such a character comes.

    Args:
        pattern: the regular expression that needs the classes.
    """
    classes = np.full(0x110000, UNKNOWN, np.uint8)
    # Each process does this when it starts: all categories as one text, of two letters each.
    categories = "".join(map(unicodedata.category, map(chr, range(_LAST_CODE)))).encode()
    major, minor = np.frombuffer(categories, np.uint8).reshape(-1, 2).T
    known = classes[:_LAST_CODE]
    is_known = (major != ord("C")) | (minor != ord("n"))
    known[is_known] = OTHER
    for kind, names in _PROPERTIES.get(pattern, _OTHER_PROPERTIES).items():
        for name in names:
            has_property = is_known & (major == ord(name[0]))
            known[has_property & (minor == ord(name[-1]) if name[1:] else has_property)] = kind
    classes[list(_WHITE_SPACE)] = SPACE
    if pattern == DEEPSEEK:
        for first, last in _IDEOGRAPHS:
            own = classes[first : last + 1]
            kinds = {LETTER: IDEOGRAPH, OTHER: IDEOGRAPHIC_SIGN, UNKNOWN: IDEOGRAPHIC_GAP}
            own[:] = [kinds[kind] for kind in own.tolist()]
    return classes


def learn_classes(
    classes: npt.NDArray[np.uint8], text: np.ndarray, spans: np.ndarray, pattern: str = GPT2
) -> bool:
    """Ask the tokenizers library for the classes of characters that are unknown.

    Args:
        classes: uint8[0x110000], those of `character_classes`; written. (Threads may share them:
            all write the same.)
        text: uint8[bytes], valid UTF-8.
        spans: int64[n, 2], first byte and end of the stretches whose characters are learnt.
        pattern: that of `character_classes`.

    Returns:
        Whether there were any.
    """
    distinct: set[str] = set()
    for start, stop in spans.tolist():
        distinct.update(str(text[start:stop].data, "utf-8"))
    unknown = [ord(one) for one in distinct if classes[ord(one)] == UNKNOWN]
    if not unknown:
        return False
    asked = "".join(map(chr, unknown))
    learnt = np.full(len(unknown), OTHER, np.uint8)
    for kind, names in _PROPERTIES.get(pattern, _OTHER_PROPERTIES).items():
        properties = "".join(f"\\p{{{name}}}" for name in names)
        split = Split(Regex(f"[^{properties}]"), "removed")
        for _, (begin, end) in split.pre_tokenize_str(asked):
            learnt[begin:end] = kind
    classes[unknown] = learnt
    return True


def list_changing(
    form: Literal["NFC", "NFKC"],
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint8]]:
    """List what a normalizer may change: text without it stays as it is, if no order decreases.

    That holds for the tokenizer's Unicode, too: a later one does not change such text.

    Args:
        form: NFC or NFKC.

    Returns:
        bool[0x110000], whether each code point itself may be changed, or joined to one before it.
        uint8[code points], the combining classes, the orders of `is_disordered`.
    """
    characters = [*map(chr, range(0x80, _LAST_NORMAL))]
    joined = "\n".join(characters)
    changed = unicodedata.normalize(form, joined).split("\n")
    decomposed = unicodedata.normalize("NFD", joined).split("\n")
    joining = {inner for text in decomposed for inner in text[1:]}
    changing = np.ones(0x110000, np.bool_)
    changing[:0x80] = False
    changing[0x80:_LAST_NORMAL] = [
        image != one or one in joining for one, image in zip(characters, changed, strict=True)
    ]
    orders = bytes(map(unicodedata.combining, map(chr, range(_LAST_NORMAL))))
    return changing, np.frombuffer(orders, np.uint8)


@njit
def is_disordered(orders: np.ndarray, text: np.ndarray, start: int, stop: int) -> bool:
    """Whether a mark in a stretch of text has a lower order, other than 0, than the one before."""
    last, place = 0, start if len(orders) else stop
    while place < stop:
        code, size = read_character(text, place)
        order = orders[code] if code < len(orders) else 0
        if 0 < order < last:
            return True
        last, place = order, place + size
    return False


@njit(inline="always")
def end_of_run(
    classes: np.ndarray, text: np.ndarray, place: int, stop: int, wanted: int, most: int
) -> int:
    """Return where a run of characters of one class ends; -1 if a class is unknown.

    Args:
        classes: uint8[code points].
        text: uint8[bytes].
        place: where the run begins; it may be empty.
        stop: where the text ends.
        wanted: the class.
        most: characters of the longest run.
    """
    while place < stop and most > 0:
        code, size = read_character(text, place)
        if classes[code] == UNKNOWN:
            return -1
        if classes[code] & _WITHOUT_MARKS != wanted:
            break
        place, most = place + size, most - 1
    return place


@njit(inline="always")
def contraction_bytes(text: np.ndarray, place: int, stop: int, any_case: bool) -> int:
    """Return the size of 's, 't, 'm, 'd, 're, 've or 'll at a place, 0 for others, -1 if unsure."""
    if text[place] != _APOSTROPHE or place + 1 >= stop:
        return 0
    if any_case and read_character(text, place + 1)[0] == _LONG_S:
        return -1
    case = 0x20 if any_case else 0
    first = text[place + 1] | case if text[place + 1] >= 0x40 else 0
    if first in (0x73, 0x74, 0x6D, 0x64):
        return 2
    second = text[place + 2] | case if place + 2 < stop and text[place + 2] >= 0x40 else 0
    is_long = (first == 0x6C and second == 0x6C) or (first in (0x72, 0x76) and second == 0x65)
    return 3 if is_long else 0


@njit
def end_of_blank(rules: PieceRules, text: np.ndarray, place: int, stop: int) -> int:
    """Return where a piece of white space ends that is not joined to other text; -1 if unknown."""
    end: int = end_of_run(rules.classes, text, place, stop, SPACE, stop)
    if end < 0:
        return end
    line_end = last = place
    following = place
    while following < end:
        last = following
        code, size = read_character(text, following)
        following += size
        if code in (0x0A, 0x0D):
            line_end = following
    if rules.any_case and line_end > place:
        return line_end
    # The last character before other text is left to that text, unless it is the only one.
    return end if end == stop or last == place else last


@njit
def end_of_word(classes: np.ndarray, text: np.ndarray, place: int, stop: int) -> int:
    """Return where a piece of letters ends by GPT-4o's pattern.

    Capitals come first, then other letters. What has no case, and marks, may be either: without
    small letters, the last of them is the end.

    Args:
        classes: uint8[code points], with cases.
        text: uint8[bytes], valid UTF-8.
        place: where it begins.
        stop: where the text ends.

    Returns:
        The place itself if no letters begin there; -1 if it depends on unknown characters.
    """
    code, size = read_character(text, place)
    first = classes[code]
    leads = first in (OTHER, MARK, SPACE) and code not in (0x0A, 0x0D)
    begin = end = last = place + size if leads else place
    has_small = False
    while end < stop:
        code, size = read_character(text, end)
        kind = classes[code]
        if kind == UNKNOWN:
            return -1
        has_small |= kind == LOWER
        if kind not in (LOWER, LETTER, MARK) and (kind != UPPER or has_small):
            break
        end += size
        if kind != UPPER:
            last = end
    if last > begin or first == MARK:
        end = last
    elif end == begin:
        return place
    size = contraction_bytes(text, end, stop, True) if end < stop else 0
    return end + size if size >= 0 else -1


@njit
def end_of_segment(rules: PieceRules, text: np.ndarray, place: int, stop: int) -> int:
    """Return where a piece ends by DeepSeek's pattern; -1 if it depends on unknown characters.

    Args:
        rules: the pattern's rules.
        text: uint8[bytes], valid UTF-8.
        place: where it begins.
        stop: where the text ends.
    """
    classes = rules.classes
    code, size = read_character(text, place)
    kind, second, after, following = classes[code], place + size, 0, UNKNOWN
    if second < stop:
        after, _ = read_character(text, second)
        following = classes[after]
    if kind == OTHER and code < 0x80 and _is_ascii_letter(after):
        while second < stop and _is_ascii_letter(text[second]):
            second += 1
        return int(second)
    leads = following == LETTER and kind in (SPACE, STRAY) and code not in (0x0A, 0x0D)
    leads |= following == OTHER and code == _BLANK
    begin, kind = (second, following) if leads else (place, kind)
    if kind in (UNKNOWN, STRAY, IDEOGRAPHIC_GAP):
        return -1
    end: int = end_of_run(
        classes, text, begin, stop, kind, rules.most_digits if kind == NUMBER else stop
    )
    while kind == OTHER and 0 < end < stop and text[end] in (0x0A, 0x0D):
        end += 1
    if kind == SPACE and end > 0:
        if end < stop:
            following = classes[read_character(text, end)[0]]
            ends = following == NUMBER or IDEOGRAPH <= following <= IDEOGRAPHIC_GAP
            stop = end if ends else stop
        end = end_of_blank(rules, text, place, stop)
    return end


@njit(inline="always")
def _is_ascii_letter(code: int) -> bool:
    return 0x61 <= code | 0x20 <= 0x7A


@njit(inline="always")
def end_of_piece(rules: PieceRules, text: np.ndarray, place: int, stop: int) -> int:
    """Return where the piece that begins at a place ends; -1 if it depends on unknown characters.

    Args:
        rules: the pattern's rules.
        text: uint8[bytes], valid UTF-8.
        place: first byte.
        stop: where the text ends.
    """
    if rules.cased or rules.segmented:
        word_end: int = (
            end_of_word(rules.classes, text, place, stop)
            if rules.cased
            else end_of_segment(rules, text, place, stop)
        )
        if word_end != place:
            return word_end
    size = contraction_bytes(text, place, stop, rules.any_case)
    if size:
        return place + size if size > 0 else -1
    code, size = read_character(text, place)
    first = rules.classes[code]
    # A blank, or in later patterns any one sign, may precede letters; only a blank precedes signs.
    begin, kind, following = place, first, first
    if (code == _BLANK or (rules.any_case and first in (OTHER, SPACE))) and place + size < stop:
        following = rules.classes[read_character(text, place + size)[0]]
        leads = following == LETTER and code not in (0x0A, 0x0D)
        leads |= code == _BLANK and (
            following == OTHER or (following == NUMBER and rules.most_digits > 3)
        )
        if leads:
            begin, kind = place + size, following
    if UNKNOWN in (kind, following):
        return -1
    if kind == SPACE:
        blank_end: int = end_of_blank(rules, text, place, stop)
        return blank_end
    most = rules.most_digits if kind == NUMBER else stop
    end: int = end_of_run(rules.classes, text, begin, stop, kind, most)
    if rules.any_case and kind == OTHER and end > 0:
        while end < stop and (text[end] in (0x0A, 0x0D) or (rules.cased and text[end] == _SLASH)):
            end += 1
    return end


# Most bytes of a token that is found; a piece is read in two words, and a longer one in four.
LONGEST_TOKEN = 4 * WORD_BYTES
_SHORT = 2 * WORD_BYTES
_ALL_BITS = np.uint64(2**64 - 1)
_BEGINNING_SHIFT = np.uint64(64 - 16)


class WholeTokens(NamedTuple):
    """Tokens by the bytes that are merged to them.

    Attributes:
        begins_long: bool[65536], by a hash of the first 8 bytes, whether a token has more of them.
            Where words are long, as in Chinese, nearly all pieces are refused by this.
        pairs: uint32[a power of two], the hash table of two numbers (above).
        joined: uint64[tokens, 5]: both numbers of each token, its id, and its last two words.
            The numbers are the first two words, into which these are mixed if there are more.
    """

    begins_long: np.ndarray
    pairs: np.ndarray
    joined: np.ndarray


@njit(inline="always")
def find_token(tokens: WholeTokens, text: np.ndarray, start: int, end: int) -> np.int64:
    """Return the id of a piece that is a token; -1 for others, and if the text ends soon.

    Args:
        tokens: the tokens.
        text: uint8[bytes], valid UTF-8.
        start: where the piece begins.
        end: where the piece ends.
    """
    size = end - start
    if size > LONGEST_TOKEN or start + LONGEST_TOKEN > len(text):
        return np.int64(-1)
    first = read_part(text, start, size)
    if size > WORD_BYTES and not tokens.begins_long[first * MULTIPLIER >> _BEGINNING_SHIFT]:
        return np.int64(-1)
    second = read_part(text, start + WORD_BYTES, size - WORD_BYTES)
    third = fourth = _ALL_BITS
    if size > _SHORT:
        third = read_part(text, start + _SHORT, size - _SHORT)
        fourth = read_part(text, start + _SHORT + WORD_BYTES, size - _SHORT - WORD_BYTES)
        first, second = first ^ third * MULTIPLIER, second ^ fourth * MULTIPLIER
    rank = find_rank(tokens.pairs, tokens.joined, first, second)
    if rank < 0 or tokens.joined[rank, 3] != third or tokens.joined[rank, 4] != fourth:
        return np.int64(-1)
    return np.int64(tokens.joined[rank, 2])


@njit
def collect_tokens(text: np.ndarray, ends: np.ndarray, ids: np.ndarray) -> WholeTokens:
    """Return the tokens that are found.

    Args:
        text: uint8[bytes + LONGEST_TOKEN], the tokens one after the other, and more of no meaning.
        ends: int64[tokens + 1] into text.
        ids: int32[tokens], what the bytes of each are merged to; if that is not a single token, -1.
    """
    begins_long, words = np.zeros(1 << 16, np.bool_), np.empty(4, np.uint64)
    joined = np.empty((len(ids), 5), np.uint64)
    count = 0
    for token in range(len(ids)):
        start, end = ends[token], ends[token + 1]
        # 0xFF is not a byte of UTF-8, and fills up words.
        if ids[token] < 0 or end - start > LONGEST_TOKEN or (text[start:end] == 0xFF).any():
            continue
        for word in range(4):
            size = end - start - word * WORD_BYTES
            words[word] = read_part(text, start + word * WORD_BYTES, size)
        if end - start > WORD_BYTES:
            begins_long[words[0] * MULTIPLIER >> _BEGINNING_SHIFT] = True
        if end - start > _SHORT:
            words[0] ^= words[2] * MULTIPLIER
            words[1] ^= words[3] * MULTIPLIER
        joined[count, :2], joined[count, 2], joined[count, 3:] = words[:2], ids[token], words[2:]
        count += 1
    joined = joined[:count].copy()
    return WholeTokens(begins_long, hash_pairs(joined), joined)
