"""SentencePiece models as tokenizer.json.

As the converters of the transformers library, with more care for what stands in the text literally;
the sentencepiece library itself is the reference.
"""

import re
from collections.abc import Iterator
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
)

from corpusmill.tokenization.sources.source import Encode, Source, TokenizerOptions, refuse
from corpusmill.tokenization.special_tokens import USUAL_NAMES

FORM = "SentencePiece model"

_SPACE = "\u2581"
_INSTALL = "Install it: pip install 'corpusmill[tokenizers]'"


def from_sentencepiece(path: str, content: bytes, options: TokenizerOptions) -> Source:
    """The tokenizer of a SentencePiece model, of the kinds unigram and bpe.

    Its control symbols are special tokens. SentencePiece itself takes them for ordinary text where
    they stand in it, as is done here without `special_tokens_in_text`.

    Raises:
        UserError: it is none, or of a kind that cannot be converted, or a library is missing.
    """
    options.refuse_inapplicable(path, FORM)
    try:
        import sentencepiece  # noqa: PLC0415  optional

        from corpusmill.tokenization.sources import sentencepiece_proto as proto  # noqa: PLC0415  likewise
    except ImportError as error:
        cause = f"it needs the libraries sentencepiece and protobuf, which are not there ({error})"
        refuse(path, cause, _INSTALL)
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=content)
        model = proto.parse_model(content)
    except Exception as error:  # the libraries have nothing narrower in common
        refuse(path, f"it is no SentencePiece model ({error})")
    _check(path, model)
    special = [
        piece.piece
        for piece in model.pieces
        if piece.type in {proto.CONTROL, proto.UNKNOWN}
        or (piece.type == proto.USER_DEFINED and piece.piece in USUAL_NAMES)
    ]
    tokenizer = Tokenizer(_model(model))
    tokenizer.normalizer = normalizers.Sequence(list(_normalizers(model.normalizer_spec)))
    splits = list(_splits(model))
    if splits:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits)
    tokenizer.decoder = _decoder(model)
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token in special]
    )
    found = special if options.special_tokens_in_text else []
    return Source(FORM, tokenizer, options, reference=_reference(processor, found))


def _check(path: str, model: Any) -> None:
    cure = "Give its tokenizer.json, or train a model of another kind"
    if model.trainer_spec.model_type not in {1, 2}:
        refuse(path, "it is a SentencePiece model of neither the unigram nor the bpe kind", cure)
    if model.trainer_spec.treat_whitespace_as_suffix:
        refuse(path, "it treats white space as a suffix, which cannot be converted", cure)
    if not model.normalizer_spec.escape_whitespaces:
        refuse(path, "it does not escape white space, which cannot be converted", cure)


def _model(model: Any) -> models.Model:
    pieces, byte_fallback = model.pieces, model.trainer_spec.byte_fallback
    unknown = next(place for place, piece in enumerate(pieces) if piece.type == 2)
    if model.trainer_spec.model_type == 1:
        return models.Unigram(list(_scores(pieces)), unknown, byte_fallback)
    return models.BPE(
        {piece.piece: place for place, piece in enumerate(pieces)},
        _merges(pieces),
        unk_token=pieces[unknown].piece,
        fuse_unk=True,
        byte_fallback=byte_fallback,
        ignore_merges=any(piece.type == 4 for piece in pieces),
    )


def _scores(pieces: Any) -> Iterator[tuple[str, float]]:
    # A user-defined piece always wins (Model::EncodeOptimized in unigram_model.cc).
    best = max((piece.score for piece in pieces if piece.type == 1), default=0.0)
    for piece in pieces:
        wins = len(piece.piece.encode()) * best - 0.1
        yield piece.piece, wins if piece.type == 4 else piece.score


def _merges(pieces: Any) -> list[tuple[str, str]]:
    """All splits of a piece into two others, in the order of the scores."""
    normal = {
        piece.piece: (-piece.score, place)
        for place, piece in enumerate(pieces)
        if piece.type in {1, 5}
    }
    merges = []
    for piece in sorted(normal, key=normal.__getitem__):
        splits = [(piece[:place], piece[place:]) for place in range(1, len(piece))]
        known = [split for split in splits if split[0] in normal and split[1] in normal]
        merges += sorted(known, key=lambda split: (len(split[0]), len(split[1])))
    return merges


def _normalizers(spec: Any) -> Iterator[normalizers.Normalizer]:
    # As Normalizer::Normalize in normalizer.cc.
    if spec.precompiled_charsmap:
        # The tokenizers library maps of a letter and its combining marks but the letter. Where they
        # are one character beforehand, it maps that.
        yield normalizers.NFC()
        yield normalizers.Precompiled(spec.precompiled_charsmap)
    if spec.remove_extra_whitespaces:
        yield normalizers.Replace(Regex(r"\A +| +\z"), "")
        yield normalizers.Replace(Regex(" {2,}"), " ")
    if spec.add_dummy_prefix:
        yield normalizers.Prepend(_SPACE)
    yield normalizers.Replace(" ", _SPACE)
    if spec.remove_extra_whitespaces:
        yield normalizers.Replace(Regex(rf"{_SPACE}+\z"), "")


def _splits(model: Any) -> Iterator[pre_tokenizers.PreTokenizer]:
    """Where text can be cut with the same result: words, which are faster to tokenize, and names.

    SentencePiece never takes what is written like a byte or a control symbol for one, but the
    tokenizers library's Unigram would, and its BPE where symbols are taken as a whole.
    """
    normal = {piece.piece for piece in model.pieces if piece.type in {1, 4, 5}}
    if not any(re.search(rf"[^{_SPACE}]{_SPACE}", piece) for piece in normal):
        words = Regex(rf"{_SPACE}+[^{_SPACE}]*|[^{_SPACE}]+")
        yield pre_tokenizers.Split(words, "isolated")
    if model.trainer_spec.model_type == 2:
        symbols = [piece.piece for piece in model.pieces if piece.type == 4]
        if not symbols:
            return
        yield pre_tokenizers.Split(Regex(_any_of(symbols)), "isolated")
    names = [piece.piece for piece in model.pieces if piece.type in {2, 3, 6}]
    ends: dict[str, list[str]] = {}
    for name in names:
        place = _harmless_cut(name, normal, model.trainer_spec.byte_fallback)
        if place:
            ends.setdefault(name[:place], []).append(name[place:])
    for begin, of_begin in ends.items():
        pattern = f"{_escape(begin)}(?={_any_of(of_begin)})"
        yield pre_tokenizers.Split(Regex(pattern), "merged_with_previous")


def _harmless_cut(name: str, normal: set[str], byte_fallback: bool) -> int:
    """The first place in a name over which no piece goes, nor a run of unknown characters."""
    for place in range(1, len(name)):
        left, right = name[place - 1], name[place]
        known = byte_fallback or left in normal or right in normal
        if known and not any(left + right in piece for piece in normal):
            return place
    return 0


def _any_of(texts: list[str]) -> str:
    return "|".join(map(_escape, sorted(texts, key=len, reverse=True)))


def _escape(text: str) -> str:
    return re.sub(r"([^\w\s])", r"\\\1", text, flags=re.ASCII) if text.isascii() else text


def _decoder(model: Any) -> decoders.Decoder:
    steps: list[Any] = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if model.normalizer_spec.add_dummy_prefix:
        steps.append(decoders.Strip(" ", 1, 0))
    return decoders.Sequence(steps)


def _reference(processor: Any, special: list[str]) -> Encode:
    """Sentencepiece's ids of a text, and of the stretches between the special tokens in it."""
    ids = {token: processor.piece_to_id(token) for token in special}
    longest_first = sorted(map(re.escape, special), key=len, reverse=True)
    pattern = re.compile(f"({'|'.join(longest_first)})") if special else re.compile("(?!)")

    def encode(texts: list[str]) -> list[list[int]]:
        encoded = []
        for text in texts:
            parts = [part for part in pattern.split(text) if part]
            rows = [[ids[part]] if part in ids else processor.encode(part) for part in parts]
            encoded.append([token for row in rows for token in row])
        return encoded

    return encode
