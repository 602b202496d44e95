"""Whole words: the ids of seed 004's own code, which is the reference here."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from corpusmill.errors import UserError
from corpusmill.tokenization.training.models import WordLevelOptions
from tests.tools.tokenizer_samples import TEXT
from tests.tools.training import train

UNKNOWN = "<u>"
MARKED = [*TEXT, "a_b (c) 'd' \"e\"! f?g\x1ch\x85i\u3000j -- k|l;m", "it's <unk> , 3.14"]


def reference_tokens(text: str) -> list[str]:
    split = re.split(r'([,.?_!"()\']|\s)', text)
    return [item for item in split if item.strip()]


class ReferenceTokenizer:
    """Seed 004's class."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self.str_to_int = vocabulary
        self.int_to_str = list(vocabulary.keys())

    def encode(self, text: str) -> list[int]:
        known = [item if item in self.str_to_int else "<|unk|>" for item in reference_tokens(text)]
        return [self.str_to_int[item] for item in known]

    def decode(self, ids: list[int]) -> str:
        text = " ".join([self.int_to_str[number] for number in ids])
        return re.sub(r'\s+([,.?!"()\'])', r"\1", text)


def reference(text: str) -> ReferenceTokenizer:
    tokens = sorted(set(reference_tokens(text)))
    vocabulary = {token: place for place, token in enumerate(tokens)}
    vocabulary.update({"<|unk|>": len(vocabulary), "<|endoftext|>": len(vocabulary) + 1})
    return ReferenceTokenizer(vocabulary)


def trained(text: list[str], options: WordLevelOptions | None = None) -> Tokenizer:
    return Tokenizer.from_str(train([text], options or WordLevelOptions()))


def test_the_vocabulary_is_the_seeds() -> None:
    expected = reference(" \n".join(MARKED)).str_to_int
    assert trained(MARKED).get_vocab() == expected


def test_the_seeds_own_example() -> None:
    tokenizer = trained(["Hello, world. This, is a test."])
    ids = tokenizer.encode("Hello world. <|endoftext|> This is a test dataset.").ids
    assert ids == [2, 7, 1, 9, 3, 5, 4, 6, 8, 1]
    decoded = tokenizer.decode(ids, skip_special_tokens=False)
    assert decoded == "Hello world. <|endoftext|> This is a test <|unk|>."


def test_the_sample_gives_the_seeds_vocabulary_ids_and_text(sample: Path) -> None:
    text = sample.read_text("utf-8")
    expected = reference(text)
    tokenizer = trained(text.split("\n"))
    assert tokenizer.get_vocab() == expected.str_to_int
    ids = tokenizer.encode(text).ids
    assert ids == expected.encode(text)
    assert tokenizer.decode(ids, skip_special_tokens=False) == expected.decode(ids)


@given(
    st.text(alphabet=st.sampled_from("abé_,.'\"()!?|- \t\n\x1c\x1f\x85\u3000\u200b東"), max_size=40)
)
def test_any_text_gives_the_seeds_ids_and_text(text: str) -> None:
    known = "a b é 東 _ , ' ( ab"
    expected, tokenizer = reference(known), trained([known])
    ids = tokenizer.encode(text).ids
    assert ids == expected.encode(text)
    assert tokenizer.decode(ids, skip_special_tokens=False) == expected.decode(ids)


def test_the_most_frequent_words_stay_and_ties_are_broken_by_the_word() -> None:
    text = ["d d d c a b b"]
    kept = trained(text, WordLevelOptions(vocab_size=5)).get_vocab()
    assert kept == {"a": 0, "b": 1, "d": 2, "<|unk|>": 3, "<|endoftext|>": 4}
    kept = trained(text, WordLevelOptions(min_frequency=2)).get_vocab()
    assert kept == {"b": 0, "d": 1, "<|unk|>": 2, "<|endoftext|>": 3}


def test_special_tokens_in_the_text_are_not_words() -> None:
    options = WordLevelOptions(special_tokens=("<pad>", UNKNOWN), unk_token=UNKNOWN)
    tokenizer = trained(["a <pad> b"], options)
    assert tokenizer.get_vocab() == {"a": 0, "b": 1, "<pad>": 2, UNKNOWN: 3}
    assert tokenizer.encode("a c<pad>").ids == [0, 3, 2]


def test_normalizers_are_applied_first() -> None:
    options = WordLevelOptions(normalizers=("nfkc", "lowercase", "strip-accents"))
    words = set(trained(["Café ﬁne \uff21 각"], options).get_vocab())
    assert words == {"cafe", "fine", "a", "각", "<|unk|>", "<|endoftext|>"}


def test_a_text_without_frequent_words_is_refused() -> None:
    with pytest.raises(UserError, match="--min-frequency 9: no word occurs this often"):
        trained(["a b"], WordLevelOptions(min_frequency=9))
