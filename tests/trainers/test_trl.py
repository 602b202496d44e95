"""TRL's own SFTTrainer over rows of conversations, by the program of the page on it."""

import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from corpusmill.dataset.shards import read_manifest
from corpusmill.location import locate
from tests.conftest import CHECKOUT
from tests.docs.pages import Session, read_blocks
from tests.tools.jobs import run_here
from tests.tools.trainer_programs import load, read_program, rows_of

PAGE = "train-with-trl.md"
# Tokens, labels and positions of a row.
Lesson = tuple[tuple[int, ...], ...]


@pytest.fixture
def masked(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Lesson]:
    """Do what the page says before the training; return what rows of a `loss_mask` teach."""
    load("trl")
    # What `map` made of the same rows by another program must not be taken for this one's.
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    shutil.copy(sample, tmp_path)
    for block in read_blocks(CHECKOUT / "docs" / "how-to" / PAGE):
        Session(tmp_path).follow(block)
    build_with("loss_mask", "masked")
    rows = rows_of(tmp_path / "masked", read_manifest(locate(str(tmp_path / "masked"))))
    assert len(rows) >= 32
    return [expect_lesson(row) for row in rows]


def build_with(mask: str, output: str) -> None:
    """Build the conversations of the page once more."""
    run_here(
        "chat", "--input", "chat.jsonl", "--tokenizer", "chat-tokenizer.json", "--chat-template",
        "chatml.jinja", "--max-seq-length", "512", "--mask", mask, "--output", output, "--replace",
    )  # fmt: skip


def expect_lesson(row: dict[str, Any]) -> Lesson:
    tokens, mask = row["input_ids"], row["loss_mask"]
    starts = row["cu_seqlens"][:-1]
    assert 0 < sum(mask) < len(mask) / 2
    assert not any(mask[start] for start in starts)
    labels = [token if learned else -100 for token, learned in zip(tokens, mask, strict=True)]
    positions = [n for begin, end in pairwise(row["cu_seqlens"]) for n in range(end - begin)]
    return tuple(tokens), tuple(labels), tuple(positions)


def cut_rows(batch: dict[str, Any], lessons: list[Lesson]) -> list[Lesson]:
    """Cut the one long row of a batch into ours, which are taken out of the lessons."""
    arrays = [tuple(batch[name][0].tolist()) for name in ("input_ids", "labels", "position_ids")]
    assert "attention_mask" not in batch
    taken, begin = list[Lesson](), 0
    while begin < len(arrays[0]):
        ends = (len(lesson[0]) + begin for lesson in lessons)
        cuts = (tuple(array[begin:end] for array in arrays) for end in ends)
        taken.append(next(cut for cut in cuts if cut in lessons))
        lessons.remove(taken[-1])
        begin += len(taken[-1][0])
    return taken


def test_it_learns_exactly_the_tokens_of_the_mask(masked: list[Lesson]) -> None:
    for mask in ("labels", "loss_mask"):
        build_with(mask, "chats")
        trainer = read_program(PAGE, "sft.py")["trainer"]
        left = list(masked)
        for batch in trainer.get_train_dataloader():
            cut_rows(batch, left)
        assert left == [], mask


def test_conversations_of_a_row_do_not_see_each_other(masked: list[Lesson]) -> None:
    torch = load("torch")
    trainer = read_program(PAGE, "sft.py")["trainer"]
    batch = next(iter(trainer.get_train_dataloader()))
    start = int(torch.where(batch["position_ids"][0] == 0)[0][1])
    assert 2 * start < max(len(tokens) for tokens, _, _ in masked)
    changed = {**batch, "input_ids": batch["input_ids"].clone()}
    changed["input_ids"][0, :start] = 7
    for attention in ("sdpa", "eager"):
        trainer.model.set_attn_implementation(attention)
        first, second = (hidden_states(trainer, inputs) for inputs in (batch, changed))
        assert not torch.equal(first[:start], second[:start]), attention
        assert torch.equal(first[start:], second[start:]), attention


def hidden_states(trainer: Any, batch: dict[str, Any]) -> Any:
    """Return what the model makes of the tokens of a batch as the trainer gives it to it."""
    states = list[Any]()
    hook = trainer.model.model.norm.register_forward_hook(
        lambda _module, _inputs, output: states.append(output.detach()[0])
    )
    trainer.compute_loss(trainer.model, dict(batch))
    hook.remove()
    return states[0]
