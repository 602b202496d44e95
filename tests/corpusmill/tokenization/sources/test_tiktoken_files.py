"""tiktoken's encodings, converted, against the tiktoken library."""

import base64
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from corpusmill.errors import UserError
from corpusmill.tokenization.sources.proof import HARD_TEXTS, find_difference, hard_texts
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile, TokenizerOptions
from tests.conftest import read_local
from tests.tools.tokenizer_samples import TEXT, byte_ranks, encode_with

tiktoken = pytest.importorskip("tiktoken")

PIECES = ("'s", "'LL", " the", "12345", "  ", "\n\n ", "<|endoftext|>", "\u00e9", "\u4e2d", "ab")
CONTENT = byte_ranks()


def read(name: str, content: bytes = CONTENT, **options: Any) -> TokenizerFile:
    contents = {name: content}
    return read_tokenizer(name, contents.get, TokenizerOptions(**options))


FILES = {
    (pattern, in_text): read("a.tiktoken", tiktoken_pattern=pattern, special_tokens_in_text=in_text)
    for pattern in ("gpt2", "r50k", "p50k", "cl100k", "o200k", r"\w+|\W")
    for in_text in (True, False)
}
ENCODE = {name: encode_with(file) for name, file in FILES.items()}


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.lists(st.sampled_from(PIECES) | st.text(max_size=8)).map("".join)))
@example(texts=[*hard_texts(["<|endoftext|>"]), *TEXT])
def test_the_ids_are_those_of_tiktoken(texts: list[str]) -> None:
    for name, file in FILES.items():
        assert file.reference is not None
        assert find_difference(ENCODE[name], file.reference, texts) is None, name


def test_the_end_of_text_is_a_special_token_if_it_occurs_in_the_text() -> None:
    file = FILES["gpt2", True]
    end = len(CONTENT.splitlines())
    assert (file.special.eos_id, file.special.all_ids, file.vocab_size) == (end, (end,), end + 1)
    assert encode_with(file)(["<|endoftext|>"]) == [[end]]
    assert end not in encode_with(FILES["gpt2", False])(["a<|endoftext|>b"])[0]
    assert FILES["gpt2", False].options == TokenizerOptions(
        tiktoken_pattern="gpt2", special_tokens_in_text=False
    )


def test_every_text_can_be_decoded() -> None:
    tokenizer = Tokenizer.from_str(FILES["o200k", True].json)
    for text in HARD_TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_the_files_name_selects_the_pattern() -> None:
    for name in ("gpt2", "r50k_base", "p50k_base", "cl100k_base", "o200k_base"):
        file = read(f"folder/{name}.tiktoken")
        assert file.options.tiktoken_pattern == name.removesuffix("_base")
        assert file.form == "tiktoken file"
    with pytest.raises(UserError, match="Give --tiktoken-pattern gpt2, r50k"):
        read("mine.tiktoken")
    with pytest.raises(UserError, match=r"cannot use it with '\[a'"):
        read("mine.tiktoken", tiktoken_pattern="[a")


def test_special_tokens_are_those_in_the_companion() -> None:
    companion = b"""{"added_tokens_decoder": {
        "900": {"content": "<|begin|>", "special": true}, "907": {"content": "<|end_of_text|>"}}}"""
    contents = {"m/tokenizer.model": CONTENT, "m/tokenizer_config.json": companion}
    options = TokenizerOptions(tiktoken_pattern="cl100k", special_tokens_in_text=True)
    file = read_tokenizer("m", contents.get, options)  # like Llama 3's
    assert file.special.all_ids == (900, 907)
    assert (file.special.eos_id, file.vocab_size) == (907, 908)
    assert encode_with(file)(["<|begin|>a"])[0][0] == 900


def test_an_empty_token_is_ignored() -> None:
    # Whisper's multilingual.tiktoken ends with one.
    end = len(CONTENT.splitlines())
    file = read("gpt2.tiktoken", CONTENT + f"= {end}\n".encode())
    assert file.special.eos_id == end + 1
    assert file.reference is not None
    assert find_difference(encode_with(file), file.reference, list(HARD_TEXTS)) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"IQ== 0\nhello\n", "line 2 is not a token"),
        (b"IQ== 0\n", "lacks 255 of the 256 single bytes"),
        (CONTENT + base64.b64encode(b"zzzz") + b" 7\n", "the same rank"),
    ],
)
def test_damaged_files_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read("gpt2.tiktoken", content)


@pytest.fixture
def small_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's own patterns and special tokens, with few ranks and without a network."""
    lines = [line.split() for line in CONTENT.splitlines()]
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    for loader in ("load_tiktoken_bpe", "data_gym_to_mergeable_bpe_ranks"):
        monkeypatch.setattr(f"tiktoken_ext.openai_public.{loader}", lambda *_, **__: ranks)
    monkeypatch.setattr("tiktoken.core.Encoding.__init__", without_count(tiktoken.Encoding))
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})


def without_count(encoding: Any) -> Any:
    construct = encoding.__init__

    def construct_without(self: Any, name: str, **parts: Any) -> None:
        construct(self, name, **{**parts, "explicit_n_vocab": None})

    return construct_without


@pytest.mark.usefixtures("small_ranks")
@pytest.mark.parametrize("name", [*tiktoken.list_encoding_names(), "gpt-4", "davinci"])
def test_encodings_of_the_library_are_known_by_name_and_model(name: str) -> None:
    file = read_tokenizer(f"tiktoken:{name}", read_local)
    assert file.form == "encoding of the tiktoken library"
    assert file.special.eos_id is not None
    assert file.vocab_size > file.special.eos_id >= 50256
    assert file.reference is not None
    texts = [*hard_texts(["<|endoftext|>", "<|fim_middle|>"]), *TEXT]
    assert find_difference(encode_with(file), file.reference, texts) is None


def test_a_token_without_merges_is_used_for_a_whole_piece() -> None:
    content = CONTENT + base64.b64encode(b"qxzj") + f" {len(CONTENT.splitlines())}\n".encode()
    file = read("mine.tiktoken", content, tiktoken_pattern=r"\w+|\W")
    assert file.reference is not None
    assert encode_with(file)(["qxzj"]) == [[len(CONTENT.splitlines())]]
    assert find_difference(encode_with(file), file.reference, ["qxzj a", "aqxzj"]) is None


def test_unknown_names_and_what_cannot_be_downloaded_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="Give one of gpt2, r50k_base"):
        read_tokenizer("tiktoken:gpt9", read_local)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    with pytest.raises(UserError, match="TIKTOKEN_CACHE_DIR"):
        read_tokenizer("tiktoken:r50k_base", read_local)


def test_without_the_library_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    for name in ("tiktoken:gpt2", "gpt2.tiktoken"):
        with pytest.raises(UserError, match=r"pip install 'corpusmill\[tokenizers\]'"):
            read(name)
