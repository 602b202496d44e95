"""SentencePiece models as tokenizer.json.

Like the converters of the transformers library, but texts that look like special pieces are treated
as SentencePiece treats them; the sentencepiece library itself is the reference.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from corpusmill.tokenization.sources.charsmap import map_as_sentencepiece
from corpusmill.tokenization.sources.source import INSTALL, Source, SourceFile, list_merges
from corpusmill.tokenization.tokenizer_file import USUAL_NAMES, Encode, TokenizerOptions

FORM = "SentencePiece model"

# The kinds of pieces and of models, as sentencepiece_model.proto numbers them.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6
_UNIGRAM, _BPE = 1, 2

_SPACE = "\u2581"


def from_model(file: SourceFile) -> Source:
    """Convert a SentencePiece model of the unigram or bpe kind.

    Its control symbols become special tokens. SentencePiece itself tokenizes them as ordinary text
    when they occur in a text, and so does the result without `special_tokens_in_text`. If the text
    is lower-cased or loses its accents, that is done before, as for ALBERT, with the quotation
    marks `` and '' made one sign.

    Raises:
        UserError: it is not one, its kind cannot be converted, or a library is missing.
    """
    # What the options leave open is as the tokenizer_config.json says; without one, as it is.
    lowercase, strip_accents = file.options.lowercase, file.options.strip_accents
    if lowercase is None:
        lowercase = bool(file.config.get("do_lower_case", False))
    if strip_accents is None:
        strip_accents = not file.config.get("keep_accents", not lowercase)
    options = replace(file.options, lowercase=lowercase, strip_accents=strip_accents)
    try:
        import sentencepiece  # noqa: PLC0415  optional

        processor = sentencepiece.SentencePieceProcessor(model_proto=file.content)
        model = parse_model(file.content)
    except ImportError as error:
        cause = f"it needs the libraries sentencepiece and protobuf, which are missing ({error})"
        file.refuse(cause, INSTALL)
    except Exception as error:  # the libraries have nothing narrower in common
        file.refuse(f"it is not a SentencePiece model ({error})")
    _check_model(file, model)
    special = [
        piece.piece
        for piece in model.pieces
        if piece.type in {_CONTROL, _UNKNOWN}
        or (piece.type == _USER_DEFINED and piece.piece in USUAL_NAMES)
    ]
    tokenizer = Tokenizer(_model(model))
    before = list(_normalizers_before(options))
    tokenizer.normalizer = normalizers.Sequence([*before, *_normalizers(model.normalizer_spec)])
    splits = list(_splits(model))
    if splits:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits)
    tokenizer.decoder = _decoder(model)
    tokenizer.add_special_tokens(special)
    in_text = special if options.special_tokens_in_text else []
    reference = _reference(processor, in_text, normalizers.Sequence(before))
    return Source(FORM, tokenizer, options, reference)


def _normalizers_before(options: TokenizerOptions) -> Iterator[normalizers.Normalizer]:
    """The steps of transformers' AlbertTokenizer before those of the model."""
    if options.lowercase or options.strip_accents:
        yield from (normalizers.Replace(marks, '"') for marks in ("``", "''"))
    if options.strip_accents:
        yield from (normalizers.NFKD(), normalizers.StripAccents())
    if options.lowercase:
        yield normalizers.Lowercase()


def _check_model(file: SourceFile, model: Any) -> None:
    cure = "Give its tokenizer.json, or train a model of another kind"
    if model.trainer_spec.model_type not in {_UNIGRAM, _BPE}:
        file.refuse("it is a SentencePiece model of neither the unigram nor the bpe kind", cure)
    if model.trainer_spec.treat_whitespace_as_suffix:
        file.refuse("it treats white space as a suffix, which cannot be converted", cure)
    if not model.normalizer_spec.escape_whitespaces:
        file.refuse("it does not escape white space, which cannot be converted", cure)


def _model(model: Any) -> models.Model:
    pieces, byte_fallback = model.pieces, model.trainer_spec.byte_fallback
    unknown = next(number for number, piece in enumerate(pieces) if piece.type == _UNKNOWN)
    if model.trainer_spec.model_type == _UNIGRAM:
        # A user-defined piece always wins (Model::EncodeOptimized in unigram_model.cc).
        best = max((piece.score for piece in pieces if piece.type == _NORMAL), default=0.0)
        symbols = [piece.piece for piece in pieces if piece.type == _USER_DEFINED]
        wins = {symbol: len(symbol.encode()) * best - 0.1 for symbol in symbols}
        scores = [(piece.piece, wins.get(piece.piece, piece.score)) for piece in pieces]
        return models.Unigram(scores, unknown, byte_fallback)
    ranks = {
        piece.piece: (-piece.score, number)
        for number, piece in enumerate(pieces)
        if piece.type in {_NORMAL, _UNUSED}
    }
    return models.BPE(
        {piece.piece: number for number, piece in enumerate(pieces)},
        list_merges(ranks, sort_splits=False),
        unk_token=pieces[unknown].piece,
        fuse_unk=True,
        byte_fallback=byte_fallback,
        ignore_merges=any(piece.type == _USER_DEFINED for piece in pieces),
    )


def _normalizers(spec: Any) -> Iterator[normalizers.Normalizer]:
    # In the order of Normalizer::Normalize in normalizer.cc, which puts a space even before a text
    # of which the map leaves nothing; as the end of a text it would be removed again.
    begins = [normalizers.Prepend(_SPACE)] if spec.add_dummy_prefix else []
    if not spec.remove_extra_whitespaces:
        yield from begins
    if spec.precompiled_charsmap:
        yield from map_as_sentencepiece(spec.precompiled_charsmap)
    if spec.remove_extra_whitespaces:
        yield normalizers.Replace(Regex(r"\A +| +\z"), "")
        yield normalizers.Replace(Regex(" {2,}"), " ")
        yield from begins
    yield normalizers.Replace(" ", _SPACE)
    if spec.remove_extra_whitespaces:
        yield normalizers.Replace(Regex(rf"{_SPACE}+\z"), "")


def _splits(model: Any) -> Iterator[pre_tokenizers.PreTokenizer]:
    """Splits that leave the result the same: words, which are faster to tokenize, and names.

    SentencePiece never takes text that is written like a byte or a control symbol for one, but the
    tokenizers library's Unigram does, and so does its BPE with `ignore_merges`.
    """
    normal = {p.piece for p in model.pieces if p.type in {_NORMAL, _USER_DEFINED, _UNUSED}}
    if not any(re.search(rf"[^{_SPACE}]{_SPACE}", piece) for piece in normal):
        words = Regex(rf"{_SPACE}+[^{_SPACE}]*|[^{_SPACE}]+")
        yield pre_tokenizers.Split(words, "isolated")
    if model.trainer_spec.model_type == _BPE:
        symbols = [piece.piece for piece in model.pieces if piece.type == _USER_DEFINED]
        if not symbols:
            return
        yield pre_tokenizers.Split(Regex(_any_of(symbols)), "isolated")
    names = [piece.piece for piece in model.pieces if piece.type in {_UNKNOWN, _CONTROL, _BYTE}]
    ends: dict[str, list[str]] = {}
    for name in names:
        place = _harmless_cut(name, normal, model.trainer_spec.byte_fallback)
        if place:
            ends.setdefault(name[:place], []).append(name[place:])
    for begin, ends_of_begin in ends.items():
        pattern = f"{_escape(begin)}(?={_any_of(ends_of_begin)})"
        yield pre_tokenizers.Split(Regex(pattern), "merged_with_previous")


def _harmless_cut(name: str, normal: set[str], byte_fallback: bool) -> int:
    """The first place in a name that no piece and no run of unknown characters crosses, or 0."""
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


def _reference(processor: Any, special: list[str], before: normalizers.Normalizer) -> Encode:
    """SentencePiece's ids of texts, with special tokens in them turned into their ids.

    Args:
        processor: the library's.
        special: the special tokens; none if they are plain text.
        before: what is done to the text between them before the library gets it.
    """
    ids = {token: processor.piece_to_id(token) for token in special}
    longest_first = sorted(map(re.escape, special), key=len, reverse=True)
    pattern = re.compile(f"({'|'.join(longest_first)})") if special else re.compile("(?!)")

    def encode(texts: list[str]) -> list[list[int]]:
        encoded = []
        for text in texts:
            parts = [part for part in pattern.split(text) if part]
            rows = [
                [ids[part]] if part in ids else processor.encode(before.normalize_str(part))
                for part in parts
            ]
            encoded.append([token for row in rows for token in row])
        return encoded

    return encode


# Names, numbers and defaults of sentencepiece_model.proto.
_SCHEMA = """
name: "corpusmill/sentencepiece.proto" package: "corpusmill.sentencepiece" syntax: "proto2"
message_type { name: "Piece"
  field { name: "piece" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "score" number: 2 label: LABEL_OPTIONAL type: TYPE_FLOAT }
  field { name: "type" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 default_value: "1" } }
message_type { name: "Trainer"
  field { name: "model_type" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 default_value: "1" }
  field { name: "treat_whitespace_as_suffix" number: 24 label: LABEL_OPTIONAL type: TYPE_BOOL }
  field { name: "byte_fallback" number: 35 label: LABEL_OPTIONAL type: TYPE_BOOL } }
message_type { name: "Normalizer"
  field { name: "precompiled_charsmap" number: 2 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "add_dummy_prefix" number: 3 label: LABEL_OPTIONAL type: TYPE_BOOL
          default_value: "true" }
  field { name: "remove_extra_whitespaces" number: 4 label: LABEL_OPTIONAL type: TYPE_BOOL
          default_value: "true" }
  field { name: "escape_whitespaces" number: 5 label: LABEL_OPTIONAL type: TYPE_BOOL
          default_value: "true" } }
message_type { name: "Model"
  field { name: "pieces" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE
          type_name: ".corpusmill.sentencepiece.Piece" }
  field { name: "trainer_spec" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".corpusmill.sentencepiece.Trainer" }
  field { name: "normalizer_spec" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".corpusmill.sentencepiece.Normalizer" } }
"""


def parse_model(content: bytes) -> Any:
    """Parse the bytes of a model file: the fields that a conversion needs.

    The sentencepiece library has a parser of its files, too, but that one needs the newest
    protobuf; this one works with any version.

    Raises:
        ImportError: protobuf is missing.
        google.protobuf.message.DecodeError: they are not a model.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format  # noqa: PLC0415

    file = text_format.Parse(_SCHEMA, descriptor_pb2.FileDescriptorProto())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptor = pool.FindMessageTypeByName("corpusmill.sentencepiece.Model")
    return message_factory.GetMessageClass(descriptor).FromString(content)
