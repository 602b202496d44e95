"""vocab.json with merges.txt against the tokenizers library; options of a vocab.txt."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import ByteLevelBPETokenizer

from corpusmill.errors import UserError
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.sources.proof import HARD_TEXTS
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile, TokenizerOptions
from tests.conftest import read_local
from tests.tools.token_rows import encoded_rows
from tests.tools.tokenizer_samples import TEXT, byte_level, encode_with

MODEL = json.loads(byte_level())["model"]
VOCAB = json.dumps(MODEL["vocab"]).encode()
MERGES = "\n".join(["#version: 0.2", *map(" ".join, MODEL["merges"])]).encode()
FILES = {"m/vocab.json": VOCAB, "m/merges.txt": MERGES}


def read(
    path: str = "m/vocab.json", options: TokenizerOptions | None = None, **beside: Any
) -> TokenizerFile:
    contents = {f"m/{name}.json": json.dumps(content).encode() for name, content in beside.items()}
    return read_tokenizer(path, {**FILES, **contents}.get, options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("m")
    for name, content in FILES.items():
        (folder / Path(name).name).write_bytes(content)
    return folder


@pytest.mark.parametrize("spaced", [False, True])
@settings(max_examples=30, deadline=None)
@given(texts=st.lists(st.text(max_size=20)))
def test_the_ids_are_those_of_the_library(folder: Path, spaced: bool, texts: list[str]) -> None:
    library = ByteLevelBPETokenizer.from_file(
        str(folder / "vocab.json"), str(folder / "merges.txt"), add_prefix_space=spaced
    )
    file = read(tokenizer_config={"add_prefix_space": spaced}) if spaced else read()
    texts = [*texts, *HARD_TEXTS, *TEXT]
    expected = [library.encode(text, add_special_tokens=False).ids for text in texts]
    assert encode_with(file)(texts) == expected


def test_each_of_its_paths_gives_the_same_tokenizer(folder: Path) -> None:
    files = [read(path) for path in ("m/vocab.json", "m/merges.txt", "m", "m/")]
    files.append(read_tokenizer(str(folder), read_local))
    assert {file.json for file in files} == {files[0].json}
    assert files[0].form == "vocab.json with merges.txt"
    # Like save_model with a prefix.
    prefixed = {"m/a-vocab.json": VOCAB, "m/a-merges.txt": MERGES}
    assert read_tokenizer("m/a-vocab.json", prefixed.get).json == files[0].json
    # Like files that an editor has saved with a byte order mark.
    marked = {path: b"\xef\xbb\xbf" + content for path, content in FILES.items()}
    assert read_tokenizer("m", marked.get).json == files[0].json


def test_a_folders_tokenizer_json_comes_first() -> None:
    contents = {**FILES, "m/tokenizer.json": byte_level().encode()}
    assert read_tokenizer("m", contents.get).form == "tokenizer.json"


def test_special_tokens_of_the_vocabulary_are_found_by_their_usual_names() -> None:
    file = read()
    assert (file.special.cls_id, file.special.sep_id, file.special.eos_id) == (0, 1, 1)
    assert len(encode_with(file)(["<s>"])[0]) > 1
    as_ids = read(options=TokenizerOptions(special_tokens_in_text=True))
    assert encode_with(as_ids)(["<s>"]) == [[0]]


def test_the_files_beside_it_name_special_and_added_tokens() -> None:
    size = len(MODEL["vocab"])
    file = read(
        options=TokenizerOptions(special_tokens_in_text=True),
        added_tokens={"<later>": size + 1, "<first>": size},
        special_tokens_map={
            "mask_token": {"content": "<mask>", "lstrip": True}, "eos_token": "<s>",
        },
        tokenizer_config={"additional_special_tokens": ["<more>"]},
    )  # fmt: skip
    assert file.special.mask_id in {size + 2, size + 3}
    assert file.special.eos_id == 0
    assert size not in file.special.all_ids
    assert encode_with(file)(["<first>  <mask><later>"]) == [[size, file.special.mask_id, size + 1]]
    described = {str(size): {"content": "<x>", "special": True}}
    file = read(tokenizer_config={"added_tokens_decoder": described, "pad_token": "<x>"})
    assert (file.special.pad_id, file.special.all_ids) == (size, (size,))


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"m/merges.txt": None}, "there is no m/merges.txt beside it"),
        ({"m/merges.txt": b"#version: 0.2\nzz yy\n"}, "does not fit the merges.txt"),
        ({"m/merges.txt": b"\xff\xfe"}, "not UTF-8"),
        ({"m/vocab.json": b'{"a</w>": 0}'}, "as CLIP and GPT-1 do"),
        ({"m/vocab.json": b'{"a": 0}'}, "lacks 255 of the 256 bytes"),
        ({"m/vocab.json": b"{}"}, "does not describe a tokenizer"),
        ({"m/added_tokens.json": b'{"<far>": 90000}'}, "the id 90000"),
    ],
)
def test_other_vocabularies_are_refused(contents: dict[str, bytes | None], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_tokenizer("m/vocab.json", {**FILES, **contents}.get)


LOWER = "\n".join(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cafe", "caf\u00e9"]
).encode()


@pytest.mark.parametrize(
    ("options", "ids", "chosen"),
    [
        ({}, [5, 6], (True, None)),
        ({"lowercase": False}, [1, 7], (False, None)),
        ({"strip_accents": False}, [5, 7], (True, False)),
        ({"lowercase": False, "strip_accents": True}, [1, 6], (False, True)),
    ],
)
def test_options_decide_about_a_vocab_txt(
    options: dict[str, Any], ids: list[int], chosen: tuple[bool, bool | None]
) -> None:
    beside = b'{"do_lower_case": true}'
    contents = {"m/vocab.txt": LOWER, "m/tokenizer_config.json": beside}
    file = read_tokenizer("m", contents.get, TokenizerOptions(**options))
    assert encode_with(file)(["The caf\u00e9"]) == [ids]
    assert (file.options.lowercase, file.options.strip_accents) == chosen


def test_a_word_of_a_vocab_txt_may_be_as_long_as_in_googles_tokenizer() -> None:
    file = read_tokenizer("vocab.txt", {"vocab.txt": LOWER + b"\nx\n##x"}.get)
    words = ["x" * 100, "x" * 101, "x" * 200, "x" * 201]
    expected = [[8] + [9] * (len(word) - 1) for word in words[:3]] + [[1]]
    assert encode_with(file)(words) == expected
    assert encoded_rows(SentenceTokenizer(file.json, file.token_dtype), words) == expected


@pytest.mark.parametrize("in_text", [True, False])
def test_a_special_token_that_occurs_in_the_text(in_text: bool) -> None:
    options = TokenizerOptions(special_tokens_in_text=in_text)
    file = read_tokenizer("vocab.txt", {"vocab.txt": LOWER}.get, options)
    assert encode_with(file)(["the [SEP]"]) == [[5, 3] if in_text else [5, 1, 1, 1]]


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("m", {"lowercase": True}, "--lowercase True: it is for a vocab.txt or .model"),
        ("m", {"tiktoken_pattern": "gpt2"}, "--tiktoken-pattern gpt2: it is for a tiktoken file"),
        ("t.json", {"strip_accents": False}, "--strip-accents False.*t.json is a tokenizer.json"),
        ("vocab.txt", {"tiktoken_pattern": "gpt2"}, "t.*vocab.txt is a vocab.txt"),
        ("tiktoken:gpt2", {"lowercase": False}, "encoding of the tiktoken library"),
        ("a.tiktoken", {"lowercase": False}, "is a tiktoken file"),
        ("a.model", {"tiktoken_pattern": "gpt2"}, "is a SentencePiece model"),
    ],
)
def test_options_that_do_not_apply_are_refused(
    path: str, options: dict[str, Any], message: str
) -> None:
    contents = {**FILES, "vocab.txt": LOWER, "t.json": byte_level().encode(),
                "a.tiktoken": b"IQ== 0\n", "a.model": b"\n\x0e"}  # fmt: skip
    with pytest.raises(UserError, match=message):
        read_tokenizer(path, contents.get, TokenizerOptions(**options))


def test_an_empty_pattern_is_refused() -> None:
    with pytest.raises(UserError, match="it is empty"):
        TokenizerOptions(tiktoken_pattern=" ")
