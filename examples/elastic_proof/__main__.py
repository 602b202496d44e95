"""The elastic proof: one small model and one loss curve, whatever happens to its processes.

    python -m examples.elastic_proof [DATA ...] [--results elastic-proof] [--readers map streaming]

A small model is trained twice: by one process that is never stopped, and by 8, then 2, then 6
processes with other workers and batch sizes, which are killed by SIGKILL in the middle of a step
and resumed from a checkpoint some steps older. This is done for each way to read: map style,
streaming, and our loader. All of this must be equal, bit by bit:

- the samples of each step, what the model gets of them (masked ids, places, pieces, targets), the
  loss of each row and of each step, and the weights, while the product of ranks and batch size
  stays the same;
- the sequence of samples, and for each what an untrained model gets and its loss, where that
  product changes too ("rows" in the table).

Steps that a kill undid are compared as well: made again, they give the same. Without DATA, data
sets are built from the bundled sample: packed rows for GPT, and for BERT pairs and packed rows
whose masks are drawn when they are read, differently in each epoch. The exit status is 1 if
anything differs; `model` says why equal bits can be expected at all.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from corpusmill import DataSet, UserError
from corpusmill.extending import ANY_LENGTH
from examples.elastic_proof.comparison import Counts, compare_rows, compare_steps, count_samples
from examples.elastic_proof.data_sets import NAMES, build_data_sets
from examples.elastic_proof.ranks import Task
from examples.elastic_proof.reading import READERS, Division
from examples.elastic_proof.training import Phase, Run, train

# Enough for two kills; masks differ from the first epoch to the second.
_FEWEST, _FEWEST_STEPS, _FEWEST_EPOCHS = 150, 8, 2
_LEARNING_RATE = 8.0
_RANKS, _WORKERS = (8, 2, 6), (1, 2, 0)
# Batch sizes where their product with the ranks changes, too.
_OTHER_SIZES = (3, 17, 7)

_HEADINGS = (
    "data", "reader", "compared", "ranks x batch", "workers", "steps", "killed in", "undone",
    "lost", "repeated", "equal",
)  # fmt: skip
_LINE = "{:<19} {:<9} {:<8} {:<14} {:<7} {:>5} {:>9} {:>6} {:>4} {:>8} {:>5}"


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser("elastic_proof", description="The elastic proof.")
    parser.add_argument("data", nargs="*", type=Path, help="folders of data sets of gpt or bert")
    parser.add_argument("--results", type=Path, default=Path("elastic-proof"), help="a folder")
    parser.add_argument("--readers", nargs="+", choices=READERS, default=list(READERS))
    return parser.parse_args(arguments)


def choose_global_batch(samples: int) -> int:
    """Return the rows of a step, which all numbers of ranks divide.

    The last step of an epoch shares what is left. If that were less than a row for each rank, the
    step before would take it in, and fewer ranks would divide the epoch otherwise than more.

    Raises:
        UserError: there are too few samples.
    """
    sizes: list[int] = [48, 24, *range(72, samples, 24)]
    for size in sizes:
        if samples >= _FEWEST and (samples % size == 0 or samples % size >= max(_RANKS)):
            return size
    cause = "a run must still be at it when it is killed for the second time"
    raise UserError(f"{samples} samples", cause, f"Give a data set of {_FEWEST} or more")


def plan_phases(global_batch: int | None) -> list[Phase]:
    """Return the phases of a run that is killed, whose steps have this size, or change theirs."""
    sizes: Sequence[int] = _OTHER_SIZES
    if global_batch is not None:
        sizes = tuple(global_batch // ranks for ranks in _RANKS)
    divisions = map(Division, _RANKS, _WORKERS, sizes)
    # The checkpoint is then two steps old, and then one.
    return [Phase(*phase) for phase in zip(divisions, (5, 4, None), strict=True)]


class Result(NamedTuple):
    """What one run has shown.

    Attributes:
        name: the data set, the reader, and what is compared.
        phases: its phases.
        run: its steps.
        counts: the samples that were lost and repeated.
        differences: what is not equal, in sentences.
    """

    name: tuple[str, str, str]
    phases: Sequence[Phase]
    run: Run
    counts: Counts
    differences: Sequence[str]

    @property
    def is_proof(self) -> bool:
        """Whether all is as it should be."""
        return not self.differences and not any(self.counts)

    def cells(self) -> list[str]:
        """Return its row of the table."""
        _, reader, _ = self.name
        divisions = [phase.division for phase in self.phases]
        return [
            *self.name,
            " ".join(f"{each.ranks}x{each.batch_size}" for each in divisions),
            " ".join("0" if reader == "loader" else str(each.workers) for each in divisions),
            str(len(self.run.steps)),
            " ".join(str(undone.begin + len(undone.steps) + 1) for undone in self.run.undone),
            " ".join(str(len(undone.steps)) for undone in self.run.undone),
            *map(str, self.counts),
            "no" if self.differences else "yes",
        ]


def prove(data: Path, results: Path, readers: Sequence[str]) -> Iterator[Result]:
    """Yield what each run of a data set shows.

    Raises:
        UserError: its rows are not what the model takes, or too few.
    """
    samples = DataSet(data)
    size, manifest = len(samples), samples.manifest
    if manifest.objective.name not in {"gpt", "bert"} or manifest.columns[0].width == ANY_LENGTH:
        cause = "the model takes rows of gpt or bert that have a greatest length"
        raise UserError(str(data), cause, "Give a data set of gpt --mode pack or of bert")
    global_batch = choose_global_batch(size)
    epochs = max(_FEWEST_EPOCHS, -(-_FEWEST_STEPS * global_batch // size))
    whole = [Phase(Division(1, 0, global_batch))]
    for kind, learning_rate, phases, compare in (
        ("curve", _LEARNING_RATE, plan_phases(global_batch), compare_steps),
        ("rows", 0.0, plan_phases(None), compare_rows),
    ):
        task = Task(data, results / "work" / data.name, "loader", learning_rate)
        reference = train(task, whole, epochs * size)
        if kind == "curve":
            first, *_, last = (float.fromhex(step.loss) for step in reference.steps)
            print(f"{data.name}: the loss of one process goes from {first!r} to {last!r}")
        for reader in readers:
            run = train(replace(task, reader=reader), phases, epochs * size)
            counts = count_samples(run.rows, size, epochs)
            differences = list(compare(run, reference))
            yield Result((data.name, reader, kind), phases, run, counts, differences)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove all, print a table, and return the exit status."""
    options = parse_arguments(arguments)
    status = 0
    try:
        folders = options.data or build_data_sets(options.results, NAMES)
        print(_LINE.format(*_HEADINGS))
        for data in folders:
            for result in prove(data, options.results, options.readers):
                print(_LINE.format(*result.cells()), flush=True)
                for difference in result.differences:
                    print(f"{' '.join(result.name)}: {difference}", file=sys.stderr)
                status = status if result.is_proof else 1
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("something differs" if status else "all equal, bit by bit")
    return status


if __name__ == "__main__":
    sys.exit(main())
