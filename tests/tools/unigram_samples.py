"""Unigram tokenizers with each normalizer and each way to break text that such tokenizers have."""

import io
import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from corpusmill.tokenization.sources.charsmap import read_map
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerOptions
from tests.tools.lazily import Lazily
from tests.tools.tokenizer_samples import TEXT

SPACE = "\u2581"
SPECIAL = ("<pad>", "</s>", "<unk>", "<mask>")
# Letters of many scripts with their marks, and what they are trained on beside English.
SCRIPTS = [
    "株式会社 東京 中文没有空格。日本語のテキスト ｶﾞ 한국어 ภาษาไทยไม่มีช่องว่าง กำ น้ำ हिन्दी क्षत्रिय",
    "العربية مَرْحَبًا Журнал й naïve cafe\u0301 ﬁne ½ … \u00a8 ①",
]


@cache
def sentencepiece_model(**options: Any) -> bytes:
    """A model of SentencePiece's trainer; skips without the library."""
    import pytest  # noqa: PLC0415

    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*TEXT, *SCRIPTS * 2, "a @-@ b < > / [ ]"]), model_writer=model,
        **{"model_type": "unigram", "minloglevel": 2, "vocab_size": 400, "hard_vocab_limit": False,
           "control_symbols": "[CLS]", "character_coverage": 1.0, **options},
    )  # fmt: skip
    return model.getvalue()


def converted(**options: Any) -> str:
    """The tokenizer.json of a SentencePiece model."""
    lowercase = options.pop("lowercase", None)
    content = sentencepiece_model(**options)
    file = read_tokenizer(
        "m/a.model", {"m/a.model": content}.get, TokenizerOptions(lowercase=lowercase)
    )
    return file.json


@cache
def charsmap(rule: str = "nmt_nfkc") -> bytes:
    """SentencePiece's map of characters of a name."""
    from corpusmill.tokenization.sources.sentencepiece import parse_model  # noqa: PLC0415

    model = parse_model(sentencepiece_model(normalization_rule_name=rule))
    content: bytes = model.normalizer_spec.precompiled_charsmap
    return content


def vocabulary() -> list[tuple[str, float]]:
    """Pieces of words with scores of which many sums are equal, in an order without meaning."""
    text = f"{SPACE}".join(["", *" ".join([*TEXT, *SCRIPTS]).split()])
    found: dict[str, None] = dict.fromkeys(SPECIAL)
    for size, start in itertools.product((1, 2, 3, 5), range(0, len(text), 2)):
        found[text[start : start + size]] = None
    found |= dict.fromkeys([SPACE, f"{SPACE}{SPACE}", "aa", "aaa", "a", "film", f"the{SPACE}film"])
    # Halves and thirds: some sums are equal to the last bit, others only nearly.
    return [
        (piece, 0.0 if number < len(SPECIAL) else -(number % 7) / 3 - len(piece) / 2 - 1)
        for number, piece in enumerate(found)
    ]


def unigram(
    normalizer: Any = None,
    pre_tokenizer: Any = None,
    byte_fallback: bool = False,
    added: tuple[AddedToken, ...] = (),
    more: tuple[tuple[str, float], ...] = (),
) -> str:
    """A tokenizer with these parts."""
    pieces = [*vocabulary(), *more]
    if byte_fallback:
        pieces += [(f"<0x{byte:02X}>", 0.0) for byte in range(256)]
    tokenizer = Tokenizer(models.Unigram(pieces, SPECIAL.index("<unk>"), byte_fallback))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer or pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.add_tokens(list(added))
    return tokenizer.to_str()


def metaspace(scheme: str, split: bool) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)


def steps(*inner: Any) -> normalizers.Normalizer:
    return normalizers.Sequence(list(inner))


def mapped(rule: str = "nmt_nfkc") -> normalizers.Normalizer:
    return normalizers.Precompiled(charsmap(rule))


def at_white_space() -> pre_tokenizers.PreTokenizer:
    parts = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    return pre_tokenizers.Sequence(parts)


SEVERAL = Regex(" {2,}")
QUOTES = (normalizers.Replace("``", '"'), normalizers.Replace("''", '"'))
ACCENTS = (normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase())

# Tokenizers whose words are remembered, and those of which whole texts are compiled.
OF_WORDS: dict[str, Callable[[], str]] = {
    "as trained": unigram,
    "always": lambda: unigram(pre_tokenizer=metaspace("always", split=True)),
    "first": lambda: unigram(pre_tokenizer=metaspace("first", split=True)),
    "never": lambda: unigram(pre_tokenizer=metaspace("never", split=True)),
    "NFC": lambda: unigram(normalizers.NFC()),
    "NFD": lambda: unigram(normalizers.NFD()),
    "NFKC, small": lambda: unigram(steps(normalizers.NFKC(), normalizers.Lowercase())),
    "NFKD": lambda: unigram(normalizers.NFKD()),
    "without accents": lambda: unigram(steps(*ACCENTS, normalizers.NFC())),
    "Nmt": lambda: unigram(steps(normalizers.Nmt(), normalizers.NFKC())),
    "bytes": lambda: unigram(byte_fallback=True),
    "some bytes": lambda: unigram(byte_fallback=True, more=(("<0x00>", -1.0),)),
    "ends": lambda: unigram(normalizers.Strip(left=False, right=True)),
    "one character": lambda: unigram(normalizers.Replace("e", "--")),
    "line breaks": lambda: unigram(normalizers.Replace("\n", " ")),
    "added": lambda: unigram(added=(AddedToken("Robert", normalized=False),)),
    "added, left": lambda: unigram(added=(AddedToken("film", normalized=False, lstrip=True),)),
    "T5 of the hub": lambda: unigram(mapped(), at_white_space()),
    "T5": lambda: unigram(
        steps(mapped(), normalizers.Strip(left=False), normalizers.Replace(SEVERAL, SPACE))
    ),
    "ALBERT": lambda: unigram(steps(*QUOTES, *ACCENTS, mapped()), at_white_space()),
    "XLNet": lambda: unigram(
        steps(*QUOTES, *ACCENTS, mapped(), normalizers.Replace(SEVERAL, " ")), at_white_space()
    ),
    "DeBERTa": lambda: unigram(
        steps(
            normalizers.Lowercase(), normalizers.Strip(), mapped(),
            normalizers.Replace(SEVERAL, " "),
        )
    ),
    "model": converted,
    "model, small": lambda: converted(lowercase=True),
    "model, bytes": lambda: converted(byte_fallback=True, vocab_size=600),
    "model, symbols": lambda: converted(user_defined_symbols="<mask>,@-@"),
    "model, small letters": lambda: converted(normalization_rule_name="nmt_nfkc_cf"),
    "model, no map": lambda: converted(normalization_rule_name="identity"),
}  # fmt: skip
OF_TEXTS: dict[str, Callable[[], str]] = {
    "whole": lambda: unigram(pre_tokenizer=metaspace("always", split=False)),
    "whole, first": lambda: unigram(pre_tokenizer=metaspace("first", split=False)),
    "whole, never": lambda: unigram(
        pre_tokenizer=metaspace("never", split=False), byte_fallback=True
    ),
    "whole, T5": lambda: unigram(
        steps(mapped(), normalizers.Strip(left=False), normalizers.Replace(SEVERAL, SPACE)),
        metaspace("always", split=False),
    ),
    "left end": lambda: unigram(normalizers.Strip(left=True, right=False)),
    "both ends": lambda: unigram(normalizers.Strip()),
    "added, right": lambda: unigram(added=(AddedToken("film", normalized=False, rstrip=True),)),
    "prepended": lambda: unigram(
        steps(normalizers.Prepend(SPACE), normalizers.NFKC(), normalizers.Replace(" ", SPACE)),
        pre_tokenizers.Sequence([]),
    ),
    "model, spaces": lambda: converted(remove_extra_whitespaces=False),
    "model, spaces and bytes": lambda: converted(
        remove_extra_whitespaces=False, normalization_rule_name="identity", byte_fallback=True,
        vocab_size=600,
    ),
    "model, no prefix": lambda: converted(
        add_dummy_prefix=False, normalization_rule_name="nmt_nfkc_cf"
    ),
    "model, across words": lambda: converted(split_by_whitespace=False),
}  # fmt: skip
WORDS = Lazily(OF_WORDS, lambda name: OF_WORDS[name]())
TEXTS = Lazily(OF_TEXTS, lambda name: OF_TEXTS[name]())


def keys_of_map() -> list[str]:
    """Keys of several characters of SentencePiece's map."""
    return [key for key in read_map(charsmap()) if len(key) > 1]
