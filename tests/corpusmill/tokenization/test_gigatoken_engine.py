"""gigatoken in place of our own kernels, and the refusals where it gives other ids."""

import json
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from corpusmill.errors import UserError
from corpusmill.tokenization.gigatoken_engine import is_worthwhile
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.sources.proof import HARD_TEXTS, LINED_TEXTS
from tests.tools.token_rows import as_arrays
from tests.tools.tokenizer_samples import byte_level

TOKENIZER = byte_level()
TEXTS = [
    f"{text}\n" * 40 for text in ("Of a beam .", "na\u00efve \U0001f600 <|endoftext|>", "3 or 4")
]
UINT16 = np.dtype(np.uint16)


def install(monkeypatch: pytest.MonkeyPatch, encode: Callable[[str, bytes], Any]) -> None:
    """Install a package with the part of gigatoken's interface that is used."""

    def from_json(content: bytes) -> SimpleNamespace:
        backend = SimpleNamespace(encode=lambda text: encode(content.decode(), text))
        return SimpleNamespace(backend=backend)

    package = SimpleNamespace(Tokenizer=SimpleNamespace(from_json=from_json))
    monkeypatch.setitem(sys.modules, "gigatoken", package)


def encode_by_library(tokenizer_json: str, text: bytes) -> np.ndarray:
    return np.array(Tokenizer.from_str(tokenizer_json).encode(text.decode()).ids, np.uint32)


def test_long_texts_go_to_the_engine_and_short_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def encode(tokenizer_json: str, text: bytes) -> np.ndarray:
        asked.append(text)
        return encode_by_library(tokenizer_json, text)

    install(monkeypatch, encode)
    own, other = (
        SentenceTokenizer(TOKENIZER, UINT16, engine=engine) for engine in ("own", "gigatoken")
    )
    text, offsets = as_arrays(["not of the batch", *TEXTS, ""])
    for expected, ids in zip(
        own.encode(text, offsets[1:]), other.encode(text, offsets[1:]), strict=True
    ):
        assert ids.dtype == expected.dtype
        assert ids.tolist() == expected.tolist()
    assert asked == [each.encode() for each in (*TEXTS, "")]
    other.encode(*as_arrays(["short"]))
    assert len(asked) == 4


@pytest.mark.parametrize("in_text", [True, False])
def test_special_tokens_in_text_are_what_the_option_says(
    in_text: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, encode_by_library)
    own, other = (
        SentenceTokenizer(TOKENIZER, UINT16, special_tokens_in_text=in_text, engine=engine)
        for engine in ("own", "gigatoken")
    )
    text, offsets = as_arrays([TEXTS[1]])
    assert other.gigatoken is not None
    ids, _ = other.gigatoken.encode(text, offsets)
    assert ids.tolist() == own.encode(text, offsets)[0].tolist()
    special = Tokenizer.from_str(TOKENIZER).token_to_id("<|endoftext|>")
    assert ids.tolist().count(special) == (40 if in_text else 0)


def test_another_id_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, lambda _, text: np.zeros(len(text), np.uint32))
    tokenizer = SentenceTokenizer(TOKENIZER, UINT16, engine="gigatoken")
    with pytest.raises(UserError, match="other ids than the tokenizer: 'Of a beam"):
        tokenizer.encode(*as_arrays(TEXTS))


def test_what_it_does_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: bytes) -> None:
        raise ValueError("no such model")

    package = SimpleNamespace(Tokenizer=SimpleNamespace(from_json=refuse))
    monkeypatch.setitem(sys.modules, "gigatoken", package)
    with pytest.raises(UserError, match="cannot load this tokenizer"):
        SentenceTokenizer(TOKENIZER, UINT16, engine="gigatoken")
    with pytest.raises(UserError, match="no rules of words"):
        SentenceTokenizer(TOKENIZER, np.dtype(np.int16), words="unicode", engine="gigatoken")
    monkeypatch.setitem(sys.modules, "gigatoken", None)  # as if it were not installed
    with pytest.raises(UserError, match="not installed"):
        SentenceTokenizer(TOKENIZER, UINT16, engine="gigatoken")


def test_the_package_itself_gives_the_same_ids() -> None:
    pytest.importorskip("gigatoken")
    assert json.loads(TOKENIZER)["model"]["type"] == "BPE"
    own = SentenceTokenizer(TOKENIZER, UINT16)
    other = SentenceTokenizer(TOKENIZER, UINT16, engine="gigatoken")
    assert other.gigatoken is not None
    text, offsets = as_arrays([*HARD_TEXTS, *LINED_TEXTS, *TEXTS])
    ids, ends = other.gigatoken.encode(text, offsets)
    expected, expected_ends = own.encode(text, offsets)
    assert ends.tolist() == expected_ends.tolist()
    assert ids.tolist() == expected.tolist()


@pytest.mark.parametrize(("sizes", "expected"), [([255], False), ([256], True), ([256, 255], False),
                                                 ([257, 255], True)])  # fmt: skip
def test_texts_of_256_bytes_on_average_are_long(sizes: list[int], expected: bool) -> None:
    assert is_worthwhile(np.cumsum([7, *sizes])) == expected
