"""Whole jobs on text of many scripts: what comes out is what went in, character by character."""

import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from corpusmill.verification.check_data_set import verify
from tests.tools import jobs
from tests.tools.jobs import build, read_manifest_json, rows_of, run_here, unmask
from tests.tools.many_scripts import DOCUMENTS, as_json_lines, as_text

# No document is so long that a segment must be cut.
WHOLE = ("--max-seq-length", "4096", "--short-seq-prob", "0", "--num-shards", "2")


@pytest.fixture(params=["text", "json-lines"])
def corpus(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / ("scripts.txt" if request.param == "text" else "scripts.jsonl")
    path.write_bytes(as_text() if request.param == "text" else as_json_lines())
    return path


def train(kind: str, corpus: Path, folder: Path) -> Path:
    """As a user trains a tokenizer on the corpus: of words, or with parts of characters."""
    words = ("--vocab-size", "1500", "--min-frequency", "1", "--no-lowercase")
    path = folder / "tokenizer.json"
    jobs.train(corpus, path, *(words if kind == "WordPiece" else jobs.BYTE_LEVEL))
    return path


def segments_of(folder: Path, tokenizer: Tokenizer) -> Iterator[list[int]]:
    """The two segments of every example, with the tokens that were masked put back."""
    special = tokenizer.get_vocab()
    for row in rows_of(folder):
        ids, first = unmask(row), row["token_type_ids"].index(1)
        assert ids[0] == special["[CLS]"]
        assert ids[first - 1] == ids[-1] == special["[SEP]"]
        yield ids[1 : first - 1]
        if first < len(ids) - 1:
            yield ids[first:-1]


def shown(text: str) -> str:
    """What BERT's tokenizer keeps of a text: neither white space nor characters of control."""
    kept = (
        entry for entry in text if not entry.isspace() and unicodedata.category(entry)[0] != "C"
    )
    return "".join(kept)


def spell_words(tokenizer: Tokenizer) -> Callable[[list[int]], str]:
    tokens = {token_id: token for token, token_id in tokenizer.get_vocab().items()}
    return lambda ids: "".join(tokens[token_id].removeprefix("##") for token_id in ids)


@pytest.mark.parametrize("kind", ["WordPiece", "byte-level BPE"])
def test_what_comes_out_is_what_went_in(kind: str, corpus: Path, tmp_path: Path) -> None:
    words = kind == "WordPiece"
    path = train(kind, corpus, tmp_path)
    build([corpus], path, tmp_path / "out", *WHOLE)
    assert not verify(tmp_path / "out")
    counts = read_manifest_json(tmp_path / "out")["counts"]
    assert counts["read.documents"] == counts["tokenize.documents"] == len(DOCUMENTS)
    assert counts["read.sentences"] == sum(map(len, DOCUMENTS.values()))
    assert counts.get("read.rejects", 0) == 0

    tokenizer = Tokenizer.from_file(str(path))
    spell = spell_words(tokenizer) if words else tokenizer.decode
    normal = shown if words else str
    sources = [normal("".join(sentences)) for sentences in DOCUMENTS.values()]
    seen = set()
    for segment in segments_of(tmp_path / "out", tokenizer):
        text = spell(segment)
        assert "\ufffd" not in text
        assert "[UNK]" not in text
        places = [place for place, source in enumerate(sources) if text in source]
        assert places, text
        seen.update(places)
    assert len(seen) == len(sources)
    page = tmp_path / "report.html"
    run_here("inspect", tmp_path / "out", "--examples", "40", "--html", page)
    assert not words or "河" in page.read_text(encoding="utf-8")


def test_characters_cut_at_the_maximum_are_cut_at_segments_ends_alone(tmp_path: Path) -> None:
    corpus = tmp_path / "scripts.txt"
    corpus.write_bytes(as_text())
    path = train("byte-level BPE", corpus, tmp_path)
    build([corpus], path, tmp_path / "out", "--max-seq-length", "24")
    tokenizer = Tokenizer.from_file(str(path))
    decoded = [tokenizer.decode(entry) for entry in segments_of(tmp_path / "out", tokenizer)]
    assert any("\ufffd" in text for text in decoded)
    sources = ["".join(sentences) for sentences in DOCUMENTS.values()]
    for text in decoded:
        assert any(text.strip("\ufffd") in source for source in sources), text
