"""A small BERT, trained on the CPU: the way from a data set to a model, to be read and changed.

    python -m pipeline bert --input ... --tokenizer ... --output out --validation-share 0.1
    python -m examples.train_bert out --steps 1000

The losses are drawn to `losses.png`, and all that it takes to go on is saved to `checkpoint.pt`,
both in `--results`. With --resume training goes on as if it had never been stopped.
`make train-demo` does all of it with the bundled sample.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForPreTraining, get_linear_schedule_with_warmup

from corpusmill import DataSet, TensorLoader, collator_for, make_batches
from examples.loss_curves import SMOOTHED, Losses, draw_losses, find_baselines, judge


def parse_arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser("train_bert", description="Train a small BERT on the CPU.")
    parser.add_argument("data", type=Path, help="folder that `pipeline bert` wrote")
    parser.add_argument("--results", type=Path, default=Path("train-demo"), help="a folder")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--hidden-size", type=int, default=128)
    parser.add_argument("--save-every", type=int, default=100, help="steps; also validates")
    parser.add_argument("--validation-batches", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    return parser.parse_args(given)


def open_loader(
    data_set: DataSet, batch_size: int, seed: int, shuffle: bool = True
) -> TensorLoader:
    """Batches named as BertForPreTraining's arguments.

    Of a data set that was built with `--mask dynamic` they are masked here, anew in each epoch.
    """
    return TensorLoader(make_batches(data_set, batch_size, seed=seed, shuffle=shuffle))


def build_model(data_set: DataSet, hidden_size: int) -> BertForPreTraining:
    """BERT with two layers, as wide as asked and with as many ids as the data set's tokenizer."""
    config = BertConfig(
        vocab_size=data_set.manifest.tokenizer.vocab_size,
        max_position_embeddings=data_set.manifest.objective.options["max_seq_length"],
        hidden_size=hidden_size,
        num_hidden_layers=2,
        num_attention_heads=max(1, hidden_size // 32),
        intermediate_size=4 * hidden_size,
    )
    return BertForPreTraining(config)


def compute_losses(model: BertForPreTraining, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The mean losses of the masked tokens and of the next-sentence labels, in nats."""
    # `model(**batch).loss` is their sum; here they are told apart.
    labels, next_sentence_label = batch.pop("labels"), batch.pop("next_sentence_label")
    found = model(**batch)
    mlm = cross_entropy(found.prediction_logits.flatten(0, 1), labels.flatten())
    return mlm, cross_entropy(found.seq_relationship_logits, next_sentence_label)


@dataclass
class Training:
    """All that changes in a run, which is what a checkpoint holds."""

    model: BertForPreTraining
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler
    loader: TensorLoader
    losses: list[Losses] = field(default_factory=list)
    validation: list[Losses] = field(default_factory=list)

    def step(self, batch: dict[str, Tensor]) -> None:
        """Learn from one batch."""
        mlm, nsp = compute_losses(self.model, batch)
        self.optimizer.zero_grad()
        (mlm + nsp).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.losses.append(Losses(len(self.losses) + 1, mlm.item(), nsp.item()))

    def validate(self, loader: TensorLoader, batches: int) -> None:
        """Measure the first batches of a new loader without learning."""
        self.model.eval()
        with torch.no_grad():
            found = [compute_losses(self.model, batch) for batch in islice(loader, batches)]
        mlm, nsp = np.mean(found, axis=0).tolist()
        self.validation.append(Losses(len(self.losses), mlm, nsp))
        self.model.train()

    def recent(self) -> Losses:
        """The mean training losses of the last batches."""
        return Losses(*np.mean(self.losses[-SMOOTHED:], axis=0).tolist())

    def save(self, path: Path) -> None:
        """Write a checkpoint; what stood there is replaced only once it is whole."""
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "loader": self.loader.state_dict(),  # a few numbers, the same on all ranks
            "dropout": torch.get_rng_state(),
            "losses": list(map(tuple, self.losses)),
            "validation": list(map(tuple, self.validation)),
        }
        partial = path.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(path)

    def load(self, path: Path) -> None:
        """Become what the run was when it was saved."""
        state = torch.load(path, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.loader.load_state_dict(state["loader"])
        torch.set_rng_state(state["dropout"])
        self.losses = [Losses(*of) for of in state["losses"]]
        self.validation = [Losses(*of) for of in state["validation"]]


def train(given: argparse.Namespace) -> Training:
    """Train to the last step, with a checkpoint now and then."""
    torch.manual_seed(given.seed)
    data_set, held_out = DataSet(given.data), DataSet(given.data, "validation")
    loader = open_loader(data_set, given.batch_size, given.seed)
    model = build_model(data_set, given.hidden_size)
    optimizer = torch.optim.AdamW(model.parameters(), given.learning_rate, weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimizer, given.steps // 10, given.steps)
    training = Training(model, optimizer, schedule, loader)
    checkpoint = given.results / "checkpoint.pt"
    if given.resume:
        training.load(checkpoint)
    begun = time.monotonic()
    while (done := len(training.losses)) < given.steps:
        for step, batch in enumerate(islice(loader, given.steps - done), done + 1):  # of an epoch
            training.step(batch)
            if step % given.save_every == 0 or step == given.steps:
                same = open_loader(held_out, given.batch_size, given.seed, shuffle=False)
                training.validate(same, given.validation_batches)  # each time the same masks
                training.save(checkpoint)
                report(training, time.monotonic() - begun)
    return training


def report(training: Training, seconds: float) -> None:
    """Print how far it has come."""
    recent, held_out = training.recent(), training.validation[-1]
    print(
        f"step {held_out.step:5}  masked {recent.mlm:.2f}, held out {held_out.mlm:.2f}  "
        f"next sentence {recent.nsp:.2f}, held out {held_out.nsp:.2f}  {seconds:4.0f} s",
        flush=True,
    )


def conclude(given: argparse.Namespace, training: Training) -> None:
    """Draw the losses, and say what was reached and what it would be by guessing."""
    data_set = DataSet(given.data)
    vocab_size = data_set.manifest.tokenizer.vocab_size
    some = data_set.take(np.arange(min(len(data_set), 10_000)))
    masked = collator_for(data_set).prepare(some)  # where they are stored unmasked
    guessing = find_baselines(masked, vocab_size)
    parameters, picture = training.model.num_parameters(), given.results / "losses.png"
    title = f"BERT of {parameters:,} parameters, {len(data_set):,} examples, {vocab_size:,} ids"
    draw_losses(picture, title, training.losses, training.validation, guessing)
    recent, held_out = training.recent(), training.validation[-1]
    print(judge("masked language model", recent.mlm, held_out.mlm, guessing.frequency_mlm))
    print(judge("next sentence", recent.nsp, held_out.nsp, guessing.lengths_nsp))
    print(f"{len(training.losses)} steps; the losses are drawn in {picture}")


if __name__ == "__main__":
    arguments = parse_arguments()
    arguments.results.mkdir(parents=True, exist_ok=True)
    conclude(arguments, train(arguments))
