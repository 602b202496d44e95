"""Whole jobs on text of many scripts: what comes out is what went in, character by character."""

import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from corpusmill.dataset.verify import verify
from tests.tools.jobs import build, digests, read_manifest_json, run_here
from tests.tools.many_scripts import DOCUMENTS, as_json_lines, as_text

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# No document is so long that a segment must be cut.
WHOLE = ("--max-seq-length", "4096", "--short-seq-prob", "0", "--num-shards", "2")


@pytest.fixture(params=["text", "json-lines"])
def corpus(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / ("scripts.txt" if request.param == "text" else "scripts.jsonl")
    path.write_bytes(as_text() if request.param == "text" else as_json_lines())
    return path


def wordpiece_of(corpus: Path, folder: Path) -> Path:
    """As a user trains it on the corpus."""
    path = folder / "wordpiece.json"
    arguments = ("--input", corpus, "--output", path, "--vocab-size", "1500")
    outcome = run_here("train-tokenizer", *arguments, "--min-frequency", "1", "--no-lowercase")
    assert outcome.status == 0, outcome.errors
    return path


def byte_level_of(_: Path, folder: Path) -> Path:
    """Byte-level BPE, with tokens that are parts of characters."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator((" ".join(entry) for entry in DOCUMENTS.values()), trainer)
    tokenizer.save(str(folder / "byte-level.json"))
    return folder / "byte-level.json"


def segments_of(folder: Path, tokenizer: Tokenizer) -> Iterator[list[int]]:
    """The two segments of every example, with the tokens that were masked put back."""
    special = tokenizer.get_vocab()
    for path in sorted(folder.glob("*.parquet")):
        for row in pq.read_table(path).to_pylist():
            ids = row["input_ids"]
            for place, token in zip(row["masked_lm_positions"], row["masked_lm_ids"], strict=True):
                ids[place] = token
            first = row["token_type_ids"].index(1)
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
    path = (wordpiece_of if words else byte_level_of)(corpus, tmp_path)
    outcome = build([corpus], path, tmp_path / "out", *WHOLE)
    assert outcome.status == 0, outcome.errors
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


def test_the_same_bytes_in_any_ranges_and_workers(tmp_path: Path) -> None:
    corpus = tmp_path / "scripts.txt"
    corpus.write_bytes(as_text())
    path = byte_level_of(corpus, tmp_path)
    flags = ("--sentence-rule", "split", "--language", "zh")
    build([corpus], path, tmp_path / "one", *flags)
    workers = ("--workers", "2", "--min-bytes-per-worker", "0", "--range-bytes", "101")
    outcome = build([corpus], path, tmp_path / "two", *flags, *workers)
    assert outcome.status == 0, outcome.errors
    assert len(digests(tmp_path / "one")) > 5
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


def test_characters_cut_at_the_maximum_are_cut_at_segments_ends_alone(tmp_path: Path) -> None:
    corpus = tmp_path / "scripts.txt"
    corpus.write_bytes(as_text())
    path = byte_level_of(corpus, tmp_path)
    outcome = build([corpus], path, tmp_path / "out", "--max-seq-length", "24")
    assert outcome.status == 0, outcome.errors
    tokenizer = Tokenizer.from_file(str(path))
    decoded = [tokenizer.decode(entry) for entry in segments_of(tmp_path / "out", tokenizer)]
    assert any("\ufffd" in text for text in decoded)
    sources = ["".join(sentences) for sentences in DOCUMENTS.values()]
    for text in decoded:
        assert any(text.strip("\ufffd") in source for source in sources), text


def test_examples_of_every_script_are_shown(corpus: Path, tmp_path: Path) -> None:
    path = wordpiece_of(corpus, tmp_path)
    build([corpus], path, tmp_path / "out", *WHOLE)
    page = tmp_path / "report.html"
    outcome = run_here("inspect", tmp_path / "out", "--examples", "40", "--html", page)
    assert outcome.status == 0, outcome.errors
    assert "河" in page.read_text(encoding="utf-8")
