"""Running text into sentences: the rules of each language, and that nothing is lost."""

import io
import sys
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.corpus import sentence_splitting as sentences
from corpusmill.corpus.batches import TEXT_SCHEMA, DocumentBatch, FileRange, ReadCounts
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import check_start, read_corpus
from corpusmill.corpus.sentence_splitting import (
    BY_LIBRARY,
    BY_PUNCTUATION,
    WINDOW,
    load_splitter,
    split_by_punctuation,
    split_in_windows,
    split_sentences,
    splitter_of,
)
from corpusmill.errors import UserError
from tests.tools.read_content import read_ranges

SPLIT_ENGLISH = DocumentOptions(sentence_rule="split", language="en")


def batch_of(documents: list[list[str]]) -> DocumentBatch:
    columns = {"document": range(len(documents)), "sentences": documents}
    batch = pa.RecordBatch.from_pydict(columns, schema=TEXT_SCHEMA)
    return DocumentBatch(batch, (), ReadCounts(sentences=sum(map(len, documents))))


def split(line: str, language: str) -> list[str]:
    batch = split_sentences(batch_of([[line]]), language)
    [sentences] = batch.documents.column("sentences").to_pylist()
    assert isinstance(sentences, list)
    assert (batch.counts.sentences, batch.counts.unsplit_lines) == (len(sentences), 0)
    return sentences


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", ["Dr. Smith paid $3.50 to J. R. R. Jones at 5 p.m. on Jan. 3.", "Nobody cared."]),
        ("en", ['He said "Go away."', "She left...", "Really?!", "Yes."]),
        ("en", ["See https://example.org/a.b?c=1.", "Or ask.", "No full stop"]),
        ("de", ["Dr. Müller kam am 3. Oktober z. B. nach Berlin.", "„Wie geht es?“, fragte er."]),
        ("es", ["¿Cómo está el Sr. García?", "¡Muy bien!", "Vive en EE. UU. desde 1999."]),
        ("ru", ["В 1999 г. он жил в Москве.", "Где?", "А. С. Пушкин — поэт."]),
        ("hi", ["यह पहला वाक्य है।", "क्या यह दूसरा है?", "हाँ।"]),
        ("ar", ["كيف حالك؟", "أنا بخير.", "هذا كتاب، وهذا قلم!"]),
    ],
)
def test_sentences_by_the_library(language: str, expected: list[str]) -> None:
    assert split(" ".join(expected), language) == expected
    assert split("  ".join(expected), language) == expected


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("zh", ["他说：“你好！”", "然后他走了。", "为什么？！", "谁知道……", "没有人；", "完"]),
        ("zh", ["（这是真的。）", "他来了（真的吗？）。", "我们看《跑吧！孩子》好吗？", "好"]),
        (
            "zh",
            ["“好！”，他说。", "Python 3.11很快。", "见 https://a.example/b?c=1！", "好!", "好?"],
        ),
        (
            "ja",
            [
                "「行くよ。」と彼は言った。",
                "終わった。",
                "とても楽しい！",
                "税率は３．２９％です。",
            ],
        ),
        ("ja", ["彼は『走れ！』って叫んだ。", "『本当？』", "はい｡"]),
        ("yue", ["佢話：「係呀！」", "我唔知。"]),
    ],
)
def test_sentences_by_punctuation(language: str, expected: list[str]) -> None:
    assert split("".join(expected), language) == expected
    assert split("\u3000".join(expected), language) == expected


@pytest.mark.parametrize("language", ["en", "zh", "ar"])
def test_a_line_without_an_end_is_one_sentence(language: str) -> None:
    line = "words " * 30_000 + "漢字" * 1000
    assert split(line, language) == [line]


ENDS = (
    ". ",
    "! ",
    "...",
    "?\u00a0",
    "。",
    "！」",
    "…",
    "\u2028",
    "\u3000",
    "।",
    "؟ ",
    "\x85",
    "I\u00a0.",
)
TEXTS = st.lists(
    st.one_of(
        st.sampled_from([*ENDS, *'"“”«(（）《》と', "U.S.", "3.1", "A.", "1) "]),
        st.sampled_from(["one", "漢字", "हिन्दी", "عربي", "👩‍👩‍👧", "é", "e\u0301"]),
        st.sampled_from(["\u200f", "\ufeff", "．", "\x00"]),
        st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=3),
    ),
    max_size=30,
).map("".join)  # fmt: skip
LANGUAGES = st.sampled_from([*BY_PUNCTUATION, *BY_LIBRARY])


@given(TEXTS.filter(str.strip), LANGUAGES)
def test_nothing_but_white_space_at_cuts_is_lost(text: str, language: str) -> None:
    line = text.strip()
    assert "".join(load_splitter(language)(line)) == line
    end = 0
    for sentence in split(line, language):
        assert sentence == sentence.strip() != ""
        begin = line.index(sentence, end)
        assert not line[end:begin].strip()
        end = begin + len(sentence)
    assert end == len(line)


@given(TEXTS.filter(str.strip))
def test_sentences_by_punctuation_are_not_cut_again(text: str) -> None:
    for sentence in split(text.strip(), "zh"):
        assert split(sentence, "zh") == [sentence]


@given(TEXTS, st.sampled_from(["en", "de", "hi"]), st.integers(1, 40))
def test_windows_lose_no_character(text: str, language: str, window: int) -> None:
    from sentencex import segment  # noqa: PLC0415

    pieces = split_in_windows(text, lambda part: segment(language, part), window)
    assert "".join(pieces) == text
    assert "" not in pieces


def test_a_line_of_many_windows_is_split_as_a_whole_one() -> None:
    line = "Mr. Jones paid 3.14 dollars. He went home! " * (5 * WINDOW // 43)
    expected = ["Mr. Jones paid 3.14 dollars.", "He went home!"] * (5 * WINDOW // 43)
    assert split(line.strip(), "en") == expected


def test_a_sentence_longer_than_windows_stays_whole() -> None:
    long = "word " * WINDOW + "end."
    assert split(f"One. {long} Two.", "en") == ["One.", long, "Two."]


@given(
    st.lists(st.lists(TEXTS.map(str.strip).filter(bool), min_size=1, max_size=4), max_size=6),
    st.data(),
    LANGUAGES,
)
def test_slices_are_split_like_the_whole(
    documents: list[list[str]], data: st.DataObject, language: str
) -> None:
    batch = batch_of(documents)
    whole = split_sentences(batch, language).documents
    whole.validate(full=True)
    assert whole.schema == TEXT_SCHEMA
    assert whole.column("document") == batch.documents.column("document")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(documents)), max_size=3)))
    parts = [
        replace(batch, documents=batch.documents.slice(start, end - start))
        for start, end in pairwise([0, *cuts, len(documents)])
    ]
    of_parts = [split_sentences(part, language).documents for part in parts]
    assert pa.Table.from_batches(of_parts) == pa.Table.from_batches([whole])
    single = [[one for line in lines for one in split(line, language)] for lines in documents]
    assert whole.column("sentences").to_pylist() == single


def test_what_the_library_gets_wrong_stays_whole_and_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class PanicException(BaseException):
        pass

    def careless(line: str) -> list[str]:
        if line.startswith("panic"):
            raise PanicException
        return line.split(". ")

    monkeypatch.setattr(sentences, "load_splitter", lambda _: careless)
    batch = split_sentences(batch_of([["panic. Now.", "a. b", "c"]]), "en")
    assert batch.documents.column("sentences").to_pylist() == [["panic. Now.", "a. b", "c"]]
    assert (batch.counts.sentences, batch.counts.unsplit_lines) == (3, 2)


def test_an_interrupt_is_not_a_failure_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: str) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(sentences, "load_splitter", lambda _: interrupted)
    with pytest.raises(KeyboardInterrupt):
        split_sentences(batch_of([["a"]]), "en")


@pytest.mark.parametrize("language", ["xx", "EN", "", "english"])
def test_a_language_without_rules_is_refused_before_any_work(language: str) -> None:
    options = DocumentOptions(input_format="text", sentence_rule="split", language=language)
    with pytest.raises(UserError, match=rf"--language {language}: .*am, ar, .*zh"):
        check_start(io.BytesIO(b"a"), "f", options)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(UserError, match="extra 'sentences'"):
        load_splitter("en")
    assert load_splitter("zh") is split_by_punctuation


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sentence_rule": "split"}, "--sentence-rule split: it needs --language"),
        ({"language": "en"}, "--language en: .*Give --sentence-rule split"),
        ({"sentence_rule": "words"}, "words"),
    ],
)
def test_options_that_do_not_fit_are_refused(wrong: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        DocumentOptions(**wrong)  # type: ignore[arg-type]


def test_the_manifest_names_what_splits() -> None:
    assert splitter_of(None) is None
    assert splitter_of("zh") == "punctuation"
    assert splitter_of("en").startswith("sentencex 1.")  # type: ignore[union-attr]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_file_in_ranges_has_the_same_sentences_and_counts(cut: int) -> None:
    data = "One. Two.\nThree! Four\n\n= title. Yes. =\nFive é. Six?\n".encode()
    whole = read_ranges(data, SPLIT_ENGLISH)
    assert read_ranges(data, SPLIT_ENGLISH, [cut]) == whole
    assert whole.texts == [["One.", "Two.", "Three!", "Four"], ["Five é.", "Six?"]]
    counts = whole.counts
    assert (counts.sentences, counts.sentence_lines, counts.unsplit_lines) == (6, 3, 0)


def test_limits_hold_before_lines_are_split() -> None:
    options = replace(SPLIT_ENGLISH, max_document_bytes=20)
    stream = io.BytesIO(b"One. Two. Three. Four. Five.\nSix.\n")
    [batch] = read_corpus(stream, FileRange("f", 0, options))
    assert list(map(len, batch.documents.column("sentences").to_pylist())) == [5, 1]
    assert batch.counts.cut_documents == 1


@pytest.mark.parametrize(
    ("length", "windows"),
    [(WINDOW - 1, [WINDOW - 1]), (WINDOW, [WINDOW]), (WINDOW + 1, [WINDOW, 1])],
)
def test_a_line_longer_than_a_window_is_given_in_parts(length: int, windows: list[int]) -> None:
    seen: list[int] = []

    def segment(text: str) -> list[str]:
        seen.append(len(text))
        return [text]

    line = "w" * length
    assert split_in_windows(line, segment) == [line]
    assert seen == windows


@pytest.mark.parametrize(("length", "sentences"), [(63, 1), (64, 1), (65, 2)])
def test_a_title_of_up_to_64_characters_is_skipped_as_a_whole(length: int, sentences: int) -> None:
    line = f"看《{'书' * (length - 1)}！》好"
    assert len(split(line, "zh")) == sentences
