"""The parts of trained tokenizers: normalizers by name, and the tokenizer.json of all parts."""

from collections.abc import Sequence
from typing import Literal

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

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
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoder
    if post_processor:
        tokenizer.post_processor = post_processor
    tokenizer.add_special_tokens(list(special_tokens))
    return str(tokenizer.to_str(pretty=True))
