"""One run of a pipeline, as every engine takes it, and what comes back."""

from collections.abc import Callable
from dataclasses import dataclass, field

import apache_beam as beam

from pipeline.console.progress import Counters
from pipeline.runners.local.workers import Worker


@dataclass(frozen=True)
class Submitted:
    """A job that was given to an engine.

    Attributes:
        done: whether it has ended; False for a job that nobody waited for.
        job_id: the engine's name for it; empty where it has none.
        url: where it is watched; empty where there is no such place.
        dry: whether it was only translated, so that nothing runs and nothing will.
    """

    done: bool = True
    job_id: str = ""
    url: str = ""
    dry: bool = False


def _tell_nobody(_: Submitted) -> None:
    """Nobody asked."""


@dataclass(frozen=True)
class Run:
    """One run of a pipeline.

    Attributes:
        build: adds the job to a pipeline.
        runner: Beam's name of the runner.
        beam_arguments: Beam's own options, those that we set among them.
        counters: filled while the job runs.
        workers: processes of the local runner; without any it runs in this process.
        wait: whether to wait for the end.
        temp_folder: of the job's temporary files; empty where it is not known.
        patience: seconds without any progress after which a job elsewhere is given up; 0 for never.
        announce: is told of the job once an engine elsewhere has it.
        tied: whether the job ends with this process.
    """

    build: Callable[[beam.Pipeline], None]
    runner: str
    beam_arguments: tuple[str, ...]
    counters: Counters
    workers: list[Worker] = field(default_factory=list)
    wait: bool = True
    temp_folder: str = ""
    patience: int = 0
    announce: Callable[[Submitted], None] = _tell_nobody
    tied: bool = False
