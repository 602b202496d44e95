"""For which tokenizers the ids of a text are those of its units, one after the other.

A unit is what lies between two ASCII spaces.
A tokenizer takes added tokens out of the text, normalizes what is left, cuts it into words and
gives each to its model. For ids(a + " " + b) = ids(a) + ids(b) to hold for every a and b, each step
must treat the sides of a space apart, and as it treats a whole text. Only steps of which that is
known are let through.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tokenizers import Tokenizer

# n(a + " " + b) = n(a) + " " + n(b), and so for sequences of them:
# - BertNormalizer, Lowercase and StripAccents map, drop or pad characters one by one (Lowercase
#   knows no final sigma), or begin with NFD.
# - NFC, NFD, NFKC, NFKD: a space decomposes into nothing, is a starter, so that no combining mark
#   is ordered across it, and no canonical composition has a space in it; it stands between what
#   might compose.
_NORMALIZERS = {"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents"}
# Each of these always breaks at a space, drops it, decides by single characters or runs of one
# class, and so looks at nothing beyond it. (Whitespace is the pattern \w+|[^\w\s]+; no match of it
# holds a space.)
_BREAKING = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
# Each of these only breaks the words that it is given, one by one.
_REFINING = _BREAKING | {"Punctuation", "Digits"}
# Each of these looks at one word at a time. BPE with dropout draws anew each time.
_MODELS = {"WordPiece", "WordLevel", "BPE"}
# Without special tokens these change no ids, as long as a template holds the text once.
_POST_PROCESSORS = {"BertProcessing", "RobertaProcessing", "ByteLevel", "TemplateProcessing"}


def why_not_exact(tokenizer_json: Mapping[str, Any], tokenizer: Tokenizer) -> str:
    """Why a text's ids may differ from its units' ids one after the other; empty if they never do.

    Args:
        tokenizer_json: the parsed tokenizer.json.
        tokenizer: the same, loaded.
    """
    return next(_objections(tokenizer_json, tokenizer), "")


def _objections(tokenizer_json: Mapping[str, Any], tokenizer: Tokenizer) -> Iterator[str]:
    for step in _steps(tokenizer_json.get("normalizer"), "normalizers"):
        if step["type"] not in _NORMALIZERS:
            yield f"its normalizer {step['type']} may look across spaces"
    names = [step["type"] for step in _steps(tokenizer_json.get("pre_tokenizer"), "pretokenizers")]
    if not names or names[0] not in _BREAKING or not _REFINING.issuperset(names):
        yield f"its pre-tokenizer ({', then '.join(names) or 'none'}) may look across spaces"
    model = tokenizer_json["model"]
    if model.get("type") not in _MODELS:
        yield f"its model {model.get('type')} may look across words"
    if model.get("dropout"):
        yield "its model drops pieces at random"
    for step in _steps(tokenizer_json.get("post_processor"), "processors"):
        if step["type"] not in _POST_PROCESSORS or not _holds_text_once(step):
            yield f"its post-processor {step['type']} may rearrange ids"
    if tokenizer_json.get("truncation") or tokenizer_json.get("padding"):
        yield "it truncates or pads"
    yield from _added_token_objections(tokenizer_json, tokenizer)


def _added_token_objections(
    tokenizer_json: Mapping[str, Any], tokenizer: Tokenizer
) -> Iterator[str]:
    normalizer = tokenizer.normalizer
    for token in tokenizer_json.get("added_tokens") or ():
        content = token["content"]
        if token.get("lstrip") or token.get("rstrip") or token.get("single_word"):
            yield f"its added token {content!r} looks at its neighbours"
        # A token that is looked for in normalized text is normalized, too.
        normalized = normalizer.normalize_str(content) if normalizer else content
        if not normalized or any(character.isspace() for character in content + normalized):
            yield f"its added token {content!r} is empty or holds a space"


def _holds_text_once(post_processor: Mapping[str, Any]) -> bool:
    template = post_processor.get("single", [{"Sequence": {}}])
    return sum("Sequence" in piece for piece in template) == 1


def _steps(part: Mapping[str, Any] | None, inner: str) -> list[Mapping[str, Any]]:
    if part is None:
        return []
    if part["type"] == "Sequence":
        return [step for one in part[inner] for step in _steps(one, inner)]
    return [part]
