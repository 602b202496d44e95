"""Loads a tokenizer into its library, but none that makes far more of a text than there is.

Twelve steps that each write ten letters for one make 10^12 letters of one, and a file that says so
has a kilobyte. The library would write them, and those of added tokens as soon as it reads the
file. So the steps are tried before, one after the other, on a few characters at a time.
"""

import base64
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any
from unicodedata import category

import msgspec
from tokenizers import Tokenizer

from corpusmill.errors import UserError, catch_panics, option
from corpusmill.tokenization.sources.charsmap import measure_longest, read_map
from corpusmill.tokenization.tokenizer_file import list_steps

LIBRARY = "the tokenizers library"
# Characters that are made of one, or written at once. Unicode's forms make up to 18 of U+FDFA,
# and byte-level tokenizers up to 4 of each, one for a byte; names that people write are shorter.
MOST_WRITTEN = 72
# No tokenizer has a tenth of them; even those that write one letter more each become too many.
_MOST_STEPS = 1000
# What these write is their own choice; what the others write follows from Unicode.
_WRITING = frozenset({"Replace", "Prepend", "Precompiled"})
_FEW_STEPS = 8
# Of every alphabet, and of all kinds that rules for text tell apart.
_COMMON = (
    "aZ5 \t\n\r.,'\"-_/(<$+^`|\x00\x7f\xa0\xad\xbdé\u0301ßŁωςЖ\u0130\u05d0\u05b7ع\u064b\u0663हि"
    "ব\u0b95ก\u0e33ლአ\u1100각ᠠ\u1fbf\u200b\u200d\u2028\u2019\u20ac\u2167→▁、の漢｡\uff21\ufb01\ufdfa\ufeff"
    "\ufffd\ue000\U0001d400\U0001f600\U00020000"
)
_MOST_PROBES, _REPEATS = 1000, 4
_ESCAPED = re.compile(r"\\(?:u|x|U)\{?([0-9A-Fa-f]{2,8})\}?")


class _Parts(msgspec.Struct):
    """What rewrites a text; the vocabulary, which may be large, is not kept."""

    normalizer: Any = None
    pre_tokenizer: Any = None


_PARTS = _Parts.__struct_fields__


def load_tokenizer(tokenizer_json: str, value: str | option = "") -> Tokenizer:
    """Load a tokenizer into the library.

    Args:
        tokenizer_json: a tokenizer.json.
        value: what named the tokenizer, for the message.

    Raises:
        UserError: its steps make far more of a text than there is.
        PanicError: the library fails.
        Exception: the library cannot read it.
    """
    with catch_panics(LIBRARY):
        if growth := _find_growth(tokenizer_json):
            cure = "Remove such steps from its tokenizer.json, or give another tokenizer"
            raise UserError(value or option("tokenizer"), growth, cure)
        return Tokenizer.from_str(tokenizer_json)


@lru_cache(maxsize=2)
def _find_growth(tokenizer_json: str) -> str:
    """Say why a tokenizer may make too much of a text; empty if it does not."""
    try:  # as the library writes it, whatever form it had
        described = msgspec.to_builtins(msgspec.json.decode(tokenizer_json, type=_Parts))
        parts = json.loads(_load_parts(described).to_str())
    except Exception:  # the library raises nothing narrower, and says it again of the whole
        return ""
    steps = [(part, step) for part in _PARTS for step in list_steps(parts, part)]
    kinds = [step["type"] for _, step in steps]
    if _WRITING.isdisjoint(kinds) and len(steps) <= _FEW_STEPS and kinds.count("ByteLevel") < 2:
        return ""
    if len(steps) > _MOST_STEPS:
        return f"it rewrites a text in {len(steps):,} steps, of which {_MOST_STEPS:,} may be"
    written = [_count_written(step) for _, step in steps]
    if max(written) > MOST_WRITTEN:
        return f"it writes {max(written):,} characters at once, of which {MOST_WRITTEN} may be"
    probes = [*islice(dict.fromkeys(_list_probes([step for _, step in steps])), _MOST_PROBES)]
    maps = [_read_charsmap(step) for _, step in steps if step["type"] == "Precompiled"]
    if any(count > 1 and kind != "Precompiled" for count, kind in zip(written, kinds, strict=True)):
        probes += [key for charsmap in maps for key in read_map(charsmap)]
    return _try_probes([_load_step(*step) for step in steps], probes)


def _try_probes(steps: Sequence[Callable[[str], str]], probes: Sequence[str]) -> str:
    for probe in probes:
        text = probe
        for step in steps:
            text = step(text)
            if len(text) > MOST_WRITTEN * len(probe):
                made = f"it makes {len(text) // len(probe):,} characters or more of one, as in "
                made += (
                    f"{probe[:9]!r}, where {MOST_WRITTEN} are the most that Unicode's forms and "
                )
                return f"{made}bytes make, so that a short text would fill the memory"
    return ""


def _load_parts(parts: dict[str, Any]) -> Tokenizer:
    """Load some parts without a vocabulary, of which nothing can be normalized as it is read."""
    bare = {"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}}
    return Tokenizer.from_str(json.dumps(bare | parts))


def _load_step(part: str, described: Mapping[str, Any]) -> Callable[[str], str]:
    """Return what a step makes of a text."""
    step = getattr(_load_parts({part: described}), part)
    if part == "normalizer":
        return step.normalize_str  # type: ignore[no-any-return]
    return lambda text: "".join(piece for piece, _ in step.pre_tokenize_str(text))


def _count_written(step: Mapping[str, Any]) -> int:
    """Count the characters that a step writes in one place; 0 where that follows from Unicode."""
    if step["type"] == "Precompiled":
        return measure_longest(_read_charsmap(step))
    return len(step.get("content") or step.get("prepend") or "")


def _read_charsmap(step: Mapping[str, Any]) -> bytes:
    return base64.b64decode(step["precompiled_charsmap"])


def _list_probes(parts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield short texts: what the steps themselves name, and characters of every kind.

    Each character stands several times, as patterns may ask for what is before or after it.
    """
    named = [text for text in _list_strings(parts) if len(text) <= MOST_WRITTEN]
    yield from filter(None, named)
    yield from filter(None, (re.sub(r"\W", "", text) for text in named))
    escaped = (int(code, 16) for text in named for code in _ESCAPED.findall(text))
    characters = map(chr, (code for code in escaped if code <= sys.maxunicode))
    for character in chain(_COMMON, characters, *named):
        if category(character) != "Cs":  # half of a surrogate pair
            yield character * _REPEATS


def _list_strings(value: Any) -> Iterator[str]:
    """Yield the strings in a part of a tokenizer.json, but maps of characters."""
    match value:
        case str():
            yield value
        case list():
            for inner in value:
                yield from _list_strings(inner)
        case dict():
            names = value.keys() - {"type", "precompiled_charsmap"}
            yield from _list_strings([value[name] for name in sorted(names)])
