"""A tokenizer extended for another language or domain: all of its ids keep their tokens.

Words are cut as the tokenizer cuts them, and each into the tokens that it has for it; from these on
pairs are merged, as if the training that made them had gone on. The new merges of BPE stand behind
all others, so that they come last; of WordPiece only the new pieces are kept. Characters that the
tokenizer cannot spell become tokens first.

Added tokens join the vocabulary under their own ids: the library would otherwise number them behind
the new tokens.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer, pre_tokenizers

from corpusmill.errors import UserError, option
from corpusmill.settings.constraints import Range
from corpusmill.tokenization.tokenizer_file import Part, TokenizerFile, added_tokens, list_steps
from corpusmill.tokenization.training import counted_words, training_options
from corpusmill.tokenization.training.counted_words import CountedWords
from corpusmill.tokenization.training.merges import train_merges
from corpusmill.tokenization.training.word_counters import UnitCounter, WordCounter
from corpusmill.tokenization.words.marked_encoding import encode_texts

_CODES = 0x110000
_NO_MODEL = {"type": "BPE", "vocab": {}, "merges": []}
# Begins the name of an id without a token; no text holds this character.
_NONE = "\ufdd0"


@dataclass(frozen=True)
class ExtensionOptions(training_options.TrainingOptions):
    """How to extend a tokenizer."""

    files = ()

    vocab_size: Annotated[int, Range(1, _CODES)] = 1
    """Most ids, with those that there are."""
    min_frequency: Annotated[int, training_options.FREQUENCIES] = 2
    """How often two neighbouring pieces must occur to be joined into one."""
    character_coverage: Annotated[float, Range(0.98, 1)] = 0.9995
    """Share of the corpus' characters that the vocabulary covers, those that it has included; the
    rarest stay unknown, or are spelled as bytes."""
    tokenizer_json: str = ""
    """The tokenizer.json."""

    def make_counter(self) -> WordCounter:
        """Return the counter of the tokenizer's words."""
        described = json.loads(self.tokenizer_json)
        steps = list_steps(described, "normalizer")
        # The counter gets one word at a time, and only the first one of a text is begun.
        begins = [step["prepend"] for step in steps if step["type"] == "Prepend"]
        others = [step for step in steps if step["type"] != "Prepend"]
        parts = {"normalizer": {"type": "Sequence", "normalizers": others}, "model": _NO_MODEL}
        tokenizer = Tokenizer.from_str(json.dumps(described | parts))
        cuts = [pre_tokenizers.Metaspace(begin, "always", split=False) for begin in begins]
        cuts += filter(None, [tokenizer.pre_tokenizer])
        return UnitCounter(tokenizer.normalizer, pre_tokenizers.Sequence(cuts))

    def train(self, words: CountedWords) -> str:
        """Extend the tokenizer.

        The characters that it lacks have the first new ids, then the pieces in the order in which
        they were joined.

        Raises:
            UserError: there are no words, or more characters than the vocabulary has room for.
        """
        counted_words.check_words(words)
        described = json.loads(self.tokenizer_json)
        model, added = described["model"], added_tokens(described)
        prefix = model.get("continuing_subword_prefix") or ""
        model["vocab"] |= {token["content"]: token["id"] for token in added}
        self._add_characters(words, model, prefix)
        names = {number: text for text, number in model["vocab"].items()}
        texts = [names.get(number, f"{_NONE}{number}") for number in range(max(names) + 1)]
        necessary = "its tokens and the characters that it lacks"
        training_options.check_vocab_size(self.vocab_size, len(texts), necessary)
        others = {model.get("unk_token"), *(token["content"] for token in added)}
        if model.get("byte_fallback"):
            others.update(f"<0x{byte:02X}>" for byte in range(256))
        is_piece = np.array([text not in others for text in texts])
        numbers = np.tile(np.arange(_CODES, dtype=np.int32), (2, 1))
        pieces, sizes = _spell(words, described, is_piece), (self.vocab_size, self.min_frequency)
        learned, pairs = train_merges(pieces, numbers, texts, *sizes, prefix)
        model["vocab"] |= {learned[number]: number for number in range(len(texts), len(learned))}
        if model["type"] == "BPE":
            made = {pair: (*pair, pair[0] + pair[1].removeprefix(prefix)) for pair in pairs}
            new = [pair for pair, parts in made.items() if others.isdisjoint(parts)]
            # A pair that is merged already keeps its place.
            model["merges"] = [*dict.fromkeys([*map(tuple, model["merges"]), *new])]
        return str(Tokenizer.from_str(json.dumps(described)).to_str(pretty=True))

    def _add_characters(self, words: CountedWords, model: dict[str, Any], prefix: str) -> None:
        """Add the characters that the tokenizer lacks."""
        suffix = model.get("end_of_word_suffix") or ""
        covered = counted_words.cover_characters(words, self.character_coverage)
        found = counted_words.find_characters(words)
        first, inner = (sorted(covered.intersection(characters)) for characters in found)
        tokens = [*first, *(prefix + one for one in inner)]
        size = max(model["vocab"].values()) + 1
        for token in [*tokens, *(one + suffix for one in tokens)]:
            size += model["vocab"].setdefault(token, size) == size


def _spell(words: CountedWords, described: Part, is_piece: np.ndarray) -> CountedWords:
    """Return words with ids in place of characters, cut where a token is none of their pieces.

    Args:
        words: any words.
        described: the parsed tokenizer.json.
        is_piece: bool[ids].
    """
    bare = {**described, "normalizer": None, "pre_tokenizer": None, "added_tokens": []}
    tokenizer = Tokenizer.from_str(json.dumps(bare))
    texts = words.words.cast(pa.large_string()).to_pylist()
    ids, offsets = encode_texts(tokenizer, None, texts)
    kept, begins = is_piece[ids], np.zeros(len(ids) + 1, np.bool_)
    begins[offsets] = True
    begins[1:] |= ~kept
    starts = np.flatnonzero(begins[:-1][kept]).tolist()
    counts = np.repeat(words.counts, np.diff(offsets))[kept][starts]
    text = ids[kept].astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
    spans = pairwise([*starts, len(text)])
    spelled = [text[begin:end].encode("utf-8", "surrogatepass") for begin, end in spans]
    return CountedWords(pa.array(spelled, pa.large_binary()), counts)


_OWN = {*ExtensionOptions.__dataclass_fields__} - {"special_tokens", "normalizers"}


def extension_options(tokenizer: TokenizerFile, values: Mapping[str, Any]) -> ExtensionOptions:
    """Return the options of a tokenizer that is extended.

    Args:
        tokenizer: the tokenizer.
        values: values of options, by name.

    Raises:
        UserError: it cannot be extended, or an option does not apply or is out of range.
    """
    value, kind = option("extend", tokenizer.name), json.loads(tokenizer.json)["model"]["type"]
    if kind not in {"BPE", "WordPiece"}:
        cause = f"its model is {kind}, whose vocabulary is made as a whole"
        cure = "Extend a tokenizer of BPE or WordPiece, or train a new one"
        raise UserError(value, cause, cure)
    if foreign := [name for name in values if name not in _OWN]:
        cause = "the tokenizer that is extended keeps its own"
        raise UserError(f"{option(foreign[0])} with {value}", cause, "Leave it out")
    first, size = tokenizer.vocab_size, values.get("vocab_size", 0)
    if size <= first:
        given = option("vocab_size", size) if size else option("vocab_size")
        cause = f"{tokenizer.name} has {first:,} ids, and new ones come after them"
        raise UserError(given, cause, f"Give {first + 1} or more, those included")
    return ExtensionOptions(**values, tokenizer_json=tokenizer.json)
