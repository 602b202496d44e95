"""For which tokenizers the ids of a text are those of its units, one after the other.

`corpusmill.tokenization.compiled.units` explains what a unit is.
A tokenizer takes added tokens out of the text, normalizes the rest, cuts it into words and passes
each to its model. For ids(a + b) = ids(a) + ids(b) to hold wherever a text is cut into units, each
step must treat both sides separately, and in the same way as within a whole text. Only steps that
are known to do so are accepted.

Texts of many lines are cut at line breaks, where that leaves the ids the same.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from tokenizers import Tokenizer

from corpusmill.arrays.intrinsics import borrow, space_at, space_before, trailing_zeros
from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.byte_level_pieces import DEEPSEEK, GPT2, GPT2S, O200K, RULES
from corpusmill.tokenization.compiled.seams import SIGNS
from corpusmill.tokenization.compiled.units import (
    CUT,
    ONE,
    WORD_BYTES,
    UnitRule,
    find_newlines,
)
from corpusmill.tokenization.tokenizer_file import Part, added_tokens, list_steps

LineRule = Literal["at-breaks", "around-breaks", "after-breaks", "whole"]

_SPACE, _TAB, _NEWLINE, _SLASH = 0x20, 0x09, 0x0A, 0x2F
_LESS_THAN, _BRACKET = 0x3C, 0x5B  # added tokens begin with them: <|endoftext|>, [PAD]


def mark_lines(rule: LineRule, text: np.ndarray, offsets: np.ndarray, cuts: np.ndarray) -> None:
    r"""Mark where lines begin or end, so that the ids of the parts are those of the whole.

    Args:
        rule: where to cut.
        text: uint8[bytes + PADDING], valid UTF-8.
        offsets: int64[sentences + 1] into text.
        cuts: uint8[bytes + PADDING], 1 is written where sentences are cut.

    Example:
        "a\n\nb" is cut "around-breaks" into "a", "\n", "\n" and "b", and "after-breaks" into
        "a\n\n" and "b".
    """
    if rule != "whole":
        _mark_lines(text, offsets, cuts, rule == "around-breaks", rule == "at-breaks")


@njit
def _mark_lines(
    text: np.ndarray, offsets: np.ndarray, cuts: np.ndarray, around: bool, anywhere: bool
) -> None:
    text, cuts = borrow(text), borrow(cuts)
    for sentence in range(len(offsets) - 1):
        start, stop = offsets[sentence], offsets[sentence + 1]
        for first in range(start, stop, WORD_BYTES):
            newlines = find_newlines(text, first)
            while newlines:
                place = first + (trailing_zeros(newlines) >> 3)
                newlines &= newlines - ONE
                if place >= stop:
                    break
                if around:
                    before, after = _cuts_around(text, start, stop, place)
                else:
                    before, after = False, _is_cut_after(text, stop, place, anywhere)
                if before:
                    cuts[place] |= CUT
                if after:
                    cuts[place + 1] |= CUT


@njit
def _cuts_around(text: np.ndarray, start: int, stop: int, newline: int) -> tuple[bool, bool]:
    """Whether to cut before and after a newline with text before or after it."""
    before = newline > start and (
        _is_sign(text[newline - 1]) or not space_before(text, start, newline)
    )
    after = newline + 1 < stop and (
        _is_sign(text[newline + 1]) or not space_at(text, newline + 1, stop)
    )
    # White space before a token that is taken out of the text is one piece to its end.
    if after and not before and text[newline + 1] in (_LESS_THAN, _BRACKET):
        return False, False
    return newline > start and (before or after), after


@njit(inline="always")
def _is_sign(byte: int) -> bool:
    """Whether a byte is an ASCII character other than white space."""
    return 0x20 < byte < 0x80


@njit
def _is_cut_after(text: np.ndarray, stop: int, newline: int, anywhere: bool) -> bool:
    """Whether to cut after a newline; unless anywhere is true, only before a line with text."""
    if anywhere or newline + 1 == stop:
        return newline + 1 < stop
    place = newline + 1
    while place < stop and (text[place] in (_SPACE, _TAB)):
        place += 1
    # GPT-4o joins slashes after line breaks to the signs before them.
    return not (place == stop or text[newline + 1] == _SLASH or space_at(text, place, stop))


# For a normalizer n, n(a + " " + b) = n(a) + " " + n(b), and so for sequences of them:
# - BertNormalizer, Lowercase and StripAccents map, drop or pad characters one by one (Lowercase
#   does not treat a final sigma differently), or begin with NFD.
# - NFC, NFD, NFKC, NFKD: a space decomposes into nothing, is a starter, so that no combining mark
#   is reordered across it, and no canonical composition contains a space; it separates what might
#   compose.
_NORMALIZERS = {"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents"}
# These neither drop the character before a space nor turn it into white space: it stays what it is
# to the pre-tokenizer.
_KEEPING = {"Lowercase", "NFC", "NFD", "NFKC", "NFKD"}
# These always break at a space, drop it, and decide by single characters or runs of one class, so
# that they never look across it. (Whitespace is the pattern \w+|[^\w\s]+, which matches no space.)
_BREAKING = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
# These only break up the words of the step before them, one by one.
_REFINING = _BREAKING | {"Punctuation", "Digits", "Split"}
# These look at one word at a time. (BPE with dropout draws anew each time.)
_MODELS = {"WordPiece", "WordLevel", "BPE"}
# Without special tokens these change no ids, as long as a template contains the text once.
_POST_PROCESSORS = {"BertProcessing", "RobertaProcessing", "ByteLevel", "TemplateProcessing"}


def choose_unit_rule(tokenizer_json: Part, tokenizer: Tokenizer) -> tuple[UnitRule, str]:
    """Choose the rule of a tokenizer's units, and say why their ids may differ from the text's.

    Args:
        tokenizer_json: the parsed tokenizer.json.
        tokenizer: the same, loaded.

    Returns:
        The rule; and the objection, empty if a text's ids are always its units' ids one after the
        other.
    """
    spaced = _owns_spaces(tokenizer_json)
    rule: UnitRule = "spaced" if spaced else "words"
    normalizers = list_steps(tokenizer_json, "normalizer")
    if not spaced and normalizers and normalizers[0]["type"] == "BertNormalizer":
        # Its first step may put spaces around each ideograph.
        taken = "".join(token["content"] for token in list_taken(tokenizer_json, tokenizer))
        isolates = normalizers[0].get("handle_chinese_chars") and taken.isascii()
        rule = "ideographs" if isolates else rule
    return rule, next(_objections(tokenizer_json, tokenizer, spaced), "")


def choose_line_rule(tokenizer_json: Part) -> LineRule:
    """Choose the line breaks at which a text may be cut, for a tokenizer without objections.

    Where texts are cut around or after line breaks, they may be cut at signs, too
    (`seams.mark_signs`), at which nothing is white space, unless an added token crosses one.

    If words do not own spaces, a line break is as good as a space: each pre-tokenizer drops it, and
    to each normalizer it is a space or a starter that composes with nothing. If they do, it depends
    on the pattern, and nothing may be done to the white space at a cut: no space may be put before
    a text, no added token may include the white space before it. A normalizer may make white space
    of a character that begins with it (NFKC of U+00A8), but never a line break, so that "after the
    last newline" keeps its meaning, and "the last character of white space" does not. By GPT-2's
    pattern white space ends differently before an added token than before a word, so that texts are
    not cut there; the cut recognizes added tokens by the signs that they begin with.
    """
    if not _owns_spaces(tokenizer_json):
        return "at-breaks"
    added = added_tokens(tokenizer_json)
    steps = list_steps(tokenizer_json, "pre_tokenizer")
    pattern = find_pattern(tokenizer_json)
    takes_left = any(token.get("lstrip") for token in added)
    # A token that is a single word looks at the character before it.
    inner = [token["content"][0 if token.get("single_word") else 1 :] for token in added]
    crosses = any(sign in content for content in inner for sign in SIGNS)
    if takes_left or crosses or any(step.get("add_prefix_space") for step in steps):
        return "whole"
    if pattern in {*GPT2S, O200K, DEEPSEEK} and list_steps(tokenizer_json, "normalizer"):
        return "whole"
    if pattern not in GPT2S:
        return "after-breaks"
    recognized = all(token["content"].startswith(("<", "[")) for token in added)
    return "around-breaks" if recognized else "whole"


def find_pattern(tokenizer_json: Part) -> str | None:
    """Find the regular expression by which a byte-level tokenizer breaks text; None for others.

    Only known patterns are returned: no match contains a space after anything but white space, and
    where a match ends does not depend on the text before it, nor on the text after it, except on
    whether the white space continues.
    """
    match list_steps(tokenizer_json, "pre_tokenizer"):
        case [{"type": "ByteLevel", "use_regex": True}]:
            return GPT2
        case [*splits, {"type": "ByteLevel", "use_regex": False}]:
            pattern = "\n".join(step.get("pattern", {}).get("Regex", "") for step in splits)
            ways = {(step.get("behavior"), step.get("invert")) for step in splits}
            keeps = ways == {("Isolated", False)} or (
                ways == {("Removed", True)} and pattern != DEEPSEEK
            )
            return pattern if keeps and pattern in RULES else None
    return None


def _owns_spaces(tokenizer_json: Part) -> bool:
    steps = list_steps(tokenizer_json, "pre_tokenizer")
    return any(step["type"] == "ByteLevel" for step in steps)


def _objections(tokenizer_json: Part, tokenizer: Tokenizer, spaced: bool) -> Iterator[str]:
    for step in list_steps(tokenizer_json, "normalizer"):
        if step["type"] not in (_KEEPING if spaced else _NORMALIZERS):
            yield f"its normalizer {step['type']} may look across spaces"
    names = [step["type"] for step in list_steps(tokenizer_json, "pre_tokenizer")]
    breaking = names and names[0] in _BREAKING and _REFINING.issuperset(names)
    if not (find_pattern(tokenizer_json) if spaced else breaking):
        yield f"its pre-tokenizer ({', then '.join(names) or 'none'}) may look across spaces"
    model = tokenizer_json["model"]
    if model.get("type") not in _MODELS:
        yield f"its model {model.get('type')} may look across words"
    if model.get("dropout"):
        yield "its model drops pieces at random"
    yield from list_rearrangements(tokenizer_json)
    yield from find_neighbourly(list_taken(tokenizer_json, tokenizer), tokenizer, spaced)


def list_rearrangements(tokenizer_json: Part) -> Iterator[str]:
    """Yield what keeps the ids of a text from being those of its parts, after its model."""
    for step in list_steps(tokenizer_json, "post_processor"):
        template = step.get("single", [{"Sequence": {}}])
        holds_text_once = sum("Sequence" in piece for piece in template) == 1
        if step["type"] not in _POST_PROCESSORS or not holds_text_once:
            yield f"its post-processor {step['type']} may rearrange ids"
    if tokenizer_json.get("truncation") or tokenizer_json.get("padding"):
        yield "it truncates or pads"


def list_taken(tokenizer_json: Part, tokenizer: Tokenizer) -> list[Part]:
    """List the added tokens that are taken out of a text: all, or all but the special ones."""
    hides = tokenizer.encode_special_tokens
    return [token for token in added_tokens(tokenizer_json) if not (hides and token["special"])]


def find_neighbourly(tokens: list[Part], tokenizer: Tokenizer, spaced: bool) -> Iterator[str]:
    """Yield the added tokens that may look beyond a unit.

    Args:
        tokens: those that are taken out of a text.
        tokenizer: the tokenizer.
        spaced: whether units own spaces.
    """
    normalizer = tokenizer.normalizer
    for token in tokens:
        content = token["content"]
        # A unit that owns spaces includes all white space before a token.
        looks_left = not spaced and (token.get("lstrip") or token.get("single_word"))
        if looks_left or token.get("rstrip"):
            yield f"its added token {content!r} looks at its neighbours"
        # A token that is searched in normalized text is normalized, too.
        normalized = normalizer.normalize_str(content) if normalizer else content
        if not normalized or any(character.isspace() for character in content + normalized):
            yield f"its added token {content!r} is empty or holds a space"
