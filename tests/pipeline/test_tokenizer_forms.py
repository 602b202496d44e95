"""Whole jobs with each kind of tokenizer."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from corpusmill.verification.check_data_set import verify
from tests.tools.jobs import Outcome, build, read_manifest_json, run_here
from tests.tools.tokenizer_samples import byte_ranks

ROLES = ("<cls>", "<sep>", "<mask>", "<pad>", "<unk>")


def header_of(folder: Path) -> dict[str, Any]:
    header: dict[str, Any] = read_manifest_json(folder)["tokenizer"]
    return header


def assert_built(outcome: Outcome, folder: Path, form: str) -> None:
    assert "not remembered" not in outcome.output
    assert not verify(folder)
    assert header_of(folder)["form"] == form
    shown = run_here("inspect", folder, "--examples", "1")
    assert "[MASK->" in shown.output


@pytest.fixture
def vocab_txt(tokenizer_path: Path, tmp_path: Path) -> Path:
    vocabulary = json.loads(tokenizer_path.read_text())["model"]["vocab"]
    path = tmp_path / "t" / "vocab.txt"
    path.parent.mkdir()
    path.write_text("\n".join(sorted(vocabulary, key=vocabulary.__getitem__)))
    return path


def test_a_vocab_txt_and_its_options(vocab_txt: Path, sample: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    outcome = build([sample], vocab_txt.parent, out, "--strip-accents", "False")
    assert_built(outcome, out, "vocab.txt")
    assert header_of(out)["options"] == {
        "lowercase": True, "strip_accents": False, "special_tokens_in_text": False,
        "tiktoken_pattern": None,
    }  # fmt: skip


def test_special_tokens_in_the_text_by_option(
    vocab_txt: Path, sample: Path, tmp_path: Path
) -> None:
    text = tmp_path / "special.txt"
    text.write_text(sample.read_text().replace(" the ", " [MASK] "))
    counts = []
    for flag in ("--special-tokens-in-text", "--no-special-tokens-in-text"):
        out = tmp_path / flag
        assert_built(build([text], vocab_txt, out, flag), out, "vocab.txt")
        counts.append(read_manifest_json(out)["counts"]["tokenize.tokens"])
    # As text it is at least "[", "mask" and "]".
    assert counts[1] - counts[0] >= 2 * text.read_text().count("[MASK]") > 100


def test_a_tiktoken_file_with_special_tokens_beside_it(sample: Path, tmp_path: Path) -> None:
    pytest.importorskip("tiktoken")
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "cl100k.tiktoken").write_bytes(byte_ranks())
    path, out = folder / "cl100k.tiktoken", tmp_path / "out"
    build([sample], path, out, refused=("it has no [CLS], [SEP], [MASK], [PAD] token",))
    added = {str(1000 + number): {"content": name} for number, name in enumerate(ROLES)}
    config = json.dumps({"added_tokens_decoder": added})
    (folder / "tokenizer_config.json").write_text(config)
    assert_built(build([sample], path, out), out, "tiktoken file")
    assert header_of(out)["options"]["tiktoken_pattern"] == "cl100k"


# Of a small unigram model, several splits of a word are equally good, which the proof refuses.
def test_a_sentencepiece_model(sample: Path, tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sample.read_text().splitlines()), model_writer=model,
        vocab_size=1500, model_type="unigram", minloglevel=2,
        control_symbols=["[CLS]", "[SEP]", "[MASK]", "[PAD]"],
    )  # fmt: skip
    path, out = tmp_path / "spiece.model", tmp_path / "out"
    path.write_bytes(model.getvalue())
    assert_built(build([sample], path, out), out, "SentencePiece model")
    assert " the " in run_here("inspect", out).output
    flag = ("--tiktoken-pattern", "gpt2", "--replace")
    build([sample], path, out, *flag, refused=("it is for a tiktoken file",))


def test_what_is_neither_here_nor_on_the_hub(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    parts = ("--tokenizer no-such-tokenizer", "no such file or folder here", "the Hugging Face hub")
    build([sample], Path("no-such-tokenizer"), tmp_path / "out", refused=parts)
    assert not (tmp_path / "out").exists()


def test_bytes_without_a_file(sample: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    outcome = build([sample], Path("bytes"), out, "--max-seq-length", "512")
    assert_built(outcome, out, "tokenizer of bytes")
    # A token is a byte by choice, and not for want of a vocabulary.
    assert "tokens for each letter" not in outcome.output
    counts = read_manifest_json(out)["counts"]
    assert counts["tokenize.tokens"] == counts["tokenize.text_bytes"]
