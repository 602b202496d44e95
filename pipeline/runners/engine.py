"""An engine that runs our job, as an abstract class, with the checks that hold for every engine."""

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from corpusmill.corpus.hub_data_sets import WIKITEXT
from corpusmill.errors import UserError, option
from corpusmill.location import scheme_of
from pipeline.console.progress import Counters
from pipeline.job_options import RunOptions
from pipeline.runners.failures import (
    JobCancelledError,
    JobFailedError,
    WorkerDiedError,
    raise_explained,
)

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.portability.api import endpoints_pb2
    from google.protobuf import struct_pb2

_SECONDS_TO_ANSWER = 10.0

_LONGEST_RANGE_BYTES, _SHORTEST_RANGE_BYTES = 64 * 2**20, 2**20
# Engines deal ranges out in advance, the same number to each worker.
_RANGES_PER_WORKER = 8


class Reach(Enum):
    """Which files the workers of an engine can open."""

    HERE = "all files of this machine"
    SHARED = "folders that every machine mounts at the same path, and object stores"
    STORES = "object stores"


@dataclass(frozen=True)
class Submitted:
    """A job that an engine has accepted.

    Attributes:
        done: whether it has ended; False if the command did not wait for it.
        job_id: the engine's name for it; empty if it has none.
        url: the page on which it can be watched; empty if there is none.
        dry: whether it was only translated, and nothing will run.
    """

    done: bool = True
    job_id: str = ""
    url: str = ""
    dry: bool = False


class Worker(ABC):
    """A process that waits for its environment, and then works for an engine."""

    def begin(
        self,
        control: "endpoints_pb2.ApiServiceDescriptor",
        options: "struct_pb2.Struct",
        name: str,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Let it work.

        Args:
            control: address of the engine's control service.
            options: Beam's own options.
            name: the worker's id on the engine.
            variables: more of its environment.

        Raises:
            BrokenPipeError: the process has died.
        """
        from google.protobuf import json_format, text_format  # noqa: PLC0415  imported by Beam

        self.send(
            {
                "CONTROL_API_SERVICE_DESCRIPTOR": text_format.MessageToString(control),
                "PIPELINE_OPTIONS": json_format.MessageToJson(options),
                "WORKER_ID": name,
                **(variables or {}),
            }
        )

    @abstractmethod
    def send(self, environment: dict[str, str]) -> None:
        """Give it its environment, by which it begins.

        Raises:
            BrokenPipeError: the process has died.
        """

    @abstractmethod
    def wait(self, seconds: float | None = None) -> str:
        """Wait for its end, and return how it failed; empty if it did not, or has not ended."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once."""

    @property
    def is_compiling(self) -> bool:
        """Whether it has compiled a kernel."""
        return False


@dataclass(frozen=True)
class WorkerProcess(Worker):
    """A process of this machine.

    Attributes:
        process: the process.
        environment: the connection at which it waits.
        compiling: a pipe that is never read, into which the workers write when they compile a
            kernel. Unlike shared memory it needs no /dev/shm.
    """

    process: BaseProcess
    environment: Connection
    compiling: tuple[Connection, Connection]

    def send(self, environment: dict[str, str]) -> None:
        """Give it its environment, as `Worker.send`."""
        self.environment.send(environment)
        self.environment.close()

    def wait(self, seconds: float | None = None) -> str:
        """Wait for its end, as `Worker.wait`. A worker that Beam asks to end exits with 0."""
        self.process.join(seconds)
        return f"exit status {self.process.exitcode}" if self.process.exitcode else ""

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()

    @property
    def is_compiling(self) -> bool:
        """Whether it, or another one of this machine, has compiled a kernel."""
        return self.compiling[0].poll()


@dataclass(frozen=True)
class Run:
    """One run of a pipeline.

    Attributes:
        build: adds the job's stages to a pipeline.
        counters: filled while the job runs.
        temp_folder: the folder of the job's temporary files; empty if unknown.
        workers: what `Engine.start_workers` started.
        announce: called once an engine elsewhere has accepted the job.
        late_arguments: options for Beam that are only known once the job starts.
    """

    build: Callable[["beam.Pipeline"], None]
    counters: Counters
    temp_folder: str = ""
    workers: Sequence[Worker] = ()
    announce: Callable[[Submitted], None] = lambda _: None
    late_arguments: tuple[str, ...] = ()


class Engine(ABC):
    """An engine, set up for one run.

    Args:
        options: where and how the job runs.
        beam_arguments: options for Beam itself, as the user gave them.
        places: (option, path) of every place that workers open.

    Attributes:
        ours: the options for Beam that we set because the user did not.
        arguments: all options for Beam, ours and the user's.
        flags: their values by name, as Beam parses them, without Beam's own defaults.
    """

    # A retried shard is built again from the start. A larger one takes hours.
    largest_shard_bytes: ClassVar[float] = 16 * 2**30

    def __init__(
        self,
        options: RunOptions,
        beam_arguments: Sequence[str] = (),
        places: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.options, self.places = options, tuple(places)
        self.flags = _parse_flags(beam_arguments)
        set_by_user = {argument.partition("=")[0] for argument in beam_arguments}
        set_by_user.discard("--experiments")  # Beam collects those of both
        self.ours = tuple(
            f"--{name}={value}" if value else f"--{name}"
            for name, value in self.defaults().items()
            if f"--{name}" not in set_by_user
        )
        # The last one counts.
        self.arguments = (*self.ours, *beam_arguments)
        self.flags = _parse_flags(self.arguments)

    @property
    def name(self) -> str:
        """Beam's name for the engine."""
        return self.options.runner

    def defaults(self) -> dict[str, str]:
        """Return the options that Beam should get unless the user sets them; "" is no value."""
        return {}

    @property
    @abstractmethod
    def reach(self) -> Reach:
        """Which files its workers can open."""

    @property
    def unused_packages(self) -> tuple[str, ...]:
        """Packages that Beam imports if they are installed, and that a run of it does not use."""
        return ()

    @property
    def parallelism(self) -> int | None:
        """How many tasks run at once; None if unknown."""
        return None

    @property
    def remark(self) -> str:
        """What the user should know of how the options are used; empty if nothing."""
        return ""

    def choose_range_bytes(self, input_bytes: int) -> int:
        """Return the longest range: the user's choice, or one that lets workers end together.

        Args:
            input_bytes: the size of the input.
        """
        longest = self.options.range_bytes or _LONGEST_RANGE_BYTES
        even = input_bytes // ((self.parallelism or 1) * _RANGES_PER_WORKER)
        return min(longest, max(_SHORTEST_RANGE_BYTES, even))

    @property
    @abstractmethod
    def reason_to_wait(self) -> str:
        """Why the job ends with this process; empty if it continues without it."""

    def load(self, text_bytes: int) -> None:  # noqa: B027  most are loaded with their class
        """Import what the engine submits a job of so much text with."""

    def check_options(self) -> None:  # noqa: B027  most need none
        """Refuse options with which the job would fail or hang on this engine.

        Raises:
            UserError: for the first such option.
        """

    def count_workers(self, text_bytes: int) -> int:  # noqa: ARG002
        """Return how many workers do a job of so much text, as far as it is known before."""
        return self.parallelism or self.options.workers

    def suit_work(self, tasks: int, text_bytes: int) -> tuple[str, ...]:  # noqa: ARG002
        """Return options for Beam that depend on how much there is to do.

        Args:
            tasks: the number of tasks; 0 if unknown.
            text_bytes: the size of the text.
        """
        return ()

    def start_workers(self, text_bytes: int) -> Sequence[Worker]:  # noqa: ARG002
        """Start the worker processes that must exist before this process has any other thread."""
        return []

    @abstractmethod
    def submit(self, run: Run) -> Submitted:
        """Submit a job and, unless --no-wait is set, wait for its end."""

    def check(self) -> None:
        """Refuse, before the job is submitted, what would fail or hang.

        Raises:
            UserError: the engine cannot run the job.
        """
        self._check_places()
        if self.reason_to_wait and not self.options.wait:
            raise UserError(
                f"{option('wait', False)} {option('runner', self.options.runner)}",
                self.reason_to_wait,
                f"Leave {option('wait', False)} out, or name an engine and workers that "
                "outlive this command "
                "(a --job_endpoint, and an --environment_type other than LOOPBACK)",
            )
        self.check_options()
        self._check_endpoint()

    def check_shards(self, shards: int, built_bytes: int) -> None:
        """Refuse shards that are too large for one worker.

        Args:
            shards: their number; 0 if none are built.
            built_bytes: size of the text, counted once for each repeat.

        Raises:
            UserError: the user chose too few shards.
        """
        if shards and built_bytes > shards * self.largest_shard_bytes:
            raise UserError(
                option("num_shards"),
                f"one worker builds a shard, and each of {shards:,} shards would be built from "
                f"{built_bytes / shards / 2**30:,.0f} GB of text",
                f"Give {-(-built_bytes // int(self.largest_shard_bytes)):,} or more, or leave the "
                "flag out",
            )

    def run(self, run: Run) -> Submitted:
        """Run a job.

        Raises:
            UserError: the job found a mistake of the user's.
            WorkerDiedError: a worker process on this machine died.
            JobFailedError: the job failed for a known reason.
            JobCancelledError: somebody else cancelled the job.
        """
        from pipeline.runners.beam_pipelines import plain_pipelines  # noqa: PLC0415  imports Beam

        try:
            with plain_pipelines():
                return self.submit(run)
        except (UserError, WorkerDiedError, JobFailedError, JobCancelledError):
            raise
        except Exception as error:
            raise_explained(error)
            raise

    def _check_places(self) -> None:
        if self.reach is Reach.HERE:
            return
        for name, path in self.places:
            if scheme_of(path) is not None or path in WIKITEXT:
                continue
            if self.reach is Reach.STORES:
                cause = "run elsewhere and cannot open a local path"
                cure = "Give a path in an object store, such as gs://bucket/folder"
            elif not Path(path).expanduser().is_absolute():
                cause = "may run elsewhere, where a relative path names another file"
                cure = "Give an absolute path that all machines mount, or a path in an object store"
            else:
                continue
            runner = self.options.runner
            shown = option(name, path, is_flag=name not in {"data_set", "folder"})
            raise UserError(shown, f"the workers of {runner} {cause}", cure)

    def _check_endpoint(self) -> None:
        """Refuse a job server that does not answer: Beam would silently wait for five minutes."""
        endpoint = self.flags.get("job_endpoint", "")
        host, _, port = endpoint.rpartition(":")
        if not (host and port.isdigit()):
            return
        try:
            socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_ANSWER).close()
        except (OSError, OverflowError) as error:
            raise UserError(
                f"--job_endpoint={endpoint}",
                f"there is no answer from that address ({error})",
                "Start the job server, or give its address",
            ) from None


def _parse_flags(arguments: Sequence[str]) -> dict[str, Any]:
    if not arguments:  # it takes 20 ms
        return {}
    from apache_beam.options.pipeline_options import PipelineOptions  # noqa: PLC0415

    options = PipelineOptions(list(arguments))
    return dict(options.get_all_options(drop_default=True, retain_unknown_options=True))
