"""Boundaries of words through the whole job, to an objective that asks for them."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console
from tokenizers import Tokenizer

from corpusmill.commands.command import Call
from corpusmill.commands.verification import verify
from corpusmill.commands.verify import Verify
from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import read_corpus
from corpusmill.errors import UserError
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from corpusmill.tokenization.words.words import load_words
from pipeline.commands.builds import make_command
from pipeline.commands.inspect_corpus import InspectCorpus
from pipeline.job_options import CorpusOptions, DatasetOptions, RunOptions
from pipeline.jobs.build import build
from pipeline.jobs.corpus_inspection import inspect_corpus
from pipeline.recipe import probe
from pipeline.recipe.build_options import Build
from tests.corpusmill.tokenization.words.test_marked_encoding import reference_marks
from tests.tools.data_files import find_files
from tests.tools.jobs import digests, read_manifest_json
from tests.tools.labelled_words import LabelledWordsOptions
from tests.tools.many_scripts import DOCUMENTS

ONE = RunOptions(workers=1, progress=False)


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The objective is known by its name, as if it were of the library."""
    own = {**OBJECTIVES._own, "labelled-words": LabelledWordsOptions}
    monkeypatch.setattr(OBJECTIVES, "_own", own)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "scripts.txt"
    documents = ["\n".join(sentences) for sentences in DOCUMENTS.values()]
    path.write_text("\n\n".join(documents * 3), encoding="utf-8")
    return path


def build_words(
    corpus: Path, tokenizer_path: Path, output: Path, words: str, run: RunOptions = ONE
) -> str:
    """Build a data set and return the output."""
    options: Any = LabelledWordsOptions(words)
    dataset = DatasetOptions(
        input=(str(corpus),), tokenizer=str(tokenizer_path), output=str(output), num_shards=3,
        seed=7,
    )  # fmt: skip
    printed = StringIO()
    documents = DocumentOptions(document_rule="blank-lines")
    make = make_command(Build, "bert")
    command = make(dataset=dataset, objective=options, documents=documents, run=run)
    build(command, Call(Console(file=printed)))
    return printed.getvalue()


def read_documents(corpus: Path) -> list[list[str]]:
    options = DocumentOptions(input_format="text", document_rule="blank-lines")
    with corpus.open("rb") as stream:
        batches = list(read_corpus(stream, FileRange(corpus.name, 0, options)))
    return [text for batch in batches for text in batch.documents.column("sentences").to_pylist()]


@pytest.mark.parametrize("words", ["unicode", "jieba"])
def test_every_document_comes_with_the_words_of_its_sentences(
    corpus: Path, tokenizer_path: Path, tokenizer: TokenizerFile, output: Path, words: str
) -> None:
    printed = build_words(corpus, tokenizer_path, output, words)
    assert "not remembered" not in printed
    rule, plain = load_words(words), Tokenizer.from_str(tokenizer.json)
    assert rule is not None
    expected = []
    for sentences in read_documents(corpus):
        marked = [
            mark for text in sentences for mark in reference_marks(plain, rule.cut(text), text)
        ]
        expected += [([entry >> 1 for entry in marked], [entry & 1 for entry in marked])] * 2
    table = pq.read_table(find_files(output, "*.parquet"))
    columns = [table.column(name).to_pylist() for name in table.column_names]
    assert sorted(zip(columns[0], columns[1], strict=True)) == sorted(expected)
    assert set(map(str, zip(columns[2], columns[3], strict=True))) <= set(map(str, expected))
    assert sum(map(sum, columns[1])) > 300
    manifest = read_manifest_json(output)
    assert manifest["tokenizer"]["words"] == str(rule)
    assert manifest["objective"]["options"]["words"] == words
    assert verify(Verify(str(output)), Call(Console(file=StringIO()))) == 0


@pytest.mark.parametrize("words", ["unicode", "jieba"])
def test_the_same_bytes_however_the_job_runs(
    corpus: Path, tokenizer_path: Path, tmp_path: Path, words: str
) -> None:
    build_words(corpus, tokenizer_path, tmp_path / "one", words)
    expected = digests(tmp_path / "one")
    ways = {
        "ranges": replace(ONE, range_bytes=3000),
    }
    if words == "unicode":
        ways["workers"] = replace(ONE, workers=2, min_bytes_per_worker=0, range_bytes=5000)
    for name, run in ways.items():
        build_words(corpus, tokenizer_path, tmp_path / name, words, run)
        assert digests(tmp_path / name) == expected, name


def test_the_memo_changes_no_byte(
    corpus: Path, tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_words(corpus, tokenizer_path, tmp_path / "memo", "unicode")
    monkeypatch.setattr("pipeline.recipe.preparation.prove_tokenizer", lambda *_: False)
    build_words(corpus, tokenizer_path, tmp_path / "plain", "unicode")
    assert digests(tmp_path / "memo") == digests(tmp_path / "plain")


def test_the_numbers_of_a_corpus_are_those_without_marks(
    corpus: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    numbers = []
    for words in ("unicode", ""):
        options: Any = LabelledWordsOptions(words)
        report = tmp_path / f"{words}.json"
        documents = DocumentOptions(document_rule="blank-lines")
        dataset = CorpusOptions(input=(str(corpus),), tokenizer=str(tokenizer_path))
        command = InspectCorpus(
            dataset=dataset, json=str(report), objective=options, documents=documents, run=ONE
        )
        inspect_corpus(command, Call(Console(file=StringIO())))
        numbers.append(json.loads(report.read_text()))
    assert numbers[0]["counts"] == numbers[1]["counts"]
    assert numbers[0]["counts"]["measure.unknown_tokens"] > 0
    assert numbers[0]["tokenizer"]["words"].startswith("unicode (regex ")


def test_an_unknown_rule_is_refused_before_any_work(
    corpus: Path, tokenizer_path: Path, output: Path
) -> None:
    cause = "it is not known, and no installed package provides it"
    with pytest.raises(UserError, match=f"--words phrases: {cause}"):
        build_words(corpus, tokenizer_path, output, "phrases")
    assert not output.exists()


def overlapping(text: str) -> list[tuple[int, int]]:
    return [(0, 2), (1, 3)] if "Naïve" in text else []


def test_a_rule_that_gives_no_words_is_refused_by_the_probe(
    corpus: Path, tokenizer_path: Path, output: Path
) -> None:
    name = f"{__name__}:overlapping"
    with pytest.raises(UserError, match=f"--words {name}: for 'Naïve cafe.*it returns"):
        build_words(corpus, tokenizer_path, output, name)
    assert not output.exists()


def test_marks_that_the_memo_gets_wrong_are_not_remembered(
    tokenizer: TokenizerFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    crossing = load_words("unicode")
    assert crossing is not None
    # Says of itself what is not so; under the name of the true rule it would be kept for others.
    crossing = replace(crossing, name="crossing", cut=lambda text: [(0, len(text))] if text else [])
    name = "corpusmill.tokenization.sentence_tokenizer.load_words"
    monkeypatch.setattr(name, lambda _: crossing)
    printed = StringIO()
    assert not probe.prove_tokenizer(tokenizer, ["a b"], Console(file=printed), crossing)
    assert printed.getvalue().startswith("the ids of words are not remembered: ")
