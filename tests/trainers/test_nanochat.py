"""nanochat's own loader of text beside our rows, and our batches in its own evaluation."""

import json
from collections.abc import Callable
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.tools.jobs import rows_of, run_here
from tests.tools.small_datasets import SAMPLE
from tests.tools.trainer_programs import (
    BATCHES,
    as_rows,
    borrow,
    expect_next_tokens,
    load,
    read_program,
)

PAGE, WIDTH, ROWS = "read-with-other-trainers.md", 64, 2
TEXTS = [text.strip() for text in SAMPLE.decode().split("\n\n") if text.strip()]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Builds a data set with nanochat's tokenizer, which is trained and converted first."""
    monkeypatch.setenv("NANOCHAT_BASE_DIR", str(tmp_path / "base"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus.jsonl").write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    )

    def run(*arguments: str) -> Path:
        module = load("nanochat.tokenizer")
        tokenizer = module.RustBPETokenizer.train_from_iterator(iter(TEXTS), 600)
        tokenizer.save(str(tmp_path / "base" / "tokenizer"))
        read_program(PAGE, "convert_nanochat_tokenizer.py")
        run_here(
            "gpt", "--input", "corpus.jsonl", "--tokenizer", "nanochat-tokenizer", "--output",
            "rows", "--begin-of-text", "True", "--end-of-text", "False", *arguments,
        )  # fmt: skip
        return tmp_path / "rows"

    return run


def test_its_loader_of_text_makes_pieces_of_our_documents(
    tmp_path: Path, build: Callable[..., Path]
) -> None:
    with borrow("nanochat"):
        documents = [tuple(row["input_ids"]) for row in rows_of(build())]
        tokenizer = load("nanochat.tokenizer").get_tokenizer()
        folder = tmp_path / "base" / "base_data_climbmix"
        folder.mkdir()
        for name in ("shard_00000", "shard_00001"):  # the last one is for validation
            pq.write_table(pa.table({"text": TEXTS}), folder / f"{name}.parquet")
        batches = load("nanochat.dataloader").tokenizing_distributed_data_loader_bos_bestfit(
            tokenizer, ROWS, WIDTH, "train", device="cpu", buffer_size=50
        )
        begin, pieces = tokenizer.get_bos_token_id(), list[tuple[int, ...]]()
        for inputs, targets in islice(batches, BATCHES):
            for row, last in zip(inputs.tolist(), targets[:, -1].tolist(), strict=True):
                marks = [place for place, token in enumerate(row) if token == begin] + [WIDTH]
                pieces += [
                    (*row[first:stop], *[last] * (stop == WIDTH and last != begin))
                    for first, stop in pairwise(marks)
                ]
    assert len(pieces) >= BATCHES * ROWS
    assert all(any(text[: len(piece)] == piece for text in documents) for piece in pieces)


def test_our_batches_are_what_it_evaluates_and_resumes(build: Callable[..., Path]) -> None:
    with borrow("nanochat"):
        folder = build("--mode", "pack", "--max-seq-length", str(WIDTH))
        expected = [expect_next_tokens(row, WIDTH)[:2] for row in rows_of(folder, "train*")]
        load_batches = read_program(PAGE, "corpusmill_nanochat.py")["load_batches"]
        batches = load_batches(str(folder), ROWS, WIDTH, device="cpu")
        read = list(islice(batches, BATCHES))
        evaluate = load("nanochat.loss_eval").evaluate_bpb
        assert evaluate(_Model(), (batch[:2] for batch in read), BATCHES, _count_bytes()) > 0
        resumed = load_batches(
            str(folder), ROWS, WIDTH, device="cpu",
            resume_state_dict=json.loads(json.dumps(read[70][2])),
        )  # fmt: skip
        assert all((next(resumed)[0] == read[70 + step][0]).all() for step in range(10))
    found = [
        (tokens, tuple(-100 if label == -1 else label for label in labels))
        for inputs, targets, _ in read
        for tokens, labels in zip(as_rows(inputs, WIDTH), as_rows(targets, WIDTH), strict=True)
    ]
    epoch = len(expected) // ROWS * ROWS
    for row in found[:epoch]:
        expected.remove(row)


class _Model:
    def get_device(self) -> str:
        return "cpu"

    def __call__(self, inputs: Any, targets: Any, loss_reduction: str) -> Any:
        assert loss_reduction == "none"
        return (targets != -1).float() * (inputs >= 0)


def _count_bytes() -> Any:
    return load("torch").ones(1000, dtype=load("torch").int32)
