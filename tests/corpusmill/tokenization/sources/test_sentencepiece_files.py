"""SentencePiece models, converted, against the sentencepiece library."""

import io
import json
import sys
import unicodedata
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from corpusmill.errors import UserError
from corpusmill.tokenization.sources.proof import find_difference, hard_texts
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import Encode, TokenizerFile, TokenizerOptions
from tests.tools.tokenizer_samples import TEXT, encode_with

sentencepiece = pytest.importorskip("sentencepiece")

PIECES = (" ", "  ", "\u2581", "film ", "<mask>", "<s>", "</s>", "<unk>", "<0x41>", "@-@", "Robert")
HALFWIDTH = "\uff76\uff9e \uff76 \uff9e\u30ac A\u0301\u0323 \uff21\u030a \u1100\u1161\u11a8 \r\n"
CHARACTERS = st.characters(codec="utf-8", max_codepoint=0x2FFF) | st.sampled_from(HALFWIDTH)

KINDS: dict[str, dict[str, Any]] = {
    "unigram": {"model_type": "unigram"},
    "unigram, bytes": {
        "model_type": "unigram", "byte_fallback": True, "vocab_size": 420,
        "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
    },
    "unigram, symbols": {
        "model_type": "unigram", "user_defined_symbols": ["<mask>", "@-@"],
        "add_dummy_prefix": False,
    },
    "unigram, cases folded": {
        "model_type": "unigram", "normalization_rule_name": "nmt_nfkc_cf",
    },
    "unigram, bytes and map": {
        "model_type": "unigram", "byte_fallback": True, "vocab_size": 460,
    },
    "unigram, bytes, map and spaces": {
        "model_type": "unigram", "byte_fallback": True, "vocab_size": 460,
        "normalization_rule_name": "nfkc", "remove_extra_whitespaces": False,
    },
    "bpe": {"model_type": "bpe"},
    "bpe, bytes and map": {
        "model_type": "bpe", "byte_fallback": True, "vocab_size": 460,
        "remove_extra_whitespaces": False,
    },
    "bpe, bytes, cases folded": {
        "model_type": "bpe", "byte_fallback": True, "vocab_size": 460, "add_dummy_prefix": False,
        "normalization_rule_name": "nmt_nfkc_cf",
    },
    "bpe, bytes": {
        "model_type": "bpe", "byte_fallback": True, "vocab_size": 420,
        "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
    },
    "bpe, symbols": {"model_type": "bpe", "user_defined_symbols": ["<mask>", "@-@"]},
    "bpe, across words": {"model_type": "bpe", "split_by_whitespace": False},
}  # fmt: skip


def train(**options: Any) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*TEXT, "a @-@ b < > / [ ]", HALFWIDTH]), model_writer=model,
        **{"minloglevel": 2, "vocab_size": 190, "hard_vocab_limit": False,
           "control_symbols": ["[CLS]"], "character_coverage": 1.0, **options},
    )  # fmt: skip
    return model.getvalue()


@cache
def model(kind: str) -> bytes:
    return train(**KINDS[kind])


def read(content: bytes, **options: Any) -> TokenizerFile:
    return read_tokenizer("m/a.model", {"m/a.model": content}.get, TokenizerOptions(**options))


@cache
def convert(kind: str, in_text: bool) -> TokenizerFile:
    return read(model(kind), special_tokens_in_text=in_text)


@cache
def list_conversions() -> list[tuple[tuple[str, bool], TokenizerFile, Encode]]:
    """All kinds, converted for either use of special tokens, with what encodes texts by them."""
    names = [(kind, in_text) for kind in KINDS for in_text in (True, False)]
    files = [convert(*name) for name in names]
    return [(name, file, encode_with(file)) for name, file in zip(names, files, strict=True)]


@settings(max_examples=12, deadline=None)
@given(
    texts=st.lists(st.lists(st.sampled_from(PIECES) | st.text(CHARACTERS, max_size=8)).map("".join))
)
@example(texts=[HALFWIDTH, "\x01", "\x01 a", " \r\n "])
@example(texts=["<mask><s>", "<s><mask></s>", "a<mask><unk>b"])
@example(texts=[*hard_texts(["<s>", "<unk>", "<mask>", "[CLS]"]), *TEXT])
def test_the_ids_are_those_of_sentencepiece(texts: list[str]) -> None:
    for name, file, encode in list_conversions():
        assert file.reference is not None
        assert find_difference(encode, file.reference, texts) is None, name


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_that_occur_in_the_text(kind: str) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model(kind))
    text = "</s> The film</s><unk>"
    special, plain = convert(kind, True), convert(kind, False)
    assert encode_with(plain)([text]) == [processor.encode(text)]
    [ids] = encode_with(special)([text])
    assert (ids[0], ids[-2:]) == (processor.eos_id(), [processor.eos_id(), processor.unk_id()])
    assert ids[1:-2] == processor.encode(" The film")


def prepare(text: str, lowercase: bool, strip_accents: bool) -> str:
    """What AlbertTokenizer does before the model, which lower-cases each character by itself."""
    text = text.replace("``", '"').replace("''", '"')
    if strip_accents:
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(one for one in decomposed if not unicodedata.combining(one))
    return "".join(map(str.lower, text)) if lowercase else text


@pytest.mark.parametrize("kind", ["unigram", "bpe, bytes and map"])
@pytest.mark.parametrize(
    ("lowercase", "strip_accents"), [(True, None), (True, False), (False, True)]
)
def test_text_is_lower_cased_and_loses_its_accents_as_for_albert(
    kind: str, lowercase: bool, strip_accents: bool | None
) -> None:
    file = read(model(kind), lowercase=lowercase, strip_accents=strip_accents)
    strips = lowercase if strip_accents is None else strip_accents
    processor = sentencepiece.SentencePieceProcessor(model_proto=model(kind))
    texts = [*TEXT, "The Film''s ``\u00c9t\u00e9'' E\u0301 na\u00efve", "\uff26\u0130LM", HALFWIDTH]
    assert encode_with(file)(texts) == [
        processor.encode(prepare(text, lowercase, strips)) for text in texts
    ]
    assert file.reference is not None
    assert find_difference(encode_with(file), file.reference, hard_texts(())) is None
    assert (file.options.lowercase, file.options.strip_accents) == (lowercase, strips)


@pytest.mark.parametrize(
    ("config", "chosen"),
    [
        (None, (False, False)),
        ("{}", (False, False)),
        ('{"do_lower_case": true}', (True, True)),
        ('{"do_lower_case": false, "keep_accents": false}', (False, True)),
        ('{"do_lower_case": true, "keep_accents": true}', (True, False)),
    ],
)
def test_the_configuration_beside_it_says_whether_text_is_lower_cased(
    config: str | None, chosen: tuple[bool, bool]
) -> None:
    files = {"m/spiece.model": model("unigram")}
    files |= {"m/tokenizer_config.json": config.encode()} if config else {}
    file = read_tokenizer("m", files.get)
    assert (file.options.lowercase, file.options.strip_accents) == chosen


@pytest.mark.parametrize(("adds", "before"), [(None, None), (True, (1,)), (False, ())])
def test_the_configuration_beside_it_says_whether_texts_begin_with_a_token(
    adds: bool | None, before: tuple[int, ...] | None
) -> None:
    config = json.dumps({"add_bos_token": adds, "tokenizer_class": "LlamaTokenizer"})
    files = {"m/tokenizer.model": model("bpe"), "m/tokenizer_config.json": config.encode()}
    special = read_tokenizer("m", files.get).special
    assert (special.bos_id, special.before, special.after) == (1, before, None)


def test_roles_are_found() -> None:
    special = convert("bpe, symbols", True).special
    processor = sentencepiece.SentencePieceProcessor(model_proto=model("bpe, symbols"))
    assert special.eos_id == special.sep_id == processor.eos_id()
    assert special.unk_id == processor.unk_id()
    assert special.cls_id == processor.piece_to_id("[CLS]")
    assert special.mask_id == processor.piece_to_id("<mask>")
    assert convert("bpe", True).form == "SentencePiece model"


def test_the_text_can_be_decoded() -> None:
    for kind in ("bpe, bytes", "unigram, bytes"):
        tokenizer = Tokenizer.from_str(convert(kind, True).json)
        ids = tokenizer.encode(TEXT[2], add_special_tokens=False).ids
        assert tokenizer.decode(ids) == TEXT[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model_type": "char"}, "neither the unigram nor the bpe kind"),
        ({"model_type": "bpe", "treat_whitespace_as_suffix": True}, "white space as a suffix"),
    ],
)
def test_what_cannot_be_converted_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(train(**options))


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(UserError, match="it is not a SentencePiece model"):
        read(b"no model at all")


@pytest.mark.parametrize("name", ["sentencepiece", "google.protobuf"])
def test_without_the_libraries_the_extra_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=r"pip install 'corpusmill\[tokenizers\]'"):
        read(model("bpe"))
