"""A data set, a tokenizer and a report of a corpus, made by a Python program."""

import gc
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import corpusmill
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.errors import UserError
from corpusmill.objectives.bert import BertOptions
from pipeline.calls import fill_command
from pipeline.job_options import Build
from tests.conftest import CHECKOUT
from tests.tools.corpus_files import split_documents
from tests.tools.jobs import build as build_by_command
from tests.tools.table_rows import check_rows

SMALL: dict[str, Any] = {"max_seq_length": 64, "duplicates": 2, "num_shards": 3, "seed": 1}


@pytest.fixture(scope="session")
def texts(sample: Path) -> list[str]:
    return ["\n".join(sentences) for sentences in split_documents(sample)]


def digests(folder: Path) -> dict[str, str]:
    """The digest of each shard and companion."""
    entries = corpusmill.DataSet(folder).manifest.entries
    return {name: entry.sha256 for name, entry in entries.items() if name != "README.md"}


def state() -> tuple[Any, ...]:
    """What a call must leave as it was."""
    root, beam = logging.getLogger(), logging.getLogger("apache_beam")
    handlers = tuple(signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM))
    return handlers, list(root.handlers), list(root.filters), beam.level, gc.isenabled()


def test_a_build_from_an_iterable_is_that_from_json_lines(
    texts: list[str], tokenizer_path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "texts.jsonl"
    lines.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    build_by_command([lines], tokenizer_path, tmp_path / "command")
    capfd.readouterr()
    before, table = state(), pa.table({"text": texts, "n": range(len(texts))})
    given: dict[str, Any] = {"generator": (text for text in texts), "reader": table.to_reader()}
    for name, records in given.items():
        built = corpusmill.build("bert", records, tokenizer_path, tmp_path / name, **SMALL)
        assert digests(tmp_path / name) == digests(tmp_path / "command")
        assert (len(built), built.split) == (built.manifest.rows, "train")
        (file,) = built.manifest.corpus.files
        assert file.bytes == lines.stat().st_size
        files = (path for path in (tmp_path / name).rglob("*") if path.is_file())
        everything = [path.read_bytes() for path in files]
        assert not any(str(tmp_path).encode() in content for content in everything)
    assert state() == before
    assert capfd.readouterr().out == ""


def test_bad_records_are_counted_and_a_stopped_build_is_resumed(
    texts: list[str], tokenizer_path: Path, tmp_path: Path
) -> None:
    records = [None, 7, b"bytes", "\ud800", {"title": "no text"}, *texts[:9]]
    output = tmp_path / "out"
    with pytest.raises(UserError, match="max_rejects") as raised:
        corpusmill.build("bert", records, tokenizer_path, output, max_rejects=4, **SMALL)
    assert "the command with resume=True continues" in raised.value.__notes__[0]
    (left,) = output.glob("v1/_temporary-*")
    with pytest.raises(UserError, match=r"the input records-\w+\.jsonl is new"):
        corpusmill.build("bert", records[:-1], tokenizer_path, output, resume=True, **SMALL)
    built = corpusmill.build("bert", iter(records), tokenizer_path, output, resume=True, **SMALL)
    assert built.report(0).rejects == {
        "not-text": 3, "invalid-surrogate": 1, "missing-field": 1,
    }  # fmt: skip
    assert built.verify() == []
    assert not left.exists()
    corpusmill.build("bert", iter(records), tokenizer_path, tmp_path / "whole", **SMALL)
    assert digests(output) == digests(tmp_path / "whole")


def test_options_are_keywords_or_dataclasses(
    texts: list[str], tokenizer_path: Path, tmp_path: Path
) -> None:
    documents = DocumentOptions(document_rule="blank-lines")
    first = corpusmill.build(
        BertOptions(max_seq_length=64), texts, tokenizer_path, tmp_path / "first",
        duplicates=2, documents=documents, progress=False,
    )  # fmt: skip
    second = corpusmill.build(
        "bert", texts, str(tokenizer_path), tmp_path / "second", max_seq_length=64,
        duplicates=2, document_rule="blank-lines", workers=1,
    )  # fmt: skip
    assert digests(tmp_path / "first") == digests(tmp_path / "second")
    assert first.manifest.objective == second.manifest.objective
    given = {"input": ("a",), "tokenizer": "t", "output": "o", "preset": "roberta"}
    filled = fill_command(Build, {**given, "max_seq_length": 32, "seed": 1}, "bert")
    assert filled.objective == BertOptions.from_preset("roberta", max_seq_length=32)


def test_a_tokenizer_is_trained_and_a_corpus_measured(texts: list[str], tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    trained = corpusmill.train_tokenizer(iter(texts), path, vocab_size=300)
    assert (trained.vocab_size, trained.model) == (300, "wordpiece")
    assert trained.tokenize("the")
    assert "wordpiece tokenizer with 300 tokens" in repr(trained)
    with pytest.raises(UserError, match=r"^output='.*': the file exists.*replace=True"):
        corpusmill.train_tokenizer(texts, path)
    sampled = corpusmill.train_tokenizer(texts, tmp_path / "half.json", vocab_size=300, sample=0.5)
    assert "a sample: " in repr(sampled)
    report = corpusmill.inspect_corpus(texts, trained, max_seq_length=64)
    assert report.numbers["counts"]["read.documents"] == len(texts)
    names = {"coverage", "long sentences", "empty second segments"}
    assert {finding.name for finding in report.findings} == names
    assert "documents" in repr(report)
    assert "<table>" in report._repr_html_()


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"max_seq_len": 9}, "max_seq_len=: there is no such option. Did you mean max_seq_length"),
    ({"mode": "pack"}, "mode=: it is an option of gpt alone. Leave it out."),
    ({"max_seq_length": 3}, "max_seq_length=3: the value is out of range. Give 5 to 65535."),
    ({"seed": "1"}, "seed='1': the value is not a whole number. Give a whole number."),
    ({"mask": "dynamc"}, "mask='dynamc': .* one of static, dynamic. Did you mean dynamic?"),
    ({"sentence_rule": "split"}, "Give language='en', or another value, or leave it out"),
    ({"replace": True, "resume": True}, "replace=True: it does not go with resume=True"),
    ({"input_format": "csv"}, "input_format='csv': the input is not files"),
    ({"wait": False}, "wait=False: the data set is returned"),
    ({"documents": {}}, "documents=: it is of type dict. Give DocumentOptions"),
    ({"preset": "alberta"}, "preset='alberta': the value is not one of bert-article"),
    ({"temp_location": ""}, "temp_location='': its value is empty"),
    ({"beam_options": "--region=x"}, "beam_options='--region=x': it is not a list"),
    ({"objective": "bart"}, "objective='bart': there is no .* Did you mean bert"),
    ({"objective": BertOptions(), "preset": "roberta"}, "Give BertOptions.from_preset"),
    ({"input": []}, "input: it has no value"),
    ({"input": None}, "input: it is missing"),
    ({"source": ["a=b.txt"]}, "input and source: either all text belongs to sources"),
    ({"input": "One text.\nIn two lines."}, "input: it is one string of text"),
    ({"input": "word " * 820}, "input: it is one string of text"),
    ({"input": [{"body": "a"}]}, "text_field='text': the first record of the input has no"),
    ({"input": ["none.txt", "a text"]}, r"input.*none.txt.*: no such file"),
    ({"input": "missing/*.txt"}, r"input='missing/\*.txt': no such file"),
    ({"tokenizer": "none.json"}, "tokenizer='none.json'"),
    ({"tokenizer": object()}, "the value is not a text"),
    ({"output": None}, "output=None: the value is not a text"),
    ({"output": b"out"}, "output=b'out': the value is not a text"),
    ({"fan_in": 1}, "fan_in=1: the value is out of range. Give 2 or more"),
]  # fmt: skip


def test_mistakes_are_raised_in_the_words_of_python(
    texts: list[str], tokenizer_path: Path, output: Path
) -> None:
    given: dict[str, Any] = {
        "objective": "bert", "input": texts, "tokenizer": tokenizer_path, "output": output,
    }  # fmt: skip

    def check(row: tuple[dict[str, Any], str]) -> None:
        with pytest.raises(UserError, match=row[1]) as raised:
            corpusmill.build(**given | row[0])
        assert "--" not in str(raised.value).replace("--region", "")
        assert not output.exists()

    check_rows(MISTAKES, check)


def test_an_error_of_the_programs_own_iterable_leaves_nothing(
    tokenizer_path: Path, output: Path
) -> None:
    def fail() -> Iterator[str]:
        yield "one"
        raise LookupError("mine")

    before = state()
    with pytest.raises(LookupError, match="mine"):
        corpusmill.build("bert", fail(), tokenizer_path, output)
    assert state() == before
    assert not output.exists()


def test_blank_texts_alone_give_no_data_set(tokenizer_path: Path, output: Path) -> None:
    with pytest.raises(UserError, match="no example was built: of 2 lines and rows 0 are rejects"):
        corpusmill.build("bert", ["", " "], tokenizer_path, output)


def test_calls_from_several_threads_run_one_after_the_other(
    texts: list[str], tokenizer_path: Path, tmp_path: Path
) -> None:
    def build(number: int) -> None:
        corpusmill.build("bert", texts[:20], tokenizer_path, tmp_path / str(number), **SMALL)

    threads = [threading.Thread(target=build, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert digests(tmp_path / "0") == digests(tmp_path / "1")


# A program without `if __name__ == "__main__"`, which is not run again by its workers. Its first
# build is in another thread, and loses its workers.
PROGRAM = """
import os, sys, threading
import corpusmill
from pipeline.runners.failures import WorkerDiedError

print("begun", flush=True)
texts, tokenizer, output = eval(sys.argv[1])
options = dict(workers=2, min_bytes_per_worker=0, range_bytes=999, max_seq_length=64, num_shards=2)

def lose():
    try:
        corpusmill.build("bert", texts, tokenizer, output, filter=["deadly:end"], **options)
    except WorkerDiedError as error:
        print("lost", error, flush=True)

thread = threading.Thread(target=lose)
thread.start()
thread.join()
print("built", len(corpusmill.build("bert", texts, tokenizer, output, **options)) > 0)
import psutil
print("left", sum("worker" in str(child.cmdline()) for child in psutil.Process().children(True)))
"""
DEADLY = """
import multiprocessing, os
def end(text, metadata):
    return os._exit(9) if multiprocessing.parent_process() else None
"""


def test_a_program_needs_no_guard_and_survives_its_workers(
    texts: list[str], tokenizer_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "deadly.py").write_text(DEADLY)
    (tmp_path / "program.py").write_text(PROGRAM)
    argument = repr((texts[:30], str(tokenizer_path), str(tmp_path / "out")))
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}:{tmp_path}"}
    printed = subprocess.check_output(
        [sys.executable, tmp_path / "program.py", argument], text=True, env=environment
    )
    assert printed.splitlines() == ["begun", "lost exit status 9", "built True", "left 0"]


def test_documents_are_removed(texts: list[str], tokenizer_path: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    whole = corpusmill.build("bert", texts[:9], tokenizer_path, output, **SMALL)
    document = whole.trace([0])[0].origin.document
    rest = corpusmill.drop(output, document=np.array([document]))
    removal = rest.manifest.removals[-1]
    assert (removal.documents, len(rest)) == (1, len(whole) - removal.rows)
    assert (rest.verify(), rest.rows_of([document])) == ([], [])
    assert len(corpusmill.drop(output, where="tokens < 0")) == len(rest)
    for wrong, message in (
        ({"document": ["x"]}, "not a list of whole numbers"),
        ({"document": 7, "wait": False, "runner": "prism"}, "wait=False"),
        ({"doc": 7}, r"help\(corpusmill.drop\)"),
        ({}, "Give one of them"),
    ):
        with pytest.raises(UserError, match=message):
            corpusmill.drop(output, **wrong)
