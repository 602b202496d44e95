"""Documents that share a run of words with passages."""

import unicodedata
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.corpus.batches import TEXT_SCHEMA
from corpusmill.corpus.filters.overlaps import (
    FEWEST_WORDS,
    RUN_WORDS,
    Passages,
    hash_words,
    list_characters,
    load_overlaps,
)
from corpusmill.errors import UserError
from tests.tools.many_scripts import DOCUMENTS


def hashes_of(text: str) -> list[int]:
    data = np.frombuffer(text.encode(), np.uint8)
    hashes: list[int] = hash_words(data, list_characters()).tolist()
    return hashes


def words_of(text: str) -> list[str]:
    """The words of a text without characters that are words of their own."""
    kept = (one for one in text if one.isspace() or unicodedata.category(one)[0] in "LMN")
    return "".join(one.lower() for one in kept).split()


def drop(passages: list[str], texts: list[str]) -> list[bool]:
    documents = pa.RecordBatch.from_pydict(
        {"document": range(len(texts)), "sentences": [text.split("\n") for text in texts]},
        schema=TEXT_SCHEMA,
    )
    reasons = load_overlaps(Passages.from_texts(passages).encode())(documents, "")
    assert set(reasons) <= {"", "overlap"}
    return [bool(reason) for reason in reasons]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""), (" \n", ""), ("Hello,  World!", "hello world"), ("don't", "dont"),
        ("A\u00a0b\tc\nd", "a b c d"), ("\u00c9COLE 3.14", "\u00e9cole 314"), ("... \u2014 a", "a"),
        ("\u041c\u0418\u0420 \u0394", "\u043c\u0438\u0440 \u03b4"),
        ("\u4e2d\u56fd abc\u5b66", "\u4e2d \u56fd abc \u5b66"), ("\u30ab\u30bf", "\u30ab \u30bf"),
        ("\u0e44\u0e17\u0e22", "\u0e44 \u0e17 \u0e22"),
        ("\U0001f600 a \U00020000b", "a \U00020000 b"),
    ],
)  # fmt: skip
def test_words_are_compared_without_case_and_punctuation(text: str, words: str) -> None:
    assert hashes_of(text) == list(chain.from_iterable(hashes_of(one) for one in words.split()))
    assert len(hashes_of(text)) == len(words.split())


def test_different_words_have_different_hashes() -> None:
    text = "\n".join(line for lines in DOCUMENTS.values() for line in lines)
    characters = list_characters()
    plain = [
        word
        for word in words_of(text)
        if not any(characters[ord(one)] >= 2**31 for one in word) and word.isascii()
    ]
    assert len(plain) > 30
    hashes = [hashes_of(word) for word in plain]
    assert {len(one) for one in hashes} == {1}
    assert len(set(map(tuple, hashes))) == len(set(plain))


WORDS = st.lists(st.sampled_from(["a", "b"]), max_size=40)


@given(st.lists(WORDS, min_size=1, max_size=4), st.lists(WORDS, max_size=4), st.data())
def test_a_document_is_dropped_if_it_shares_a_run(
    passages: list[list[str]], others: list[list[str]], data: st.DataObject
) -> None:
    planted = data.draw(st.sampled_from(passages))
    begin, end = sorted(data.draw(st.tuples(*[st.integers(0, len(planted))] * 2)))
    documents = [*others, *(["c", *planted[begin:end], *one] for one in others)]
    texts = [" ".join(words) for words in passages]
    if all(len(words) < FEWEST_WORDS for words in passages):
        with pytest.raises(UserError, match="none of its"):
            drop(texts, [])
        return
    runs = {
        tuple(words[place : place + RUN_WORDS])
        for words in passages
        for place in range(max(1, len(words) - RUN_WORDS + 1))
        if len(words) >= FEWEST_WORDS
    }
    expected = [
        any(
            tuple(words[place : place + length]) in runs
            for length in range(FEWEST_WORDS, RUN_WORDS + 1)
            for place in range(len(words) - length + 1)
        )
        for words in documents
    ]
    assert drop(texts, [" ".join(words) for words in documents]) == expected


def test_a_run_goes_on_over_lines_and_ends_with_its_document() -> None:
    words = [f"word{number}" for number in range(13)]
    begin, end = " ".join(words[:6]), " ".join(words[6:])
    texts = [f"x {begin}\n{end}!", begin, end, f"{begin} x {end}"]
    assert drop([" ".join(words).upper()], texts) == [True, False, False, False]


def test_passages_are_counted_and_limited() -> None:
    long = " ".join(map(str, range(30)))
    passages = Passages.from_texts([long, "a b c", "1 2 3 4 5 6 7 8", long], most=19)
    assert (passages.compared, passages.ignored, len(passages.runs)) == (3, 1, 19)
    assert passages.lengths.tolist() == [8, 13]
    with pytest.raises(UserError, match="more than 18 different runs of 13 words"):
        Passages.from_texts([long, "1 2 3 4 5 6 7 8"], most=18)
