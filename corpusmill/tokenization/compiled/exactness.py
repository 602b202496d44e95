"""For which tokenizers the ids of a text are those of its units, one after the other.

`corpusmill.tokenization.compiled.units` says what a unit is.
A tokenizer takes added tokens out of the text, normalizes what is left, cuts it into words and
gives each to its model. For ids(a + b) = ids(a) + ids(b) to hold wherever a text is cut into units,
each step must treat both sides apart, and as it treats a whole text. Only steps of which that is
known are let through.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tokenizers import Tokenizer

from corpusmill.tokenization.compiled.byte_level_patterns import GPT2, O200K, PATTERNS
from corpusmill.tokenization.compiled.units import LineRule, UnitRule

# n(a + " " + b) = n(a) + " " + n(b), and so for sequences of them:
# - BertNormalizer, Lowercase and StripAccents map, drop or pad characters one by one (Lowercase
#   knows no final sigma), or begin with NFD.
# - NFC, NFD, NFKC, NFKD: a space decomposes into nothing, is a starter, so that no combining mark
#   is ordered across it, and no canonical composition has a space in it; it stands between what
#   might compose.
_NORMALIZERS = {"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents"}
# Of these, none drops the character before a space, or makes white space of it: what stood before
# the space still does.
_KEEPING = {"Lowercase", "NFC", "NFD", "NFKC", "NFKD"}
# Each of these always breaks at a space, drops it, decides by single characters or runs of one
# class, and so looks at nothing beyond it. (Whitespace is the pattern \w+|[^\w\s]+; no match of it
# holds a space.)
_BREAKING = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
# Each of these only breaks the words that it is given, one by one.
_REFINING = _BREAKING | {"Punctuation", "Digits", "Split"}
# Each of these looks at one word at a time. BPE with dropout draws anew each time.
_MODELS = {"WordPiece", "WordLevel", "BPE"}
# Without special tokens these change no ids, as long as a template holds the text once.
_POST_PROCESSORS = {"BertProcessing", "RobertaProcessing", "ByteLevel", "TemplateProcessing"}


def choose_unit_rule(
    tokenizer_json: Mapping[str, Any], tokenizer: Tokenizer
) -> tuple[UnitRule, str]:
    """What a tokenizer's units are, and why a text's ids may yet differ from its units' ids.

    Args:
        tokenizer_json: the parsed tokenizer.json.
        tokenizer: the same, loaded.

    Returns:
        The rule; and the objection, empty if a text's ids are always its units' ids one after the
        other.
    """
    steps = flatten_steps(tokenizer_json.get("pre_tokenizer"), "pretokenizers")
    spaced = any(step["type"] == "ByteLevel" for step in steps)
    rule: UnitRule = "spaced" if spaced else "words"
    if not spaced and _isolates_ideographs(tokenizer_json):
        rule = "ideographs"
    return rule, next(_objections(tokenizer_json, tokenizer, spaced), "")


def choose_line_rule(tokenizer_json: Mapping[str, Any]) -> LineRule:
    """At which line breaks a text may be cut, of a tokenizer that is not objected to.

    Where words own no spaces, a line break is as good as a space: each pre-tokenizer drops it, and
    to each normalizer it is a space or a starter that composes with nothing. Where they do, it
    depends on the pattern, and on nothing being done to the white space at a cut: no space put
    before a text, no added token that takes the white space before it. A normalizer may make white
    space of what begins with it (NFKC of U+00A8); that is none that ends a line, so that "behind
    the last newline" stays what it is, but not "the last character of white space". By GPT-2's
    pattern white space ends otherwise before an added token than before a word, so that its texts
    are not cut there; the cut knows added tokens by the signs that they begin with.
    """
    steps = flatten_steps(tokenizer_json.get("pre_tokenizer"), "pretokenizers")
    if not any(step["type"] == "ByteLevel" for step in steps):
        return "at-breaks"
    takes_left = any(token.get("lstrip") for token in tokenizer_json.get("added_tokens") or ())
    pattern, normalizer = find_pattern(tokenizer_json), tokenizer_json.get("normalizer")
    if takes_left or any(step.get("add_prefix_space") for step in steps):
        return "whole"
    if pattern in {GPT2, O200K} and normalizer:
        return "whole"
    if pattern != GPT2:
        return "behind-breaks"
    added = [token["content"] for token in tokenizer_json.get("added_tokens") or ()]
    return "around-breaks" if all(of.startswith(("<", "[")) for of in added) else "whole"


def find_pattern(tokenizer_json: Mapping[str, Any]) -> str | None:
    """The regular expression by which a byte-level tokenizer breaks text; None if it is no such.

    Only patterns of which it is known that no match holds a space behind anything but white space,
    that nothing before a match tells where it ends, and, of what lies behind it, only whether white
    space goes on.
    """
    match flatten_steps(tokenizer_json.get("pre_tokenizer"), "pretokenizers"):
        case [{"type": "ByteLevel", "use_regex": True}]:
            return GPT2
        case [{"type": "Split", **split}, {"type": "ByteLevel", "use_regex": False}]:
            pattern = split["pattern"].get("Regex")
            keeps = (split["behavior"], split["invert"]) in {("Isolated", False), ("Removed", True)}
            return pattern if keeps and pattern in PATTERNS else None
    return None


def _objections(
    tokenizer_json: Mapping[str, Any], tokenizer: Tokenizer, spaced: bool
) -> Iterator[str]:
    for step in flatten_steps(tokenizer_json.get("normalizer"), "normalizers"):
        if step["type"] not in (_KEEPING if spaced else _NORMALIZERS):
            yield f"its normalizer {step['type']} may look across spaces"
    names = [
        step["type"] for step in flatten_steps(tokenizer_json.get("pre_tokenizer"), "pretokenizers")
    ]
    breaking = names and names[0] in _BREAKING and _REFINING.issuperset(names)
    if not (find_pattern(tokenizer_json) if spaced else breaking):
        yield f"its pre-tokenizer ({', then '.join(names) or 'none'}) may look across spaces"
    model = tokenizer_json["model"]
    if model.get("type") not in _MODELS:
        yield f"its model {model.get('type')} may look across words"
    if model.get("dropout"):
        yield "its model drops pieces at random"
    for step in flatten_steps(tokenizer_json.get("post_processor"), "processors"):
        if step["type"] not in _POST_PROCESSORS or not _holds_text_once(step):
            yield f"its post-processor {step['type']} may rearrange ids"
    if tokenizer_json.get("truncation") or tokenizer_json.get("padding"):
        yield "it truncates or pads"
    yield from _added_token_objections(tokenizer_json, tokenizer, spaced)


def _added_token_objections(
    tokenizer_json: Mapping[str, Any], tokenizer: Tokenizer, spaced: bool
) -> Iterator[str]:
    normalizer = tokenizer.normalizer
    for token in tokenizer_json.get("added_tokens") or ():
        content = token["content"]
        # All white space before a token is in its unit where spaces are.
        looks_left = not spaced and (token.get("lstrip") or token.get("single_word"))
        if looks_left or token.get("rstrip"):
            yield f"its added token {content!r} looks at its neighbours"
        # A token that is looked for in normalized text is normalized, too.
        normalized = normalizer.normalize_str(content) if normalizer else content
        if not normalized or any(character.isspace() for character in content + normalized):
            yield f"its added token {content!r} is empty or holds a space"


def _isolates_ideographs(tokenizer_json: Mapping[str, Any]) -> bool:
    """Whether the first thing done to a text is to put spaces around each ideograph."""
    normalizers = flatten_steps(tokenizer_json.get("normalizer"), "normalizers")
    if not normalizers or normalizers[0]["type"] != "BertNormalizer":
        return False
    added = "".join(token["content"] for token in tokenizer_json.get("added_tokens") or ())
    return bool(normalizers[0].get("handle_chinese_chars")) and added.isascii()


def _holds_text_once(post_processor: Mapping[str, Any]) -> bool:
    template = post_processor.get("single", [{"Sequence": {}}])
    return sum("Sequence" in piece for piece in template) == 1


def flatten_steps(part: Mapping[str, Any] | None, inner: str) -> list[Mapping[str, Any]]:
    """The steps of a part of a tokenizer.json, those of sequences one after the other.

    Args:
        part: normalizer, pre-tokenizer or post-processor.
        inner: name under which its sequences hold their steps.
    """
    if part is None:
        return []
    if part["type"] == "Sequence":
        return [step for one in part[inner] for step in flatten_steps(one, inner)]
    return [part]
