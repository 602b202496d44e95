"""Documents that are read again, and the text of their tokens."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pytest

from corpusmill.provenance.read_again import Inputs, UnreadableTextError
from corpusmill.provenance.store import DocumentRecord, Span
from corpusmill.provenance.texts import Texts
from tests.tools import jobs
from tests.tools.knobs import knobs
from tests.tools.origins import list_documents, list_origins, open_store, open_texts


@pytest.fixture
def record(data: Path) -> DocumentRecord:
    return next(one for one in list_documents(data) if one.fields["file"] == "notes-7")


@pytest.mark.parametrize(
    "places",
    [
        lambda corpus: [corpus],
        lambda corpus: [corpus / "wiki", corpus / "notes"],
        lambda corpus: [corpus / "notes" / "part.jsonl"],
        lambda corpus: [corpus.parent],
    ],
    ids=["above", "sources", "file", "far-above"],
)
def test_files_are_found_where_they_are(
    places: Callable[[Path], list[Path]], record: DocumentRecord, data: Path, corpus: Path
) -> None:
    document = open_texts(data, *places(corpus)).read(record)
    assert document.column("document").to_pylist() == [record.document]


def test_text_that_changed_or_is_gone_is_not_shown(
    record: DocumentRecord, data: Path, corpus: Path, tmp_path: Path
) -> None:
    with pytest.raises(UnreadableTextError, match=r"notes/part\.jsonl was not found in"):
        open_texts(data, tmp_path).read(record)
    # A file of this name in another source is not taken for it.
    with pytest.raises(UnreadableTextError, match="is not what it was"):
        open_texts(data, corpus / "wiki").read(record)
    shutil.copytree(corpus, tmp_path / "corpus")
    part = tmp_path / "corpus" / "notes" / "part.jsonl"
    content = bytearray(part.read_bytes())
    content[record.place + record.length // 2] ^= 2
    part.write_bytes(content)
    with pytest.raises(UnreadableTextError, match="is not what it was"):
        open_texts(data, tmp_path / "corpus").read(record)


def test_the_text_of_spans_is_that_between_their_first_and_last_tokens(
    record: DocumentRecord, data: Path, corpus: Path
) -> None:
    texts = open_texts(data, corpus)
    document = texts.read(record)
    whole = "\n".join(texts.pieces(document))
    everything = Span(record.document, 0, record.tokens)
    halves = [Span(record.document, 0, 9), Span(record.document, 9, record.tokens - 9)]
    assert texts.spell(document, [everything]) == [whole]
    first, second = texts.spell(document, halves)
    assert whole.startswith(first)
    assert whole.endswith(second)
    assert "".join((first + second).split()) == "".join(whole.split())
    with pytest.raises(UnreadableTextError, match="fewer tokens"):
        texts.spell(document, [Span(record.document, 0, record.tokens + 1)])


def test_a_document_that_was_cut_is_read_again_by_its_parts(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    jobs.build([sample], tokenizer_path, output, "--max-document-bytes", "200")
    texts = open_texts(output, sample)
    records = list_documents(output)
    assert len(records) > 150
    for record in records:
        [sentences] = texts.read(record).column("sentences").to_pylist()
        assert sample.read_bytes()[record.place :].lstrip().startswith(sentences[0].encode())


def test_the_present_folder_is_searched_but_none_in_it_if_none_is_given(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(corpus)
    streams = Inputs().open("notes/part.jsonl")
    assert next(streams).read() == (corpus / "notes" / "part.jsonl").read_bytes()
    monkeypatch.chdir(corpus.parent)
    with pytest.raises(UnreadableTextError, match="is not in the present folder: name another"):
        next(Inputs().open("notes/part.jsonl"))


@pytest.mark.parametrize("pieces_at_once", [1, 3, 1000])
def test_a_file_is_opened_and_a_document_tokenized_once_for_all_spans(
    pieces_at_once: int, data: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, really_open = list[str](), Inputs.open
    spelled, really_spell = list[int](), Texts.spell

    def note_file(inputs: Inputs, name: str) -> Iterator[BinaryIO]:
        opened.append(name)
        return really_open(inputs, name)

    def note_document(texts: Texts, document: pa.RecordBatch, spans: Sequence[Span]) -> list[str]:
        spelled.append(document.column("document")[0].as_py())
        return really_spell(texts, document, spans)

    monkeypatch.setattr(Inputs, "open", note_file)
    monkeypatch.setattr(Texts, "spell", note_document)
    texts = open_texts(data, corpus)
    origins = [row for row in list_origins(data) if row.split == "train"][:60]
    records = open_store(data).documents({number for row in origins for number in row.documents})
    spans = dict.fromkeys(span for row in origins for span in row.spans)
    with knobs(tokenized_pieces=pieces_at_once):
        found = list(texts.read_spans(records, spans))
    assert sorted(opened) == ["notes/part.jsonl", "wiki/part.jsonl"]
    assert sorted(spelled) == sorted(records)
    assert len(spans) > len(records)
    alone = open_texts(data, corpus)
    for number, own, cause in found:
        assert cause == ""
        document = alone.read(records[number])
        for span, text in own.items():
            assert alone.spell(document, [span]) == [text]
    assert sum(len(own) for _, own, _ in found) == len(spans)


def test_documents_of_a_file_that_are_gone_do_not_hide_the_others(
    data: Path, corpus: Path, tmp_path: Path
) -> None:
    records = {one.document: one for one in list_documents(data) if "notes" in one.fields["file"]}
    gone = records[max(records)]
    shutil.copytree(corpus, tmp_path / "corpus")
    part = tmp_path / "corpus" / "notes" / "part.jsonl"
    part.write_bytes(part.read_bytes()[: gone.place])
    texts = open_texts(data, tmp_path / "corpus")
    causes = {number: cause for number, _, cause in texts.read_spans(records, [])}
    assert causes.keys() == records.keys()
    assert [number for number, cause in causes.items() if cause] == [gone.document]
