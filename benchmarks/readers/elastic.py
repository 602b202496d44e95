"""What is lost and repeated when training resumes with other ranks, workers and batch sizes.

    python -m benchmarks.readers.elastic [--folder FOLDER] [--samples 3011] [--only NAME]

One epoch is read in three phases: by 8 ranks for 20 steps, by 2 for 20 steps, and by 6 to its end.
After each phase the states are saved and the processes end; the next phase resumes from the states
in new processes. Where "ranks" change, those of a phase read 48 samples a step together (8 x 6,
2 x 24, 6 x 8); where "ranks, batch" change, also that does (8 x 3, 2 x 17, 6 x 7). Each rank has 1,
2 and 0 workers, if the library has any. A library that refuses this is measured again with 2
workers in all phases. That each is used rightly is shown by the rows where "nothing" changes: 6
ranks with 8 samples each.

"lost" are samples that no rank has read in the epoch, "repeated" are readings after the first. The
peers are those that are installed, and used as their documentation shows (`elastic_peers`). Ranks
are processes of one torch.distributed group. `python -m examples.elastic_proof` is the same for
our readers with kills, masks and a model.
"""

import os
import shutil
import signal
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import distributed

from benchmarks.builds import FOLDER
from benchmarks.console import make_parser, print_table, report
from benchmarks.readers.elastic_peers import PEERS, Peer, Place

STEPS = (20, 20, None)
_RANKS, _WORKERS, _EQUAL_WORKERS = (8, 2, 6), (1, 2, 0), (2, 2, 2)


class Change(NamedTuple):
    """What changes from phase to phase.

    Attributes:
        ranks: the ranks of the three phases.
        batch_sizes: the samples of a rank in a step.
        workers: the workers of a rank, and in their place if these are refused.
    """

    ranks: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    workers: tuple[tuple[int, ...], ...]


CHANGES = {
    "nothing": Change((6, 6, 6), (8, 8, 8), (_EQUAL_WORKERS,)),
    "ranks": Change(_RANKS, (6, 24, 8), (_WORKERS, _EQUAL_WORKERS)),
    "ranks, batch": Change(_RANKS, (3, 17, 7), (_WORKERS, _EQUAL_WORKERS)),
}

# A rank that has not sent its result by then waits for something that does not come.
_SECONDS = 120
_SECONDS_TO_END = 10


class Outcome(NamedTuple):
    """What became of an epoch.

    Attributes:
        lost: samples that were not read.
        repeated: readings after the first.
        ends: the steps of the ranks in the last phase, fewest and most; a training with an
            all-reduce stops at the fewest.
        refusal: why nothing was read; empty if all was.
    """

    lost: int = 0
    repeated: int = 0
    ends: tuple[int, int] = (0, 0)
    refusal: str = ""


def read_epoch(
    name: str, samples: int, folder: Path, change: Change, workers: Sequence[int]
) -> Outcome:
    """Read an epoch in three phases."""
    states: list[Any] = []
    read = Counter[int]()
    lengths: list[int] = []
    phases = zip(change.ranks, STEPS, change.batch_sizes, workers, strict=True)
    for ranks, steps, batch_size, number in phases:
        places = [
            Place(samples, folder, rank, ranks, number, batch_size, states, read.total())
            for rank in range(ranks)
        ]
        results = run_phase(PEERS[name], places, steps)
        problems = [result for result in results if isinstance(result, str)]
        if problems:
            return Outcome(refusal=problems[0])
        for batches, _ in results:
            read.update(sample for batch in batches for sample in batch)
        lengths = [len(batches) for batches, _ in results]
        states = [state for _, state in results]
    ends = min(lengths), max(lengths)
    return Outcome(samples - len(read), read.total() - len(read), ends)


def run_phase(peer: Peer, places: Sequence[Place], steps: int | None) -> list[Any]:
    """Run the ranks of a phase, and return the batches and the state of each, or a problem."""
    context = get_context("fork")
    meeting = places[0].work.with_name("meeting")
    meeting.unlink(missing_ok=True)
    pipes = [context.Pipe() for _ in places]
    processes = [
        context.Process(target=run_rank, args=(peer, place, steps, meeting, other))
        for place, (_, other) in zip(places, pipes, strict=True)
    ]
    for process in processes:
        process.start()
    results: list[Any] = []
    for own, _ in pipes:
        results.append(own.recv() if own.poll(_SECONDS) else f"nothing for {_SECONDS} s")
    for own, _ in pipes:
        own.send("end")
    for process in processes:
        process.join(_SECONDS_TO_END)
        assert process.pid
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.join()
    return results


def run_rank(
    peer: Peer, place: Place, steps: int | None, meeting: Path, connection: Connection
) -> None:
    """Read some steps, and send the batches and the state, or what an error says."""
    os.setpgrp()  # a group of its own with its workers, to be ended together
    variables = {"RANK": place.rank, "WORLD_SIZE": place.ranks, "LOCAL_RANK": place.rank}
    variables["LOCAL_WORLD_SIZE"] = place.ranks
    os.environ.update({name: str(value) for name, value in variables.items()})
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    distributed.init_process_group(
        "gloo", init_method=f"file://{meeting.resolve()}", rank=place.rank, world_size=place.ranks
    )
    try:
        reader = peer.open(place)
        batches = [[int(number) for number in batch] for batch in islice(reader.batches, steps)]
        connection.send((batches, reader.state() if steps else None))
    except Exception as error:
        first, *_ = [*str(error).strip().splitlines(), ""]
        connection.send(f"{type(error).__name__}: {first}".removesuffix(": "))
    connection.recv()  # libraries share memory among ranks until all have read


def list_cells(name: str, options: Any) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a library."""
    peer = PEERS[name]
    try:
        label = f"{name} ({peer.package} {version(peer.package)})"
    except PackageNotFoundError:
        yield name, "not installed", "", "", "", ""
        return
    for kind, change in CHANGES.items():
        for workers in change.workers if peer.has_workers else ((0, 0, 0),):
            folder = options.folder / "elastic"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            try:
                peer.write(options.samples, folder)
            except ImportError as error:
                yield label, "", "", f"not installed ({error})", "", ""
                return
            outcome = read_epoch(name, options.samples, folder, change, workers)
            row = (label, kind, " ".join(map(str, workers)), *show(outcome))
            report(" | ".join(row))
            yield row
            if not outcome.refusal:
                break


def show(outcome: Outcome) -> tuple[str, str, str]:
    """Return what the table says of an outcome."""
    if outcome.refusal:
        return "refused", outcome.refusal[:90], ""
    fewest, most = outcome.ends
    ends = str(most) if fewest == most else f"{fewest} to {most}"
    return f"{outcome.lost:,}", f"{outcome.repeated:,}", ends


def main() -> None:
    """Measure all and print the table."""
    parser = make_parser(__doc__, folder=FOLDER / "readers", samples=3011, only="")
    options = parser.parse_args()
    names: Mapping[str, Peer] = {name: PEERS[name] for name in PEERS if options.only in name}
    rows = [row for name in names for row in list_cells(name, options)]
    headings = ("", "what changes", "workers", "lost", "repeated", "last steps")
    print_table(headings, rows, f"an epoch of {options.samples:,} samples")


if __name__ == "__main__":
    main()
