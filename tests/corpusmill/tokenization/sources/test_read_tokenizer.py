import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from corpusmill.errors import UserError
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import SpecialTokens, TokenizerFile, find_special_tokens
from tests.tools.token_rows import as_arrays, encoded_rows, plain_rows, rows
from tests.tools.tokenizer_samples import MEMOIZING, PLAIN_PATH, TEXT, wordpiece

VOCAB = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCAB += ["the", "##s", "cafe", "caf", "##é", "A", "株"]


NO_VOCABULARY = '{"model": {"type": "BPE", "vocab": {}, "merges": []}}'
ID_TOO_LARGE = '{"model": {"type": "WordLevel", "vocab": {"a": 16777216}, "unk_token": "a"}}'
NO_UNKNOWN = '{"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "<unk>"}}'


def files(**contents: str | bytes) -> Callable[[str], bytes | None]:
    """Files by name, in which the last underscore replaces a dot."""
    named = {".".join(name.rsplit("_", 1)): content for name, content in contents.items()}
    encoded = {
        name: text.encode() if isinstance(text, str) else text for name, text in named.items()
    }
    return lambda path: encoded.get(path.removeprefix("folder/"))


def ids_of(file: TokenizerFile, *sentences: str) -> list[int]:
    tokenizer = SentenceTokenizer(file.json, file.token_dtype)
    token_ids, _ = tokenizer.encode(*as_arrays(list(sentences)))
    assert token_ids.dtype == file.token_dtype
    return [int(token) for token in token_ids]


def vocab_txt(*more: str) -> str:
    return "\n".join([*VOCAB, *more]) + "\n"


def test_padding_truncation_and_dropout_are_removed() -> None:
    tokenizer = Tokenizer.from_str(MEMOIZING["BPE"])
    tokenizer.enable_padding(length=64)
    tokenizer.enable_truncation(max_length=3)
    described = json.loads(tokenizer.to_str())
    described["model"]["dropout"] = 0.5
    file = read_tokenizer("folder/tokenizer.json", files(tokenizer_json=json.dumps(described)))
    assert file.name == "folder/tokenizer.json"
    assert file.digest == hashlib.sha256(file.json.encode()).hexdigest()
    assert SentenceTokenizer(file.json, file.token_dtype).memoizes
    expected = plain_rows(Tokenizer.from_str(MEMOIZING["BPE"]), TEXT[:2])
    assert ids_of(file, *TEXT[:2]) == [*expected[0], *expected[1]]


def test_the_vocabulary_counts_added_tokens_and_gaps() -> None:
    described = json.loads(wordpiece(lowercase=True))
    described["model"]["vocab"]["far"] = 40_000
    file = read_tokenizer("t.json", files(t_json=json.dumps(described)))
    assert file.vocab_size == 40_001
    assert ids_of(file, "far") == [40_000]
    tokenizer = Tokenizer.from_str(wordpiece(lowercase=True))
    before = tokenizer.get_vocab_size()
    tokenizer.add_tokens(["zzz"])
    assert read_tokenizer("t.json", files(t_json=tokenizer.to_str())).vocab_size == before + 1


def test_a_lower_cased_vocabulary_lower_cases_and_strips_accents() -> None:
    file = read_tokenizer("folder/vocab.txt", files(vocab_txt=vocab_txt()))
    assert ids_of(file, "The CAFÉs", "株the") == [6, 8, 7, 12, 6]
    assert file.special.all_ids == (0, 2, 3, 4, 5)
    assert file.vocab_size == 13


def test_a_vocabulary_with_upper_case_words_is_cased() -> None:
    file = read_tokenizer("folder/vocab.txt", files(vocab_txt=vocab_txt("The")))
    assert ids_of(file, "The the caféx café") == [13, 6, 2, 9, 10]


@pytest.mark.parametrize(
    ("config", "ids"),
    [
        ({"do_lower_case": True}, [6, 8]),
        ({"do_lower_case": False}, [13, 9, 10]),
        ({"do_lower_case": True, "strip_accents": False}, [6, 9, 10]),
    ],
)
def test_the_companion_decides_about_case(config: dict[str, Any], ids: list[int]) -> None:
    beside = files(vocab_txt=vocab_txt("The"), tokenizer_config_json=json.dumps(config))
    assert ids_of(read_tokenizer("folder/vocab.txt", beside), "The café") == ids


def test_windows_line_ends_and_a_byte_order_mark_do_not_matter() -> None:
    odd = b"\xef\xbb\xbf" + vocab_txt().replace("\n", "\r\n").encode()
    read = [read_tokenizer("vocab.txt", files(vocab_txt=text)) for text in (odd, vocab_txt())]
    assert read[0].json == read[1].json


@pytest.mark.parametrize(
    ("path", "contents", "message"),
    [
        ("t.json", {}, "no such file"),
        ("t.json", {"t_json": b""}, "empty"),
        ("t.json", {"t_json": b" \n"}, "empty"),
        ("t.json", {"t_json": b"[PAD]\n[UNK]\n"}, "not JSON"),
        ("t.json", {"t_json": b"\xff\xfe\x00"}, "not JSON"),
        ("t.json", {"t_json": b"[1, 2]"}, "does not describe a tokenizer"),
        ("t.json", {"t_json": b'{"do_lower_case": true}'}, "does not describe a tokenizer"),
        ("t.json", {"t_json": b'{"model": {"type": "Odd"}}'}, "cannot read it"),
        ("t.json", {"t_json": NO_VOCABULARY}, "vocabulary is empty"),
        ("t.json", {"t_json": ID_TOO_LARGE}, "largest id is 16,777,216, and ids may be up to"),
        ("t.json", {"t_json": NO_UNKNOWN}, "lacks the token for unknown words, '<unk>'"),
        ("v.txt", {"v_txt": b""}, "empty"),
        ("v.txt", {"v_txt": b"once upon\na time\n"}, r"lacks the lines \[PAD\], \[UNK\]"),
        ("v.txt", {"v_txt": vocab_txt().replace("[MASK]\n", "")}, r"lacks the lines \[MASK\]"),
        ("v.txt", {"v_txt": b"\xff\xfe"}, "not UTF-8"),
        ("folder", {"tokenizer_json": b"{}"}, "does not describe a tokenizer"),
        ("v.txt", {"v_txt": vocab_txt(), "tokenizer_config_json": b"{"}, "beside the tokenizer"),
    ],
)
def test_other_files_are_refused(path: str, contents: dict[str, str | bytes], message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        read_tokenizer(path, files(**contents))
    assert path in raised.value.value or "tokenizer_config.json" in raised.value.value


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="it is a folder"):
        read_tokenizer(
            str(tmp_path), lambda path: Path(path).read_bytes() if Path(path).exists() else None
        )


def test_roles_do_not_depend_on_places_in_the_vocabulary() -> None:
    shuffled = ["x", "[MASK]", "y", "[SEP]", "[UNK]", "[CLS]", "[PAD]"]
    special = read_tokenizer("vocab.txt", files(vocab_txt="\n".join(shuffled))).special
    assert special == SpecialTokens(
        cls_id=5, sep_id=3, mask_id=1, pad_id=6, unk_id=4, all_ids=(1, 3, 4, 5, 6)
    )


@pytest.mark.parametrize("name", PLAIN_PATH)
@settings(max_examples=30, deadline=None)
@given(sentences=st.lists(st.one_of(st.sampled_from(TEXT), st.text(max_size=12)), max_size=5))
@example(sentences=["", " ", " a  b ", "<s>film</s>", "\x00\u3000\u0301"])
def test_the_plain_path_gives_the_ids_of_the_whole_text(name: str, sentences: list[str]) -> None:
    tokenizer = SentenceTokenizer(PLAIN_PATH[name], np.dtype(np.int16), memoize=False)
    assert not tokenizer.memoizes
    text, offsets = as_arrays(["other", *sentences, "other"])
    encoded = rows(*tokenizer.encode(text, offsets[1:-1]))
    assert encoded == plain_rows(Tokenizer.from_str(PLAIN_PATH[name]), sentences)


def test_the_memo_and_special_tokens_in_the_text_can_be_left_out() -> None:
    library = Tokenizer.from_str(MEMOIZING["WordPiece, lower-cased"])
    for memoize in (True, False):
        for in_text in (True, False):
            library.encode_special_tokens = not in_text
            tokenizer = SentenceTokenizer(
                MEMOIZING["WordPiece, lower-cased"], np.dtype(np.int16),
                memoize=memoize, special_tokens_in_text=in_text,
            )  # fmt: skip
            assert tokenizer.memoizes is memoize
            [expected] = plain_rows(library, ["the [SEP] film"])
            assert (library.token_to_id("[SEP]") in expected) is in_text
            assert encoded_rows(tokenizer, ["the [SEP] film"]) == [expected]


@pytest.mark.parametrize("name", [*MEMOIZING, *PLAIN_PATH])
@pytest.mark.parametrize("memoize", [True, False])
def test_as_ordinary_text_no_special_token_becomes_its_id(name: str, memoize: bool) -> None:
    described = json.loads((MEMOIZING if name in MEMOIZING else PLAIN_PATH)[name])
    unknown = find_special_tokens(described, {}).unk_id
    special = {
        token["content"]: token["id"]
        for token in described["added_tokens"]
        if token["special"] and token["id"] != unknown
    }
    texts = [text for token in special for text in (token, f"a {token} b", f"x{token}{token}y")]
    for in_text in (True, False):
        tokenizer = SentenceTokenizer(
            json.dumps(described), np.dtype(np.int16),
            memoize=memoize, special_tokens_in_text=in_text,
        )  # fmt: skip
        for text, ids in zip(texts, encoded_rows(tokenizer, texts), strict=True):
            assert not special.keys() or bool({*special.values()} & {*ids}) is in_text, text
