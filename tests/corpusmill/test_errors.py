"""Foreign text made printable, and panics of libraries made exceptions."""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer

from corpusmill.errors import Mention, PanicError, UserError, catch_panics, option, printable
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.sources.read import read_tokenizer
from tests.conftest import CHECKOUT

TOKENIZER = json.loads((CHECKOUT / "tests" / "data" / "tokenizer.json").read_text())
# The library reads it, but cannot encode a text with it.
CUT_BY_NOTHING = TOKENIZER | {"pre_tokenizer": {"type": "FixedLength", "length": 0}}
MERGE = {"type": "BPE", "continuing_subword_prefix": "long", "vocab": {"a": 0, "b": 1, "ab": 2}}
BROKEN_MERGE = TOKENIZER | {"model": MERGE | {"merges": [["a", "b"]]}}


def test_what_could_steer_a_terminal_becomes_escapes() -> None:
    escapes = {
        "a [red]b[/] ü 株 👩\u200d💻": "a [red]b[/] ü 株 👩\u200d💻",
        "\x1b[2J": r"\u001b[2J",
        "a\nb\tc\r": r"a\nb\tc\r",
        "\x9b1m\x7f": r"\u009b1m\u007f",
        "abc\u202etxt.exe\u2066": r"abc\u202etxt.exe\u2066",
        b"caf\xe9".decode(errors="surrogateescape"): r"caf\udce9",
    }
    for text, shown in escapes.items():
        assert printable(text) == printable(shown) == shown
        assert json.loads(f'"{shown}"') == text


def as_keyword(mention: Mention) -> str:
    return f"{mention.name}={mention.literal}" if mention.literal else mention.name


def test_a_mentioned_option_is_spelled_by_what_shows_the_message() -> None:
    both = f"{option('keep_fields', ('url', 'id'))} {option('wait', False)}"
    error = UserError(both, "they are not wanted", f"Leave {option('wait')} out")
    error.add_note(f"Add {option('resume', True)}")
    assert str(error) == "--keep-fields url id --no-wait: they are not wanted. Leave --wait out."
    spelled = error.spelled(as_keyword)
    assert str(spelled) == (
        "keep_fields=('url', 'id') wait=False: they are not wanted. Leave wait out."
    )
    assert spelled.__notes__ == ["Add resume=True"]
    other = error.renamed("keep_fields", lambda words: option("suffixes", words))
    assert other.value == "--suffixes url id --no-wait"


def test_no_text_of_a_user_is_taken_for_a_mention() -> None:
    for foreign in ("\ue000", "a\ue001b", "\ue000x\ue002", "\ue002\ue000\ue001"):
        error = UserError(option("input", foreign), f"{foreign} is not there", "Name another")
        assert error.cause == f"{foreign} is not there"
        assert error.value.startswith("--input ")
        assert str(error.spelled(as_keyword)).startswith("input='")


def test_a_panic_is_caught_as_an_exception() -> None:
    with (
        pytest.raises(PanicError, match="the library failed: chunk size"),
        catch_panics("the library"),
    ):
        Tokenizer.from_str(json.dumps(CUT_BY_NOTHING)).encode("a text")
    with pytest.raises(KeyboardInterrupt), catch_panics("the library"):
        raise KeyboardInterrupt


def test_a_text_that_the_tokenizers_library_cannot_encode_is_named_as_its_fault() -> None:
    tokenizer = SentenceTokenizer(json.dumps(CUT_BY_NOTHING), np.dtype(np.uint16), memoize=False)
    with pytest.raises(UserError, match="it cannot tokenize a text of the corpus"):
        tokenizer.encode(np.frombuffer(b"a text", np.uint8), np.array([0, 6]))


DEEP = b"[" * 100_000


def test_a_damaged_tokenizer_is_refused_whatever_its_library_does() -> None:
    sound = json.dumps(TOKENIZER).encode()
    damaged: list[dict[str, bytes]] = [
        {"t.json": json.dumps(BROKEN_MERGE).encode()},
        {"t.json": DEEP},
        {"t.json": sound, "tokenizer_config.json": DEEP},
        {"t.json": sound[:5000]},
        {"t.json": json.dumps(TOKENIZER | {"added_tokens": 7}).encode()},
        {"vocab.json": b'{"a": 99999999999999999999}', "merges.txt": b"a b"},
        {"vocab.json": b'{"a": -1}', "merges.txt": b"a b"},
        {"vocab.json": b'{"a": 1}', "merges.txt": b"\xff\xfe"},
        {"m.model": b"\x0a\x03abc"},
    ]
    for files in damaged:
        with pytest.raises(UserError):
            read_tokenizer(next(iter(files)), files.get)
