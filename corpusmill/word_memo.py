"""Token ids remembered for each word, where that is exact.

Words recur, so that most of a tokenizer's work is done again and again. Text is cut at ASCII spaces, and
what lies between two of them, a *unit*, is looked up by its bytes. A unit that is not known is given to the
tokenizer. The memo never changes a result: a hash alone is never trusted, and when it is full it is emptied.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numba import njit
from tokenizers import Tokenizer

# Longer units are rare, and most do not recur (addresses, or text without spaces).
LONGEST_UNIT = 64

_SPACE = 32
_NOT_REMEMBERED = -1
_FNV_OFFSET, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_FOLD = np.uint64(32)

# A space is a starter that composes with nothing and is cased as nothing, so that each of these maps
# "left right" to the maps of its two sides with a space between them.
_NORMALIZERS = {"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents"}
# Each of these always breaks at a space, drops it, and looks at nothing beyond it.
_BREAKING = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
# Each of these only breaks further what it is given.
_REFINING = _BREAKING | {"Punctuation", "Digits"}
_MODELS = {"WordPiece", "WordLevel", "BPE"}


def why_not_exact(tokenizer_json: Mapping[str, Any], tokenizer: Tokenizer) -> str:
    """Why a text's ids are not the ids of its units one after the other; empty where they are.

    Args:
        tokenizer_json: the parsed tokenizer.json.
        tokenizer: the same, loaded.
    """
    return next(_objections(tokenizer_json, tokenizer), "")


def _objections(tokenizer_json: Mapping[str, Any], tokenizer: Tokenizer) -> Iterator[str]:
    for step in _steps(tokenizer_json.get("normalizer"), "normalizers"):
        if step not in _NORMALIZERS:
            yield f"its normalizer {step} may look across spaces"
    steps = _steps(tokenizer_json.get("pre_tokenizer"), "pretokenizers")
    if not steps or steps[0] not in _BREAKING:
        yield f"its pre-tokenizer {' then '.join(steps) or 'none'} may look across spaces"
    for step in steps[1:]:
        if step not in _REFINING:
            yield f"its pre-tokenizer {step} may look across spaces"
    model = tokenizer_json["model"]
    if model.get("type") not in _MODELS or model.get("dropout"):
        yield f"its model is {model.get('type')}" + (" with dropout" if model.get("dropout") else "")
    for token in tokenizer_json.get("added_tokens") or ():
        content = token["content"]
        normalized = tokenizer.normalizer.normalize_str(content) if tokenizer.normalizer else content
        if any(character.isspace() for character in content + normalized):
            yield f"its added token {content!r} holds a space"
        if token.get("lstrip") or token.get("rstrip") or token.get("single_word"):
            yield f"its added token {content!r} looks at its neighbours"


def _steps(part: Mapping[str, Any] | None, inner: str) -> list[str]:
    if part is None:
        return []
    if part["type"] == "Sequence":
        return [step for one in part[inner] for step in _steps(one, inner)]
    return [str(part["type"])]


@njit(cache=True, nogil=True)
def find_units(text: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cut sentences at spaces.

    Args:
        text: uint8[bytes].
        offsets: int64[sentences + 1] into text.

    Returns:
        starts: int64[units], first byte of each unit.
        lengths: int32[units], bytes; never 0.
        hashes: uint64[units].
        unit_offsets: int64[sentences + 1] into the units.

    Example:
        "ab  c" as one sentence gives starts [0, 4], lengths [2, 1] and unit_offsets [0, 2].
    """
    most = (offsets[-1] - offsets[0]) // 2 + len(offsets)
    starts = np.empty(most, np.int64)
    lengths = np.empty(most, np.int32)
    hashes = np.empty(most, np.uint64)
    unit_offsets = np.zeros(len(offsets), np.int64)
    unit = 0
    for sentence in range(len(offsets) - 1):
        place, end = offsets[sentence], offsets[sentence + 1]
        while place < end:
            if text[place] == _SPACE:
                place += 1
                continue
            start = place
            value = _FNV_OFFSET
            while place < end and text[place] != _SPACE:
                value = (value ^ np.uint64(text[place])) * _FNV_PRIME
                place += 1
            starts[unit], lengths[unit], hashes[unit] = start, place - start, value ^ (value >> _FOLD)
            unit += 1
        unit_offsets[sentence + 1] = unit
    return starts[:unit], lengths[:unit], hashes[:unit], unit_offsets


@njit(cache=True, nogil=True)
def look_up(
    text: np.ndarray, starts: np.ndarray, lengths: np.ndarray, hashes: np.ndarray, table: np.ndarray,
    entry_hashes: np.ndarray, unit_offsets: np.ndarray, unit_bytes: np.ndarray, known: int, longest: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The memo's entry of each unit; new units get the entries that follow, in order of appearance.

    Args:
        text: uint8[bytes].
        starts: int64[units].
        lengths: int32[units].
        hashes: uint64[units].
        table: int32[power of two], entry + 1, or 0 where free; new units are put in.
        entry_hashes: uint64[capacity], filled for new units.
        unit_offsets: int64[capacity + 1] into unit_bytes, filled for new units.
        unit_bytes: uint8[...], filled for new units.
        known: entries there are.
        longest: bytes of the longest unit that is remembered.

    Returns:
        entries: int32[units]; -1 for units that are too long, or for which there is no room left.
        new: int64[new units], the unit in which each new entry was met first.
    """
    entries = np.empty(len(starts), np.int32)
    new = np.empty(len(starts), np.int64)
    last = np.uint64(len(table) - 1)
    entry_count = known
    for unit in range(len(starts)):
        length, start = np.int64(lengths[unit]), starts[unit]
        entries[unit] = _NOT_REMEMBERED
        if length > longest:
            continue
        slot = hashes[unit] & last
        while table[slot]:
            entry = np.int64(table[slot]) - 1
            offset = unit_offsets[entry]
            if entry_hashes[entry] == hashes[unit] and unit_offsets[entry + 1] - offset == length:
                same = 0
                while same < length and unit_bytes[offset + same] == text[start + same]:
                    same += 1
                if same == length:
                    entries[unit] = entry
                    break
            slot = (slot + np.uint64(1)) & last
        if entries[unit] >= 0:
            continue
        offset = unit_offsets[entry_count]
        if entry_count == len(entry_hashes) or offset + length > len(unit_bytes):
            continue
        unit_bytes[offset : offset + length] = text[start : start + length]
        unit_offsets[entry_count + 1] = offset + length
        entry_hashes[entry_count] = hashes[unit]
        table[slot] = entry_count + 1
        entries[unit] = entry_count
        new[entry_count - known] = unit
        entry_count += 1
    return entries, new[: entry_count - known]


@njit(cache=True, nogil=True)
def emit_ids(
    entries: np.ndarray, unit_offsets: np.ndarray, id_offsets: np.ndarray, ids: np.ndarray,
    other_offsets: np.ndarray, other_ids: np.ndarray, like: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The ids of each sentence's units, one behind the other.

    Args:
        entries: int32[units], -1 for a unit whose ids are the next of `other_ids`.
        unit_offsets: int64[sentences + 1] into the units.
        id_offsets: int64[entries + 1] into ids.
        ids: int32[...].
        other_offsets: int64[others + 1] into other_ids.
        other_ids: int32[...].
        like: an empty array of the type wanted.

    Returns:
        token_ids: the type of like[tokens].
        token_offsets: int64[sentences + 1].
    """
    total = 0
    for entry in entries:
        if entry >= 0:
            total += id_offsets[entry + 1] - id_offsets[entry]
    token_ids = np.empty(total + len(other_ids), like.dtype)
    token_offsets = np.zeros(len(unit_offsets), np.int64)
    written = other = 0
    for sentence in range(len(unit_offsets) - 1):
        for unit in range(unit_offsets[sentence], unit_offsets[sentence + 1]):
            entry = entries[unit]
            if entry >= 0:
                for place in range(id_offsets[entry], id_offsets[entry + 1]):
                    token_ids[written] = ids[place]
                    written += 1
            else:
                for place in range(other_offsets[other], other_offsets[other + 1]):
                    token_ids[written] = other_ids[place]
                    written += 1
                other += 1
        token_offsets[sentence + 1] = written
    return token_ids, token_offsets


class WordMemo:
    """The ids of units seen before.

    Args:
        encode_texts: the tokenizer: texts to their ids.
        memory_bytes: upper bound of what is kept, about.
        longest_unit: bytes of the longest unit that is remembered.
    """

    def __init__(
        self, encode_texts: Callable[[list[str]], list[list[int]]], memory_bytes: int,
        longest_unit: int = LONGEST_UNIT,
    ) -> None:
        # An entry takes 8 bytes of table, 24 of offsets and hash, and about 12 of text and 20 of ids.
        self._capacity = max(16, memory_bytes // 64)
        self._encode_texts, self._longest = encode_texts, longest_unit
        self.clear()

    def clear(self) -> None:
        """Forget every unit."""
        self._table = np.zeros(1 << (2 * self._capacity - 1).bit_length(), np.int32)
        self._hashes = np.empty(self._capacity, np.uint64)
        self._unit_offsets = np.zeros(self._capacity + 1, np.int64)
        self._unit_bytes = np.empty(12 * self._capacity, np.uint8)
        self._id_offsets = np.zeros(self._capacity + 1, np.int64)
        self._ids = np.empty(5 * self._capacity, np.int32)
        self._known = 0

    def encode(self, text: np.ndarray, offsets: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """As `corpusmill.tokenization.SentenceTokenizer.encode`."""
        starts, lengths, hashes, unit_offsets = find_units(text, offsets)
        entries, new = look_up(
            text, starts, lengths, hashes, self._table, self._hashes, self._unit_offsets, self._unit_bytes,
            self._known, self._longest,
        )
        remembered = self._remember(self._encode_units(text, starts, lengths, new))
        if not remembered:
            # No room for the ids: nothing of this batch is kept, and the next one starts afresh.
            self.clear()
            entries = np.full(len(starts), _NOT_REMEMBERED, np.int32)
        others = np.flatnonzero(entries == _NOT_REMEMBERED)
        other_ids, other_offsets = _flatten(self._encode_units(text, starts, lengths, others))
        encoded = emit_ids(
            entries, unit_offsets, self._id_offsets, self._ids, other_offsets, other_ids, np.empty(0, dtype)
        )
        if (lengths[others] <= self._longest).any():
            self.clear()  # a unit that should have been remembered found no room
        return encoded

    def _encode_units(
        self, text: np.ndarray, starts: np.ndarray, lengths: np.ndarray, units: np.ndarray
    ) -> list[list[int]]:
        view = memoryview(np.ascontiguousarray(text))
        begins, sizes = starts[units].tolist(), lengths[units].tolist()
        texts = [str(view[a : a + n], "utf-8") for a, n in zip(begins, sizes, strict=True)]
        return self._encode_texts(texts) if texts else []

    def _remember(self, new: list[list[int]]) -> bool:
        if not new:
            return True
        ids, offsets = _flatten(new)
        begin = self._id_offsets[self._known]
        if begin + len(ids) > len(self._ids):
            return False
        self._ids[begin : begin + len(ids)] = ids
        self._id_offsets[self._known + 1 : self._known + 1 + len(new)] = begin + offsets[1:]
        self._known += len(new)
        return True


def _flatten(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    return np.array([value for row in rows for value in row], np.int32), offsets
