"""Text of many scripts: documents, ranges, sentences and token ids."""

import io
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np
import pytest
from tokenizers import Tokenizer

from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.input_formats import read_corpus
from corpusmill.corpus.options import DocumentOptions
from corpusmill.corpus.sentence_splitting import BY_LIBRARY, BY_PUNCTUATION, load_splitter
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.training.wordpiece import WordPieceOptions, train_wordpiece
from tests.tools.many_scripts import DOCUMENTS, PADDING, as_json_lines, as_lines, as_text
from tests.tools.read_content import Content
from tests.tools.tokenizer_samples import MEMOIZING, PLAIN_PATH, without_padding

SENTENCES = [sentence for sentences in DOCUMENTS.values() for sentence in sentences]
CORPORA: dict[str, tuple[Callable[[], bytes], list[list[str]]]] = {
    "text": (as_text, list(DOCUMENTS.values())),
    "lines": (as_lines, [[sentence] for sentence in SENTENCES]),
    "json-lines": (as_json_lines, list(DOCUMENTS.values())),
}
FORMATS = pytest.mark.parametrize("name", CORPORA)


def read(data: bytes, options: DocumentOptions, cuts: list[int]) -> Content:
    """Read the ranges between the cuts; nothing is rejected."""
    content = Content()
    for start, end in pairwise([0, *cuts, len(data)]):
        content.add(read_corpus(io.BytesIO(data), FileRange("f", 3, options, start, end)))
    assert not content.rejects
    return content


def options_of(name: str, language: str | None = None) -> DocumentOptions:
    rule: Literal["line", "split"] = "line" if language is None else "split"
    named = DocumentOptions(sentence_rule=rule, language=language)
    return replace(named, input_format=name)  # type: ignore[arg-type]


@FORMATS
def test_documents_and_sentences_are_those_of_the_rules(name: str) -> None:
    make, expected = CORPORA[name]
    content = read(make(), options_of(name), [])
    assert content.texts == expected
    assert content.counts.title_lines == (len(DOCUMENTS) if name == "text" else 0)
    assert content.counts.sentences == len(SENTENCES)


@FORMATS
def test_ranges_of_every_length_give_the_same(name: str) -> None:
    data, options = CORPORA[name][0](), options_of(name)
    whole = read(data, options, [])
    for length in [*range(1, 64, 3), 64]:
        assert read(data, options, list(range(length, len(data), length))) == whole, length
    draw = random.Random(5)  # noqa: S311 - not a secret
    for _ in range(30):
        assert read(data, options, sorted(draw.sample(range(len(data)), 40))) == whole


@FORMATS
@pytest.mark.parametrize("language", ["en", "zh"])
def test_ranges_give_the_same_split_sentences(name: str, language: str) -> None:
    data, options = CORPORA[name][0](), options_of(name, language)
    whole = read(data, options, [])
    assert whole.counts.sentences > len(SENTENCES)
    assert whole.counts.unsplit_lines == 0
    for length in (7, 100):
        assert read(data, options, list(range(length, len(data), length))) == whole


@pytest.mark.parametrize("padding", [space for space in PADDING if space.strip(" ")])
def test_only_an_ascii_equals_sign_makes_a_title(padding: str) -> None:
    data = f"a\n{padding}= title\nb\n{padding}＝c\n{padding}﹦d\n{padding}\ne".encode()
    assert read(data, DocumentOptions(), []).texts == [["a"], ["b", "＝c", "﹦d"], ["e"]]


@pytest.mark.parametrize("invisible", ["\u200b", "\u200d", "\u200f", "\ufeff", "\u00ad", "\u180e"])
def test_invisible_characters_other_than_white_space_are_text(invisible: str) -> None:
    content = read(f"a\n{invisible}\n{invisible}= b".encode(), DocumentOptions(), [])
    assert content.texts == [["a", invisible, f"{invisible}= b"]]
    assert content.counts.blank_lines == 0


@pytest.mark.parametrize("language", [*BY_PUNCTUATION, *BY_LIBRARY])
def test_the_rules_of_a_language_lose_no_character(language: str) -> None:
    split = load_splitter(language)
    for line in [*SENTENCES, "".join(SENTENCES), " ".join(SENTENCES)]:
        assert "".join(split(line)) == line


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
    return without_padding(train_wordpiece([SENTENCES], options))


TOKENIZERS = {
    **MEMOIZING,
    **PLAIN_PATH,
    "WordPiece of the scripts, lower-cased": trained_here(lowercase=True),
    "WordPiece of the scripts, cased": trained_here(lowercase=False),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_ids_are_those_of_the_library(name: str) -> None:
    tokenizer_json = TOKENIZERS[name]
    tokenizer = SentenceTokenizer(tokenizer_json, np.dtype(np.int16))
    library = Tokenizer.from_str(tokenizer_json)
    expected = [
        encoding.ids for encoding in library.encode_batch_fast(HARD, add_special_tokens=False)
    ]
    encoded = [sentence.encode() for sentence in HARD]
    text = np.frombuffer(b"".join(encoded), np.uint8)
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
    for _ in range(2):  # computed first, then remembered
        ids, bounds = tokenizer.encode(text, offsets)
        assert [ids[begin:end].tolist() for begin, end in pairwise(bounds)] == expected
