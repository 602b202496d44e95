"""One rank: a process that reads its part of each batch, and trains with the sum of all ranks."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from corpusmill import Batches
from examples.elastic_proof.model import SmallModel
from examples.elastic_proof.reading import (
    READERS,
    Division,
    is_causal,
    open_batches,
    split_rows,
)


@dataclass(frozen=True)
class Task:
    """What the ranks do.

    Attributes:
        data: the folder of the data set.
        work: a folder for the checkpoint and for unpacked shards.
        reader: the name of a way to read.
        learning_rate: 0 leaves the weights as they are.
    """

    data: Path
    work: Path
    reader: str
    learning_rate: float

    @property
    def checkpoint(self) -> Path:
        """The file from which ranks resume."""
        return self.work / "checkpoint.pt"

    def open_batches(self, batch_size: int) -> Batches:
        """Return the batches that all ranks share."""
        return open_batches(self.data, self.work / "unpacked", batch_size)

    def load(self) -> dict[str, Any] | None:
        """Return the step, the number, the weights and the reader's state, if they were saved."""
        if not self.checkpoint.exists():
            return None
        saved: dict[str, Any] = torch.load(self.checkpoint, weights_only=True)
        return saved


class Row(NamedTuple):
    """What a rank has read and computed of one row.

    Attributes:
        epoch: the epoch in which it is read.
        sample: its number in the data set.
        content: a digest of what the model gets: masked ids, places, pieces and targets.
        loss: the sum of its tokens' losses, as an integer.
        tokens: the number of tokens that are predicted.
    """

    epoch: int
    sample: int
    content: str
    loss: int
    tokens: int


class Contribution(NamedTuple):
    """What a rank sends in each step.

    Attributes:
        rows: its rows, in the order of its batch.
        gradient: int64[parameters], the sum over these rows.
        weights: a digest of the weights before the step.
        number: how many samples all ranks have read after the step.
    """

    rows: list[Row]
    gradient: npt.NDArray[np.int64]
    weights: str
    number: int


class Total(NamedTuple):
    """What each rank gets in return: the sums over all ranks, and whether to save afterwards."""

    gradient: npt.NDArray[np.int64]
    tokens: int
    saved_step: int | None


def work(
    task: Task, division: Division, rank: int, pipes: Sequence[tuple[Connection, Connection]]
) -> None:
    """Run a rank until it is killed.

    Args:
        task: what it does.
        division: of the batches.
        rank: its number.
        pipes: to all ranks, the end of the first process and the rank's own.
    """
    # The rank and its workers are one group of processes, which is killed as a machine fails.
    os.setpgrp()
    connection = pipes[rank][1]
    for end in (end for pipe in pipes for end in pipe if end is not connection):
        end.close()  # so that the ranks notice when the first process ends
    torch.set_num_threads(1)
    try:
        _Rank(task, division, rank).train(connection)
    except (EOFError, ConnectionError):
        return  # the first process has ended


class _Rank:
    def __init__(self, task: Task, division: Division, rank: int) -> None:
        self._task, self._rank = task, rank
        batches = task.open_batches(division.batch_size)
        manifest = batches.samples.manifest
        width, vocab_size = manifest.columns[0].width, manifest.tokenizer.vocab_size
        self._model = SmallModel(vocab_size, width, is_causal(batches.samples))
        self._reader = READERS[task.reader](batches, rank, division)
        if saved := task.load():
            self._model.load_weights(saved["weights"])
            self._reader.load_state_dict(saved["reader"])

    def train(self, connection: Connection) -> None:
        while True:  # an epoch, or the rest of one
            for taken, batch in enumerate(self._reader.batches, 1):
                state = self._reader.state_after(taken)
                connection.send(self._contribute(batch, state["number"]))
                total: Total = connection.recv()
                self._model.step(total.gradient, total.tokens, self._task.learning_rate)
                if total.saved_step is not None and self._rank == 0:
                    self._save(total.saved_step, state)

    def _contribute(self, batch: Mapping[str, Tensor], number: int) -> Contribution:
        rows, gradients, weights = [], [], self._model.digest()
        keys = zip(batch["epoch"].tolist(), batch["sample"].tolist(), strict=True)
        for (epoch, sample), row in zip(keys, split_rows(batch), strict=True):
            result = self._model.measure_row(row)
            rows.append(Row(epoch, sample, _digest(row), result.loss, result.tokens))
            gradients.append(result.gradient)
        return Contribution(rows, np.sum(gradients, 0), weights, number)

    def _save(self, step: int, state: Mapping[str, Any]) -> None:
        """Write a checkpoint; it replaces another one only when it is complete."""
        partial = self._task.checkpoint.with_suffix(".partial")
        weights = self._model.weights()
        torch.save({"step": step, "weights": weights, "reader": dict(state)}, partial)
        partial.replace(self._task.checkpoint)


def _digest(row: Mapping[str, Tensor]) -> str:
    arrays = (row[name].contiguous().numpy().tobytes() for name in sorted(row))
    return hashlib.sha256(b"".join(arrays)).hexdigest()
