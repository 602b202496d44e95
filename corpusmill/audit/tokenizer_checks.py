"""What a tokenizer says of token files: whether it gives the same ids, and in which way it does.

Libraries load one tokenizer in several ways: transformers 5 gives the files of GPT-2's kind that
have no model beside them GPT-2's pre-tokenizer, whatever they say (allenai/open-instruct#1896).
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from corpusmill.audit.audit import SAMPLED_IDS, Audit
from corpusmill.errors import printable
from corpusmill.inspection.facts import USUAL
from corpusmill.tokenization.compiled.byte_level_pieces import CL100K, DEEPSEEK, GPT2, O200K, QWEN2
from corpusmill.tokenization.growth import load_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile

# Pairs of ids that differ, and fewer of them, are shown; ids of each.
_SHOWN = 3
# A single text may have what the tokenizer's own decoder does not give back.
_FEWEST_WRONG = 2
# Rows with more masked tokens than this share have replaced ones, too.
_MASKED = 0.01
# A way explains ids if it leaves so small a share of what differed.
_EXPLAINED = 0.25
_REPLACEMENTS = ("\ufffd", "\u00ef\u00bf\u00bd", "\u0120\u00ef\u00bf\u00bd", "\u2581\ufffd")
_TURNS = re.compile(r"im_start|start_header_id|start_of_turn|\|(user|assistant)\||\[INST\]")
# In the place of an id, where a document begins or ends, and where it was cut.
_EDGE, _CUT = -2, -1
# Bytes above 127 in vocabularies like GPT-2's, and those to which others fall back.
_BYTES, _FALLBACK = re.compile("[\u00a1-\u00ff]"), re.compile("<0x[0-9A-F]{2}>")
# A space, as vocabularies write it, and what follows it: pieces begin there, whatever is before.
_BEGINS_WORD = re.compile(r"\u0120.|\u2581\w")

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
_SPLIT = {"type": "Split", "behavior": "Isolated", "invert": False}
Described = dict[str, Any]
# Changes a parsed tokenizer.json as some library does; False where that changes nothing.
Change = Callable[[Described], bool]


def _split(pattern: str, described: Described) -> bool:
    """Cut words before byte-level pieces by a pattern; by ByteLevel's own if it is empty."""
    old = described.get("pre_tokenizer") or {}
    steps = old.get("pretokenizers", [old])
    is_byte_level = any(step.get("type") == "ByteLevel" for step in steps)
    if not is_byte_level or (steps == [old] and not pattern):
        return False
    pieces = {**_BYTE_LEVEL, "use_regex": not pattern}
    split = {**_SPLIT, "pattern": {"Regex": pattern}}
    whole = {"type": "Sequence", "pretokenizers": [split, pieces]}
    described["pre_tokenizer"] = whole if pattern else pieces
    return True


def _set(part: str, kind: str, key: str, value: object, described: Described) -> bool:
    """Give a part of a kind another value."""
    step = described.get(part) or {}
    if step.get("type") != kind or step.get(key) == value:
        return False
    step[key] = value
    return True


def _drop_normalizer(described: Described) -> bool:
    had, described["normalizer"] = bool(described.get("normalizer")), None
    return had


# What libraries do to a tokenizer, by the names of their sentences in findings.toml.
_CHANGES: dict[str, Change] = {
    "byte-level": partial(_split, ""),
    "no-prefix-space": partial(_set, "pre_tokenizer", "ByteLevel", "add_prefix_space", False),
    "legacy": partial(_set, "pre_tokenizer", "Metaspace", "prepend_scheme", "always"),
    "not-legacy": partial(_set, "pre_tokenizer", "Metaspace", "prepend_scheme", "first"),
    "no-dummy-prefix": partial(_set, "pre_tokenizer", "Metaspace", "prepend_scheme", "never"),
    "no-normalizer": _drop_normalizer,
    "merges": partial(_set, "model", "BPE", "ignore_merges", False),
    "ignore-merges": partial(_set, "model", "BPE", "ignore_merges", True),
    "cl100k": partial(_split, CL100K),
    "o200k": partial(_split, O200K),
    "qwen2": partial(_split, QWEN2),
    "deepseek": partial(_split, DEEPSEEK),
    "gpt2": partial(_split, GPT2),
}


class TokenizerChecks:
    """What a tokenizer says of token files.

    Args:
        tokenizer: the tokenizer.
        audit: what was measured of the files.

    Attributes:
        tokenizer: that one.
        replacements: the ids of the character that replaces bytes which are no text.
        bytes: the ids of single bytes that are no letters by themselves.
    """

    def __init__(self, tokenizer: TokenizerFile, audit: Audit) -> None:
        self.tokenizer, self._audit = tokenizer, audit
        self._library = load_tokenizer(tokenizer.json)
        # Of tokens within words, in vocabularies like BERT's.
        self._prefix = json.loads(tokenizer.json)["model"].get("continuing_subword_prefix") or ""
        vocabulary = self._library.get_vocab()
        self.replacements = [vocabulary[name] for name in _REPLACEMENTS if name in vocabulary]
        is_byte = (_BYTES if '"ByteLevel"' in tokenizer.json else _FALLBACK).fullmatch
        self.bytes = [token for name, token in vocabulary.items() if is_byte(name)]

    def show(self, *ids: int) -> str:
        """Return tokens as they are written in the vocabulary."""
        names = (self._library.id_to_token(token) or f"[id {token}]" for token in ids)
        return printable(" ".join(names))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; those that the tokenizer lacks are left out."""
        tokens = [token for token in ids if 0 <= token < self.tokenizer.vocab_size]
        return self._library.decode(tokens, skip_special_tokens=False)

    def count_turns(self, numbers: np.ndarray) -> int:
        """Count the tokens that begin turns of a conversation, in the numbers of all ids."""
        special = self.tokenizer.special.all_ids
        return sum(int(numbers[token]) for token in special if _TURNS.search(self.show(token)))

    def judge(self) -> Iterator[tuple[str, float, Mapping[str, Any]]]:
        """Encode samples again, as the tokenizer is and in the ways of libraries.

        Yields:
            The key of a finding's sentences, its value, and what they say besides.
        """
        mask, counts = self.tokenizer.special.mask_id, self._audit.measures.ids
        if mask is not None and counts[mask] > _MASKED * counts.sum():
            return  # other tokens stand in the place of some
        unknown, size = self._audit.conventions.unknown, self.tokenizer.vocab_size
        stretches = map(self._trim, self._audit.samples)
        samples = [ids for ids in stretches if ids and max(ids) < size and unknown not in ids]
        texts = [self.decode(ids) for ids in samples]
        again = _encode(self._library, texts)
        wrong = [pair for pair in zip(samples, again, strict=True) if pair[0] != pair[1]]
        if len(wrong) < _FEWEST_WRONG:
            return
        share, number = len(wrong) / len(samples), len(samples)
        ratio = sum(map(len, samples)) / max(1, sum(map(len, again))) - 1
        values = {"documents": number, "ratio": ratio, "example": self._show_difference(*wrong[0])}
        if share > USUAL["other tokens"].high:
            rest, way = min(self._try_changes(samples, texts), default=(1.0, ""))
            if rest <= _EXPLAINED * share:
                yield "other tokens.explained", share, {**values, "rest": rest, "way": way}
                return
        yield "other tokens", share, values

    def _try_changes(
        self, samples: Sequence[Sequence[int]], texts: Sequence[str]
    ) -> Iterator[tuple[float, str]]:
        """Yield the share of samples that differ after each change, and the change."""
        for way, change in _CHANGES.items():
            described = json.loads(self.tokenizer.json)
            if change(described):
                again = _encode(load_tokenizer(json.dumps(described)), texts)
                differing = sum(ids != other for ids, other in zip(samples, again, strict=True))
                yield differing / len(samples), way

    def _trim(self, ids: np.ndarray) -> list[int]:
        """Return the longest stretch without special ids; where it is cut, between words."""
        marks, keeps = self._audit.conventions, self._audit.has_documents
        edges = {_EDGE, marks.begin, marks.end, marks.pad} - {-1}
        special = {*edges, *self.tokenizer.special.all_ids}
        # A row begins and ends a document, as far as it is one, and whole.
        first, last = _EDGE if keeps else _CUT, _EDGE if keeps and len(ids) < SAMPLED_IDS else _CUT
        tokens: list[int] = [first, *ids.tolist(), last]
        places = [0, *(n for n, token in enumerate(tokens) if token in special), len(tokens) - 1]
        gaps = sorted(pairwise(places), key=lambda pair: pair[0] - pair[1])
        whole = ((n, m) for n, m in gaps if edges.issuperset((tokens[n], tokens[m])) and m > n + 1)
        begin, end = next(whole, gaps[0])
        stretch = tokens[begin + 1 : end]
        if self._prefix or tokens[begin] not in edges:
            stretch = stretch[self._find_word(stretch) :]
        if tokens[end] not in edges:
            stretch = stretch[: max(0, len(stretch) - 1 - self._find_word(stretch[::-1]))]
        return stretch

    def _find_word(self, tokens: Sequence[int]) -> int:
        """Return the first place where a word begins; their number if none is known."""
        begins = _BEGINS_WORD.match
        for place, token in enumerate(tokens):
            name = self._library.id_to_token(token) or ""
            if not name.startswith(self._prefix) if self._prefix else begins(name):
                return place
        return len(tokens)

    def _show_difference(self, ids: Sequence[int], again: Sequence[int]) -> str:
        pairs = enumerate(zip_longest(ids, again))
        place = next(n for n, (token, other) in pairs if token != other)
        theirs, ours = (self.show(*tokens[place : place + _SHOWN]) for tokens in (ids, again))
        return f"{theirs or 'nothing'!r} for {ours or 'nothing'!r}"


def _encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    encoded = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [encoding.ids for encoding in encoded]
