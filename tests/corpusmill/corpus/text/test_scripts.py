"""Text of many scripts: documents, ranges, sentences and token ids."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from tokenizers import Tokenizer

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.training.models import WordPieceOptions
from tests.tools.lazily import Lazily
from tests.tools.many_scripts import DOCUMENTS, PADDING, as_json_lines, as_lines, as_text
from tests.tools.read_content import read_ranges
from tests.tools.token_rows import encoded_rows, plain_rows
from tests.tools.tokenizer_samples import MEMOIZING, PLAIN_PATH, without_padding
from tests.tools.training import train

SENTENCES = [sentence for sentences in DOCUMENTS.values() for sentence in sentences]
CORPORA: dict[str, tuple[Callable[[], bytes], list[list[str]]]] = {
    "text": (as_text, list(DOCUMENTS.values())),
    "lines": (as_lines, [[sentence] for sentence in SENTENCES]),
    "json-lines": (as_json_lines, list(DOCUMENTS.values())),
}
FORMATS = pytest.mark.parametrize("name", CORPORA)


def options_of(name: str, language: str | None = None) -> DocumentOptions:
    rule: Literal["line", "split"] = "line" if language is None else "split"
    named = DocumentOptions(sentence_rule=rule, language=language)
    return replace(named, input_format=name)


@FORMATS
def test_documents_and_sentences_are_those_of_the_rules(name: str) -> None:
    make, expected = CORPORA[name]
    content = read_ranges(make(), options_of(name))
    assert (content.texts, content.rejects) == (expected, [])
    assert content.counts.title_lines == (len(DOCUMENTS) if name == "text" else 0)
    assert content.counts.sentences == len(SENTENCES)


@FORMATS
def test_ranges_of_every_length_give_the_same(name: str) -> None:
    data, options = CORPORA[name][0](), options_of(name)
    whole = read_ranges(data, options)
    for length in (5, 13, 37, 64):
        assert read_ranges(data, options, range(length, len(data), length)) == whole, length
    draw = random.Random(5)  # noqa: S311 - not a secret
    for _ in range(4):
        assert read_ranges(data, options, draw.sample(range(len(data)), 40)) == whole


@FORMATS
@pytest.mark.parametrize("language", ["en", "zh"])
def test_ranges_give_the_same_split_sentences(name: str, language: str) -> None:
    data, options = CORPORA[name][0](), options_of(name, language)
    whole = read_ranges(data, options)
    assert whole.counts.sentences > len(SENTENCES)
    assert whole.counts.unsplit_lines == 0
    for length in (7, 100):
        assert read_ranges(data, options, range(length, len(data), length)) == whole


@pytest.mark.parametrize("padding", [space for space in PADDING if space.strip(" ")])
def test_only_an_ascii_equals_sign_makes_a_title(padding: str) -> None:
    data = f"a\n{padding}= title\nb\n{padding}＝c\n{padding}﹦d\n{padding}\ne".encode()
    assert read_ranges(data, DocumentOptions()).texts == [["a"], ["b", "＝c", "﹦d"], ["e"]]


@pytest.mark.parametrize("invisible", ["\u200b", "\u200d", "\u200f", "\ufeff", "\u00ad", "\u180e"])
def test_invisible_characters_other_than_white_space_are_text(invisible: str) -> None:
    content = read_ranges(f"a\n{invisible}\n{invisible}= b".encode(), DocumentOptions())
    assert content.texts == [["a", invisible, f"{invisible}= b"]]
    assert content.counts.blank_lines == 0


# The characters alone, and next to others, show what a tokenizer makes of each of them.
CHARACTERS = sorted(set("".join(SENTENCES)) | set("".join(PADDING)))
HARD = [
    *SENTENCES,
    *CHARACTERS,
    " ".join(CHARACTERS),
    "".join(CHARACTERS),
    "".join(SENTENCES),
    " ".join(SENTENCES),
    *(sentence.upper() for sentence in SENTENCES),
    *(sentence.replace(" ", "\u3000") for sentence in SENTENCES),
]


def trained_here(*, lowercase: bool) -> str:
    """Train a WordPiece tokenizer that knows the characters and some words of the scripts."""
    options = WordPieceOptions(vocab_size=2000, min_frequency=1, lowercase=lowercase)
    return without_padding(train([SENTENCES], options))


TRAINED_HERE = {
    "WordPiece of the scripts, lower-cased": True,
    "WordPiece of the scripts, cased": False,
}
TOKENIZERS = (
    MEMOIZING
    | PLAIN_PATH
    | Lazily(TRAINED_HERE, lambda name: trained_here(lowercase=TRAINED_HERE[name]))
)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_ids_are_those_of_the_library(name: str) -> None:
    tokenizer_json = TOKENIZERS[name]
    tokenizer = SentenceTokenizer(tokenizer_json, np.dtype(np.int16))
    expected = plain_rows(Tokenizer.from_str(tokenizer_json), HARD)
    for _ in range(2):  # computed first, then remembered
        assert encoded_rows(tokenizer, HARD) == expected
