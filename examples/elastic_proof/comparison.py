"""What differs between a run that was killed and one that never was."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from examples.elastic_proof.ranks import Row
from examples.elastic_proof.training import Run, Step

_NAMES = {
    "sample": "is another sample",
    "epoch": "is read in another epoch",
    "content": "has other masked ids, places, pieces or targets",
    "tokens": "predicts another number of tokens",
    "loss": "has another loss",
}


class Counts(NamedTuple):
    """Samples of whole epochs that were not read once.

    Attributes:
        lost: never read, over all epochs.
        repeated: readings after the first in the same epoch.
    """

    lost: int
    repeated: int


def count_samples(rows: Sequence[Row], samples: int, epochs: int) -> Counts:
    """Count the samples that were lost and repeated.

    Args:
        rows: all that was read and counts.
        samples: the size of the data set.
        epochs: how often it was to be read.
    """
    read = Counter((row.epoch, row.sample) for row in rows)
    expected = {(epoch, sample) for epoch in range(epochs) for sample in range(samples)}
    repeated = sum(times - 1 for key, times in read.items() if key in expected)
    return Counts(len(expected - read.keys()), repeated)


def compare_steps(run: Run, reference: Run) -> Iterator[str]:
    """Yield a sentence for each part of a run whose steps are not, bit for bit, the reference's.

    Steps that were undone and made again are compared in both forms.
    """
    yield from run.problems
    yield from _compare_stretch(run.steps, reference.steps, 0)
    if len(run.steps) != len(reference.steps):
        yield f"there are {len(run.steps)} steps, and not {len(reference.steps)}"
    for undone in run.undone:
        same = reference.steps[undone.begin : undone.begin + len(undone.steps)]
        yield from _compare_stretch(undone.steps, same, undone.begin)


def compare_rows(run: Run, reference: Run) -> Iterator[str]:
    """Yield sentences as `compare_steps` does, for runs whose steps are not equally large."""
    yield from run.problems
    yield from _compare_row_stretch(run.rows, reference.rows, "row")
    for undone in run.undone:
        begin = sum(len(step.rows) for step in run.steps[: undone.begin])
        rows = [row for step in undone.steps for row in step.rows]
        yield from _compare_row_stretch(rows, reference.rows[begin:], "undone row")


def _compare_stretch(steps: Sequence[Step], expected: Sequence[Step], begin: int) -> Iterator[str]:
    for number, (step, other) in enumerate(zip(steps, expected, strict=False), begin + 1):
        if step == other:
            continue
        yield from _compare_row_stretch(step.rows, other.rows, f"step {number}, row")
        if len(step.rows) != len(other.rows):
            yield f"step {number} has {len(step.rows)} rows, and not {len(other.rows)}"
        if step.weights != other.weights:
            yield f"step {number} begins with other weights"
        if step.loss != other.loss:
            losses = f"{float.fromhex(step.loss)!r}, and not {float.fromhex(other.loss)!r}"
            yield f"the loss of step {number} is {losses}"
        return  # all that follows differs, too


def _compare_row_stretch(rows: Sequence[Row], expected: Sequence[Row], name: str) -> Iterator[str]:
    for number, (row, other) in enumerate(zip(rows, expected, strict=False), 1):
        differences = [
            sentence for field, sentence in _NAMES.items()
            if getattr(row, field) != getattr(other, field)
        ]  # fmt: skip
        if differences:
            yield f"{name} {number} {differences[0]}"
            return
