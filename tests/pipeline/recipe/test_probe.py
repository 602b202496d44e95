"""What a tokenizer is proven on, and what becomes of one that fails."""

import gzip
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from corpusmill.console.terminal import Terminal
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.errors import UserError
from corpusmill.tokenization import sentence_tokenizer
from corpusmill.tokenization.compiled.byte_level_pieces import CL100K
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.sources.proof import LINED_TEXTS
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from corpusmill.tokenization.words.words import WordRule, load_words
from pipeline.recipe.inputs import _read_passages, list_inputs, read_bytes
from pipeline.recipe.probe import prove_tokenizer, read_probe
from tests.tools.tokenizer_samples import byte_level, encode_with

TEXT = DocumentOptions(input_format="text")


def probe(folder: Path, options: DocumentOptions = TEXT) -> list[str]:
    return read_probe(list_inputs([str(folder)], str(folder.parent / "t")), options).texts


@pytest.fixture(autouse=True)
def short_probe() -> None:
    """Here a probe is as long as usual."""


def test_a_small_corpus_is_read_whole(sample: Path) -> None:
    lines = [line.strip() for line in sample.read_text().splitlines()]
    sentences = [line for line in lines if line and not line.startswith("=")]
    texts = probe(sample)
    assert 32_000 <= sum(len(text.encode()) for text in texts) < 34_000
    assert texts == sentences[: len(texts)]


@pytest.mark.parametrize("beyond", [-1, 0, 1, 256 * 2**10])
def test_a_first_record_longer_than_the_piece_is_read_in_part(tmp_path: Path, beyond: int) -> None:
    path, words = tmp_path / "books.txt", "all of a book "
    book = words * ((256 * 2**10 + beyond) // len(words))
    path.write_text(2 * f"{book:.<{256 * 2**10 + beyond - 1}}\n")
    [text, *_] = probe(path, DocumentOptions(input_format="lines"))
    assert len(text) >= 32_000
    assert book.startswith(text)


def test_a_file_that_changes_is_read_as_it_was_listed_or_named(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("a line .\nanother one .\n")
    files = list_inputs([str(corpus)], str(tmp_path))
    reads: list[Callable[[], list[str]]] = [
        lambda: read_probe(files, TEXT).texts,
        lambda: list(_read_passages(files[0], "text", [])),
    ]
    listed = [read() for read in reads]
    with corpus.open("a") as stream:
        stream.write("more of it .\n")
    assert [read() for read in reads] == listed
    corpus.write_text("a line .\n")
    for read in reads:
        with pytest.raises(UserError, match="it ends before 23 bytes"):
            read()


def test_the_size_of_documents_is_that_in_the_input(tmp_path: Path) -> None:
    (tmp_path / "tiny.txt").write_text("word\n\n" * 1000)
    (tmp_path / "long.txt").write_text(("a line of this document\n" * 10 + "\n") * 1000)
    (tmp_path / "empty.txt").write_text("\n")
    sizes = [
        read_probe(list_inputs([str(tmp_path / name)], str(tmp_path)), TEXT).document_bytes
        for name in ("tiny.txt", "long.txt", "empty.txt")
    ]
    assert sizes == [6, 241, 0]


def test_a_large_file_is_read_at_its_start_and_in_its_middle(tmp_path: Path) -> None:
    text = "".join(f"line {number:07} \u00e9\n" for number in range(400_000))
    (tmp_path / "large.txt").write_text(text)
    texts = probe(tmp_path / "large.txt")
    assert texts[0] == "line 0000000 \u00e9"
    numbers = [int(sentence.split()[1]) for sentence in texts]
    middle = next(place for place, number in enumerate(numbers) if number > 190_000)
    assert numbers[:middle] == list(range(middle))
    assert numbers[middle:] == list(range(numbers[middle], numbers[middle] + len(texts) - middle))
    assert 85_000 < sum(map(len, texts)) < 270_000


def test_up_to_eight_of_many_files_are_read_whatever_is_bad_in_them(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number:02}.jsonl").write_bytes(b'{"text": "a %d"}\n{\n\xff\n' % number)
    (folder / "00.jsonl").write_bytes(b"")
    (folder / "99.jsonl.gz").write_bytes(gzip.compress(b'{"text": "z"}\n' * 9)[:-9])
    texts = probe(folder, DocumentOptions(input_format="json-lines"))
    assert len(texts) == 8
    assert texts[0] == "a 1"
    assert all(text.startswith(("a ", "z")) for text in texts)


def test_a_line_without_an_end_and_a_document_without_one_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a" * 10**6)
    assert probe(tmp_path / "a.txt") == []
    (tmp_path / "b.txt").write_text("word\n" * 10**6)
    whole = DocumentOptions(input_format="text", document_rule="whole-file")
    assert 0 < len(probe(tmp_path / "b.txt", whole)) < 20_000


def proven(
    tokenizer: TokenizerFile, texts: list[str], words: WordRule | None = None
) -> tuple[bool, str]:
    printed = StringIO()
    return prove_tokenizer(tokenizer, texts, Terminal(file=printed), words), printed.getvalue()


def test_nothing_is_said_where_all_is_equal(tokenizer: TokenizerFile, sample: Path) -> None:
    assert proven(tokenizer, probe(sample)) == (True, "")
    converted = replace(tokenizer, reference=encode_with(tokenizer))
    assert proven(converted, probe(sample)) == (True, "")
    plain = read_tokenizer("t.json", {"t.json": byte_level().encode()}.get)
    assert proven(plain, probe(sample)) == (True, "")


def test_a_memo_that_errs_is_left_out(
    tokenizer: TokenizerFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = SentenceTokenizer.encode

    def wrong(
        self: SentenceTokenizer, text: np.ndarray, offsets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        ids, bounds = encode(self, text, offsets)
        return (ids + (b"\xc3\xbc" in text.tobytes())).astype(ids.dtype), bounds

    monkeypatch.setattr(SentenceTokenizer, "encode", wrong)
    memoize, printed = proven(tokenizer, ["\u00fcber"])
    assert not memoize
    [line] = printed.splitlines()
    assert line.startswith("the ids of words are not remembered: ")


def test_marks_that_the_memo_gets_wrong_are_not_remembered(
    tokenizer: TokenizerFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    crossing = load_words("unicode")
    assert crossing is not None
    # Says of itself what is not so; under the name of the true rule it would be kept for others.
    crossing = replace(crossing, name="crossing", cut=lambda text: [(0, len(text))] if text else [])
    monkeypatch.setattr(sentence_tokenizer, "load_words", lambda _: crossing)
    memoize, printed = proven(tokenizer, ["a b"], crossing)
    assert not memoize
    assert printed.startswith("the ids of words are not remembered: ")


def test_a_converted_tokenizer_that_errs_is_refused(tokenizer: TokenizerFile) -> None:
    def other(texts: list[str]) -> list[list[int]]:
        rows = zip(texts, encode_with(tokenizer)(texts), strict=True)
        return [[7] if text == "odd one" else ids for text, ids in rows]

    wrong = replace(tokenizer, name="a.model", reference=other)
    with pytest.raises(UserError, match=r"--tokenizer a.model: .*'odd one' gives.* and \[7\]"):
        proven(wrong, ["even one", "odd one"])


def test_the_probe_finds_special_tokens_that_are_ordinary_text(tokenizer_path: Path) -> None:
    file = read_tokenizer(str(tokenizer_path), read_bytes)
    ordinary = replace(file, options=replace(file.options, special_tokens_in_text=False))
    results = encode_with(replace(file, options=replace(file.options, special_tokens_in_text=True)))
    with pytest.raises(UserError, match="does not give the ids of its own library"):
        proven(replace(ordinary, reference=results), [])
    assert proven(ordinary, ["a [SEP] b"]) == (True, "")


def test_where_documents_are_texts_the_probe_has_texts_of_many_lines(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("def f():\n\n    return 1\n" * 2**17)
    for rule in ("whole-file", "blank-lines"):
        options = replace(TEXT, sentence_rule="document", document_rule=rule)
        texts = probe(tmp_path / "code.py", options)
        assert texts[: len(LINED_TEXTS)] == list(LINED_TEXTS)
        read = texts[len(LINED_TEXTS) :]
        assert all("\n    return 1\n" in text or rule == "blank-lines" for text in read)
        assert any("    return 1\ndef f():" in text for text in read)
        assert sum(map(len, read)) < 2**19


@pytest.fixture
def unloaded() -> Iterator[Callable[[], None]]:
    """Forgets the process' tokenizer, so that one that a test has broken does not stay."""
    forget = sentence_tokenizer.load_sentence_tokenizer.cache_clear
    yield forget
    forget()


def test_a_memo_that_is_wrong_at_line_breaks_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unloaded: Callable[[], None]
) -> None:
    (tmp_path / "a.txt").write_text("one line\n")
    options = replace(TEXT, sentence_rule="document", document_rule="whole-file")
    file = read_tokenizer("t.json", {"t.json": byte_level(CL100K).encode()}.get)
    assert proven(file, probe(tmp_path / "a.txt", options)) == (True, "")
    monkeypatch.setattr(sentence_tokenizer, "choose_line_rule", lambda _: "around-breaks")
    unloaded()
    memoize, printed = proven(file, probe(tmp_path / "a.txt", options))
    assert not memoize
    assert "the ids of words are not remembered" in printed


def split_by(pattern: str) -> TokenizerFile:
    """Make a tokenizer that splits text by a regular expression."""
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    content = tokenizer.to_str().encode()
    return read_tokenizer("t.json", lambda path: content if path == "t.json" else None)


def test_a_regular_expression_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.recipe.probe._SECONDS", 2)
    endless = split_by(r"(?:a|a){18}[^\w]")
    with pytest.raises(UserError, match="did not tokenize 1 texts of the corpus in 2 seconds"):
        prove_tokenizer(endless, ["a" * 10_000], Terminal(file=StringIO()))


def test_a_regular_expression_of_ones_own_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    prove_tokenizer(split_by(r"\w+|\W"), ["a b"], Terminal(file=StringIO()))
    monkeypatch.setattr("pipeline.recipe.probe._ENCODE", "raise ValueError('not so')")
    with pytest.raises(UserError, match=r"cannot tokenize .* \(ValueError: not so\).*'a\+'"):
        prove_tokenizer(split_by("a+"), ["a b"], Terminal(file=StringIO()))
    prove_tokenizer(split_by(CL100K), ["a b"], Terminal(file=StringIO()))
