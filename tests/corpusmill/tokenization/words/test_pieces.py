"""Words by the pieces of a vocabulary: which ids continue a word, with and without a memo."""

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import Unigram

from corpusmill.errors import UserError
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.words.marked_encoding import find_continuing
from tests.tools.lazily import Lazily
from tests.tools.token_rows import encoded_rows
from tests.tools.tokenizer_samples import MEMOIZING, PLAIN_PATH, TEXT

NAMES = ("WordPiece, lower-cased", "WordPiece, cased")


def with_prefix(prefix: str) -> str:
    """A tokenizer whose pieces are marked otherwise."""
    described = json.loads(MEMOIZING["WordPiece, cased"])
    model = described["model"]
    model["continuing_subword_prefix"] = prefix
    model["vocab"] = {
        token.replace("##", prefix, 1) if token.startswith("##") else token: token_id
        for token, token_id in model["vocab"].items()
    }
    return json.dumps(described)


PREFIXES = dict.fromkeys(NAMES, "##") | {"_": "__"}
SAMPLES = Lazily(PREFIXES, lambda name: with_prefix("__") if name == "_" else MEMOIZING[name])
MARKING = Lazily(
    product(SAMPLES, (False, True)),
    lambda key: SentenceTokenizer(SAMPLES[key[0]], np.dtype(np.int16), key[1], words="wordpiece"),
)


@pytest.mark.parametrize(("name", "memoize"), MARKING)
@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.one_of(st.sampled_from(TEXT), st.text(max_size=12)), max_size=5))
def test_a_piece_continues_a_word_where_the_vocabulary_says_so(
    name: str, memoize: bool, texts: list[str]
) -> None:
    text, prefix = SAMPLES[name], PREFIXES[name]
    plain = Tokenizer.from_str(text)
    encodings = [plain.encode(text, add_special_tokens=False) for text in texts]
    expected = [
        [2 * i + token.startswith(prefix) for i, token in zip(one.ids, one.tokens, strict=True)]
        for one in encodings
    ]
    tokenizer = MARKING[name, memoize]
    assert tokenizer.memoizes == memoize
    assert encoded_rows(tokenizer, texts) == expected
    marked = np.array([entry for row in expected for entry in row], np.int16)
    unknown = sum(one.tokens.count("[UNK]") for one in encodings)
    assert tokenizer.count_unknown(marked) == unknown


def test_words_are_those_of_the_tokenizer_not_of_the_text() -> None:
    """Unicode's rule joins what BERT's tokenizer separates at signs."""
    [row] = encoded_rows(MARKING["WordPiece, lower-cased", True], ["don't"])
    assert row[0] % 2 == 0
    [other] = encoded_rows(
        SentenceTokenizer(MEMOIZING["WordPiece, lower-cased"], np.dtype(np.int16), words="unicode"),
        ["don't"],
    )
    assert [entry // 2 for entry in row] == [entry // 2 for entry in other]
    assert sum(entry % 2 == 0 for entry in row) > sum(entry % 2 == 0 for entry in other) == 1


@pytest.mark.parametrize("name", ["GPT-2", "BPE, NFKC"])
def test_a_tokenizer_without_such_pieces_is_refused(name: str) -> None:
    text = (MEMOIZING | PLAIN_PATH)[name]
    with pytest.raises(UserError, match="--words wordpiece: no piece") as refused:
        SentenceTokenizer(text, np.dtype(np.int32), words="wordpiece")
    assert "unicode" in str(refused.value)


def test_pieces_of_sentencepiece_continue_as_in_alberts_program() -> None:
    expected = {"ing": True, "s": True, "l.a.": True, "'d": False, "x2": False, ".": False}
    expected |= {"\u00e9t": False, "\u8336": False, "<b": False}
    pieces = ["\u2581walk", "[CLS]", *expected]
    tokenizer = Tokenizer(Unigram([(piece, 0.0) for piece in pieces], 0))
    tokenizer.add_special_tokens(["[CLS]"])
    found = find_continuing(tokenizer, json.loads(tokenizer.to_str())["model"])
    assert found.tolist() == [False, False, *expected.values()]


def test_ids_beyond_the_model_have_a_place() -> None:
    tokenizer = Tokenizer.from_str(MEMOIZING[NAMES[0]])
    tokenizer.add_tokens(["##added"])
    model = json.loads(tokenizer.to_str())["model"]
    continuing = find_continuing(tokenizer, model)
    assert len(continuing) == tokenizer.get_vocab_size()
    assert not continuing[-1]
