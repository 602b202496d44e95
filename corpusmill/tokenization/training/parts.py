"""Tokenizers of parts: normalizers and patterns by name, the tokenizer.json, BERT's tokenizer."""

from collections.abc import Sequence
from typing import Literal

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from corpusmill.tokenization.compiled import byte_level_pieces as pieces

NormalizerName = Literal["nfc", "nfd", "nfkc", "nfkd", "lowercase", "strip-accents"]

# Accents are characters of their own only in decomposed text, which is composed again afterwards:
# otherwise Korean syllables would stay in pieces.
NORMALIZERS = {
    "nfc": (normalizers.NFC,),
    "nfd": (normalizers.NFD,),
    "nfkc": (normalizers.NFKC,),
    "nfkd": (normalizers.NFKD,),
    "lowercase": (normalizers.Lowercase,),
    "strip-accents": (normalizers.NFD, normalizers.StripAccents, normalizers.NFC),
}


def make_normalizer(
    names: Sequence[NormalizerName], *more: normalizers.Normalizer
) -> normalizers.Normalizer | None:
    """Join normalizers by name, and then others, in this order; None if there are none."""
    steps = [*(kind() for name in names for kind in NORMALIZERS[name]), *more]
    if len(steps) == 1:
        return steps[0]
    return normalizers.Sequence(steps) if steps else None


# Of byte-level BPE: the regular expressions that cut text one after the other.
PATTERNS = {
    "gpt2": (pieces.GPT2,), "digits": (pieces.DIGITS,), "digits3": (pieces.DIGITS3,),
    "cl100k": (pieces.CL100K,), "llama3": (pieces.CL100K,), "qwen2": (pieces.QWEN2,),
    "o200k": (pieces.O200K,), "deepseek3": pieces.DEEPSEEK_STEPS,
}  # fmt: skip


def split_by(pattern: str) -> list[pre_tokenizers.PreTokenizer]:
    """Return the steps that cut text by a pattern, a name in PATTERNS or a regular expression.

    Raises:
        Exception: it is no regular expression.
    """
    steps = PATTERNS.get(pattern, (pattern,))
    return [pre_tokenizers.Split(Regex(step), "isolated") for step in steps]


def write_tokenizer_json(
    model: models.Model,
    normalizer: normalizers.Normalizer | None,
    pre_tokenizer: pre_tokenizers.PreTokenizer,
    decoder: decoders.Decoder,
    special_tokens: Sequence[str],
    post_processor: processors.PostProcessor | None = None,
) -> str:
    """Return the tokenizer.json of a tokenizer with these parts."""
    tokenizer = Tokenizer(model)
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.decoder, tokenizer.post_processor = decoder, post_processor
    tokenizer.add_special_tokens(list(special_tokens))
    return str(tokenizer.to_str(pretty=True))


SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def bert_tokenizer(
    vocabulary: dict[str, int],
    lowercase: bool,
    strip_accents: bool | None = None,
    handle_chinese_chars: bool = True,
    special_tokens: Sequence[str] = SPECIAL_TOKENS,
    longest_word: int = 100,
) -> Tokenizer:
    """Return BERT's tokenizer with a vocabulary.

    It tokenizes like `FullTokenizer` of the reference implementation (Devlin et al. 2019).

    Args:
        vocabulary: token to id, `SPECIAL_TOKENS` among them.
        lowercase: whether to lower-case the text.
        strip_accents: whether to strip accents; None means the value of `lowercase`.
        handle_chinese_chars: whether each CJK character is a word.
        special_tokens: `SPECIAL_TOKENS` and others, all in the vocabulary.
        longest_word: the characters of the longest word that is not unknown.
    """
    tokenizer = Tokenizer(
        models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=longest_word)  # noqa: S106 - not a password
    )
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=lowercase, strip_accents=strip_accents, handle_chinese_chars=handle_chinese_chars
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(sorted(special_tokens, key=vocabulary.__getitem__))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    tokenizer.enable_padding(pad_id=vocabulary["[PAD]"], pad_token="[PAD]")  # noqa: S106 - not a password
    return tokenizer
