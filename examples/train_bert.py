"""Train a small BERT on the CPU: a complete program, to be read and changed.

    corpusmill bert --input ... --tokenizer ... --output out --validation-share 0.1
    python -m examples.train_bert out --steps 1000

The folder `--results` gets a plot of the losses, `losses.png`, and `checkpoint.pt`, from which
`--resume` continues as if the training had never stopped. `make train-demo` does all this with the
bundled sample, and continues if it is stopped and run again.
"""

import argparse
import pickle
import sys
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

from corpusmill import DataSet, TensorLoader, UserError, collator_for, make_batches
from examples.loss_curves import SMOOTHED, Losses, draw_losses, find_baselines, judge


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser("train_bert", description="Train a small BERT on the CPU.")
    parser.add_argument("data", type=Path, help="a folder that `pipeline bert` has written")
    parser.add_argument("--results", type=Path, default=Path("train-demo"), help="a folder")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--hidden-size", type=int, default=128)
    parser.add_argument("--save-every", type=int, default=100, help="steps; validates, too")
    parser.add_argument("--validation-batches", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint")
    return parser.parse_args(arguments)


def open_loader(
    data_set: DataSet, batch_size: int, seed: int, shuffle: bool = True
) -> TensorLoader:
    """Return a loader of batches with the arguments of BertForPreTraining.

    A data set that was built with `--mask dynamic` is masked here, differently in each epoch.
    """
    return TensorLoader(make_batches(data_set, batch_size, seed=seed, shuffle=shuffle))


def build_model(data_set: DataSet, hidden_size: int) -> BertForPreTraining:
    """Return a BERT with two layers and the vocabulary of the data set's tokenizer."""
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
    """Return the mean losses of the masked tokens and of the next-sentence labels, in nats."""
    # `model(**batch).loss` is their sum.
    labels, next_sentence_label = batch.pop("labels"), batch.pop("next_sentence_label")
    output = model(**batch)
    mlm = cross_entropy(output.prediction_logits.flatten(0, 1), labels.flatten())
    return mlm, cross_entropy(output.seq_relationship_logits, next_sentence_label)


@dataclass
class Training:
    """The state of a run, which a checkpoint contains."""

    model: BertForPreTraining
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler
    loader: TensorLoader
    losses: list[Losses] = field(default_factory=list)
    validation: list[Losses] = field(default_factory=list)
    saved: int = 0

    def step(self, batch: dict[str, Tensor]) -> None:
        """Train with one batch."""
        mlm, nsp = compute_losses(self.model, batch)
        self.optimizer.zero_grad()
        (mlm + nsp).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.losses.append(Losses(len(self.losses) + 1, mlm.item(), nsp.item()))

    def validate(self, loader: TensorLoader, batches: int) -> None:
        """Compute the mean losses of a loader's first batches."""
        self.model.eval()
        with torch.no_grad():
            losses = [compute_losses(self.model, batch) for batch in islice(loader, batches)]
        mlm, nsp = np.mean(losses, axis=0).tolist()
        self.validation.append(Losses(len(self.losses), mlm, nsp))
        self.model.train()

    def recent(self) -> Losses:
        """Return the mean training losses of the last batches."""
        return Losses(*np.mean(self.losses[-SMOOTHED:], axis=0).tolist())

    def save(self, path: Path) -> None:
        """Write a checkpoint; it replaces another one only when it is complete."""
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
        self.saved = len(self.losses)

    def load(self, path: Path) -> None:
        """Restore the state of a checkpoint."""
        state = torch.load(path, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.loader.load_state_dict(state["loader"])
        torch.set_rng_state(state["dropout"])
        self.losses = [Losses(*losses) for losses in state["losses"]]
        self.validation = [Losses(*losses) for losses in state["validation"]]
        self.saved = len(self.losses)


def open_data(options: argparse.Namespace) -> tuple[DataSet, DataSet]:
    """Return the training split and the validation split.

    Raises:
        UserError: there is none, or its examples are not what this program trains with.
    """
    for name in ("steps", "batch_size", "hidden_size", "save_every", "validation_batches"):
        value = getattr(options, name)
        if value < 1:
            flag = f"--{name.replace('_', '-')}"
            raise UserError(f"{flag} {value}", "the value is out of range", "Give 1 or more")
    data_set = DataSet(options.data)
    if "next_sentence_label" not in {column.name for column in data_set.columns}:
        cause = "its examples have no labels of the next sentence, which this program learns"
        raise UserError(str(options.data), cause, "Build it with `corpusmill bert`")
    if "validation" not in data_set.manifest.splits:
        cause = "it has no validation split, on which this program computes losses"
        raise UserError(str(options.data), cause, "Build it with --validation-share 0.1")
    return data_set, DataSet(options.data, "validation")


def train(options: argparse.Namespace) -> Training:
    """Train to the last step, and save checkpoints.

    Raises:
        UserError: the data set or the checkpoint does not suit.
    """
    torch.manual_seed(options.seed)
    data_set, held_out = open_data(options)
    loader = open_loader(data_set, options.batch_size, options.seed)
    model = build_model(data_set, options.hidden_size)
    optimizer = torch.optim.AdamW(model.parameters(), options.learning_rate, weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimizer, options.steps // 10, options.steps)
    training = Training(model, optimizer, schedule, loader)
    checkpoint = options.results / "checkpoint.pt"
    if options.resume:
        resume(training, checkpoint)
    try:
        loop(options, training, held_out, checkpoint)
    except KeyboardInterrupt:
        way = "nothing was saved yet; the same command starts again"
        if training.saved:
            way = f"step {training.saved} is saved; the same command with --resume continues there"
            way += ", as `make train-demo` does"
        done = len(training.losses)
        raise KeyboardInterrupt(f"after step {done}: {way}") from None
    return training


def loop(
    options: argparse.Namespace, training: Training, held_out: DataSet, checkpoint: Path
) -> None:
    """Train, validate and save, up to the last step."""
    began = time.monotonic()
    loader = training.loader
    while (done := len(training.losses)) < options.steps:
        for step, batch in enumerate(islice(loader, options.steps - done), done + 1):  # of an epoch
            training.step(batch)
            if step % options.save_every == 0 or step == options.steps:
                same = open_loader(held_out, options.batch_size, options.seed, shuffle=False)
                training.validate(same, options.validation_batches)  # with the same masks each time
                training.save(checkpoint)
                report(training, time.monotonic() - began)


def resume(training: Training, checkpoint: Path) -> None:
    """Restore the state of a checkpoint.

    Raises:
        UserError: there is none, or it belongs to another run.
    """
    if not checkpoint.exists():
        cause = f"there is no checkpoint, {checkpoint}"
        raise UserError("--resume", cause, "Leave it out, or name the --results of the other run")
    try:
        training.load(checkpoint)
    except (RuntimeError, ValueError, LookupError, EOFError, pickle.UnpicklingError, UserError):
        cause = f"{checkpoint} is damaged, or belongs to another data set or model"
        raise UserError("--resume", cause, "Leave it out, or remove the checkpoint") from None
    print(f"continued after step {len(training.losses)}", flush=True)


def report(training: Training, seconds: float) -> None:
    """Print the progress."""
    recent, held_out = training.recent(), training.validation[-1]
    print(
        f"step {held_out.step:5}  masked {recent.mlm:.2f}, held out {held_out.mlm:.2f}  "
        f"next sentence {recent.nsp:.2f}, held out {held_out.nsp:.2f}  {seconds:4.0f} s",
        flush=True,
    )


def conclude(options: argparse.Namespace, training: Training) -> None:
    """Plot the losses, and print them with those of guessing."""
    data_set = DataSet(options.data)
    vocab_size = data_set.manifest.tokenizer.vocab_size
    some = data_set.take(np.arange(min(len(data_set), 10_000)))
    masked = collator_for(data_set).prepare(some)  # if they are stored unmasked
    guessing = find_baselines(masked, vocab_size)
    parameters, plot = training.model.num_parameters(), options.results / "losses.png"
    title = f"BERT of {parameters:,} parameters, {len(data_set):,} examples, {vocab_size:,} ids"
    draw_losses(plot, title, training.losses, training.validation, guessing)
    recent, held_out = training.recent(), training.validation[-1]
    print(judge("masked language model", recent.mlm, held_out.mlm, guessing.frequency_mlm))
    print(judge("next sentence", recent.nsp, held_out.nsp, guessing.lengths_nsp))
    print(f"{len(training.losses)} steps; the losses are plotted in {plot}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, and return the exit status."""
    options = parse_arguments(arguments)
    try:
        open_data(options)
        options.results.mkdir(parents=True, exist_ok=True)
        conclude(options, train(options))
    except (UserError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(f"interrupted {stop}", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
