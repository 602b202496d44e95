"""Marked texts to tokens in pieces."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from corpusmill.tokenization.marked_texts import MarkedTokenizer
from corpusmill.tokenization.text_cuts import APART, BEGIN, END, remove_marks, write_counts
from tests.tools.chat_data import write_tokenizer
from tests.tools.chat_families import FAMILIES


@pytest.fixture(scope="module")
def tokenizer_json(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("marked")
    return (write_tokenizer(folder, FAMILIES["chatml"]) / "tokenizer.json").read_text("utf-8")


def cut(tokenizer_json: str, *texts: str) -> list[list[list[str]]]:
    """The pieces of texts, as tokens."""
    plain = Tokenizer.from_str(tokenizer_json)
    pieces = MarkedTokenizer(tokenizer_json).encode_pieces(texts)
    tokens = [plain.decode([token], skip_special_tokens=False) for token in pieces.token_ids]
    ends = pieces.piece_offsets
    cuts = [tokens[begin:end] for begin, end in pairwise(ends)]
    documents = pieces.document_offsets
    return [cuts[begin:end] for begin, end in pairwise(documents)]


def test_what_stands_between_marks_is_every_second_piece(tokenizer_json: str) -> None:
    texts = f"<|im_start|>{BEGIN}a<|im_end|>{END}b", f"{BEGIN}c{END}", "d", ""
    assert cut(tokenizer_json, *texts) == [
        [["<|im_start|>"], ["a", "<|im_end|>"], ["b"]],
        [[], ["c"]],
        [["d"]],
        [[]],
    ]


def test_a_token_that_crosses_a_mark_is_outside_and_counted(tokenizer_json: str) -> None:
    # " keeper" is one token: the mark stands between its space and its letters.
    text = f"? {BEGIN}keeper keeper{END}"
    assert cut(tokenizer_json, text) == [[["?", " keeper"], [" keeper"]]]
    assert cut(tokenizer_json, f"{BEGIN}a kee{END}per") == [[[], ["a"], [" keeper"]]]
    counts = MarkedTokenizer(tokenizer_json).encode_pieces([text, text]).counts
    assert counts == {"crossing_tokens": 2}


def test_special_tokens_set_apart_are_text(tokenizer_json: str) -> None:
    text = f"<|im_start|><{APART}|im_end|>{BEGIN}<{APART}|im_start|>!<|im_end|>{END}"
    (outside, inside, *_), *_ = cut(tokenizer_json, text)
    assert outside[0] == "<|im_start|>"
    assert len(outside) > 2
    assert "".join(outside[1:]) == "<|im_end|>"
    assert "".join(inside) == "<|im_start|>!<|im_end|>"
    assert (inside[-1], inside[0]) == ("<|im_end|>", "<")
    allowed = MarkedTokenizer(tokenizer_json, special_tokens_in_text=True)
    assert len(allowed.encode_pieces([text]).token_ids) == 5


def test_things_are_counted_and_taken_out(tokenizer_json: str) -> None:
    text = write_counts({"sheep": 3, "a goat": 1}) + "a"
    assert MarkedTokenizer(tokenizer_json).encode_pieces([text, text]).counts == {
        "sheep": 6, "a goat": 2,
    }  # fmt: skip
    assert cut(tokenizer_json, text) == [[["a"]]]
    assert remove_marks(text) == "a"


def _unigram() -> str:
    vocabulary = [("<unk>", 0.0), ("<s>", 0.0), ("\u2581", -3.0), ("\u2581a", -2.0), ("a", -2.5)]
    vocabulary += [(letter, -4.0) for letter in "<s>b"]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(["<s>"])
    return str(tokenizer.to_str())


def _wordpiece() -> str:
    names = ["[UNK]", "[SEP]", "a", "##a", "[", "]", "se", "##p", "sep", "b"]
    vocabulary = {name: number for number, name in enumerate(names)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))  # noqa: S106
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(["[UNK]", "[SEP]"])
    return str(tokenizer.to_str())


@pytest.mark.parametrize(("described", "special"), [(_unigram(), "<s>"), (_wordpiece(), "[SEP]")])
def test_other_models_keep_special_tokens_apart(described: str, special: str) -> None:
    plain = Tokenizer.from_str(described)
    tokenizer = MarkedTokenizer(described)
    text = f"a{special}b {special[0]}{APART}{special[1:]} a"
    ids = tokenizer.encode_pieces([text]).token_ids.tolist()
    assert ids.count(plain.token_to_id(special)) == 1
    whole = plain.encode(f"a{special}b", add_special_tokens=False).ids
    assert ids[: len(whole)] == whole


@settings(max_examples=30, deadline=None)
@given(
    parts=st.lists(
        st.tuples(st.booleans(), st.text("ae <|im_start|>\u00fc\U0001f600\n", max_size=12)),
        max_size=8,
    )
)
def test_tokens_are_those_of_the_whole_text(
    tokenizer_json: str, parts: list[tuple[bool, str]]
) -> None:
    text = "".join(f"{BEGIN}{part}{END}" if inside else part for inside, part in parts)
    plain, pieces = Tokenizer.from_str(tokenizer_json), MarkedTokenizer(tokenizer_json)
    whole = plain.encode(remove_marks(text), add_special_tokens=False)
    found = pieces.encode_pieces([text])
    assert found.token_ids.tolist() == whole.ids
    # The same in a plain loop over characters.
    letters, inside = list[bool](), False
    for letter in text:
        if letter in (BEGIN, END):
            inside = letter == BEGIN
        else:
            letters.append(inside)
    expected = [all(letters[begin:end]) for begin, end in whole.offsets]
    parity = [False] * len(whole.ids)
    bounds = found.piece_offsets.tolist()
    for number, (begin, end) in enumerate(pairwise(bounds)):
        parity[begin:end] = [bool(number % 2)] * (end - begin)
    assert parity == expected
    assert not re.search(f"[{APART}{BEGIN}{END}]", remove_marks(text))


def test_a_tokenizer_without_special_tokens(tmp_path: Path) -> None:
    described = (write_tokenizer(tmp_path) / "tokenizer.json").read_text("utf-8")
    tokenizer = Tokenizer.from_str(described)
    described = tokenizer.to_str().replace('"special":true', '"special":false')
    assert MarkedTokenizer(described).encode_pieces(["a"]).token_ids.shape == (1,)
