"""A stand-in for launchers: it starts the same command as ranks, here or on simulated hosts.

A host is a network and a name of its own; its files are this machine's, as on a cluster whose nodes
mount one file system. Rank 0 runs on the first host.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from tests.conftest import CHECKOUT


class Launcher(NamedTuple):
    """The variables that hold the rank, the number of ranks, and of those on its host.

    They are empty for what a launcher does not say.
    """

    rank: str
    ranks: str
    on_host: str


SLURM = Launcher("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE")
TORCHRUN = Launcher("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
OPEN_MPI = Launcher("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")
# A busy machine starts ranks slowly, and a dead one is noticed in the time of a test.
PATIENCE = "seconds_to_meet=120 silent_seconds=4"
ONE_WORKER = ("--workers", "1", "--min-bytes-per-worker", "0")


@dataclass
class Ranks:
    """Processes that run.

    Attributes:
        processes: by rank.
        logs: what each has printed.
    """

    processes: list["subprocess.Popen[str]"]
    logs: list[Path]

    def wait(self) -> list[int]:
        """Wait for all, and return their exit statuses."""
        return [process.wait() for process in self.processes]

    def read(self, rank: int) -> str:
        """Return what a rank has printed, in one line."""
        return " ".join(self.logs[rank].read_text().split())

    def kill(self, rank: int) -> None:
        """Kill a rank, whose workers the system ends."""
        self.processes[rank].kill()

    def list_processes(self) -> list[psutil.Process]:
        """Return the processes of all ranks that run."""
        found = []
        for process in self.processes:
            if process.poll() is None:
                with suppress(psutil.NoSuchProcess):
                    own = psutil.Process(process.pid)
                    found += [own, *own.children(recursive=True)]
        return found

    def signal_all(self, number: int) -> None:
        """Send a signal to all processes, as Slurm does."""
        for process in self.list_processes():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def wait_for(self, folder: Path, pattern: str, number: int = 1) -> None:
        """Wait until a folder has so many files of a name, or rank 0 has ended."""
        while self.processes[0].poll() is None and len([*folder.rglob(pattern)]) < number:
            time.sleep(0.02)


@dataclass(frozen=True)
class Hosts:
    """Hosts that reach one another over a switch; without names, this machine alone.

    Attributes:
        folder: the working directory of commands, where their output goes.
        names: of the hosts' networks.
        variables: the environment of all commands.
    """

    folder: Path
    names: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def start(
        self,
        *command: str | Path,
        ranks: int,
        launcher: Launcher = SLURM,
        program: Sequence[str] = ("-m", "pipeline"),
    ) -> Ranks:
        """Start a command as so many ranks, dealt to the hosts in turn."""
        processes, logs, number = [], [], len(self.names) or 1
        for rank in range(ranks):
            place = rank % number
            own = {
                launcher.rank: str(rank),
                launcher.ranks: str(ranks),
                launcher.on_host: str(len(range(place, ranks, number))),
                "CORPUSMILL_THRESHOLDS": os.environ.get("CORPUSMILL_THRESHOLDS", PATIENCE),
                "PYTHONPATH": str(CHECKOUT),
            }
            own.pop("", None)
            log = self.folder / f"rank{rank}.txt"
            logs.append(log)
            words = [*self.within(place), sys.executable, *program, *map(str, command)]
            with log.open("w") as stream:
                process = subprocess.Popen(
                    words, cwd=self.folder, stdout=stream, stderr=subprocess.STDOUT, text=True,
                    env={**os.environ, **self.variables, **own},
                )  # fmt: skip
            processes.append(process)
        return Ranks(processes, logs)

    def run(self, *command: str | Path, ranks: int, launcher: Launcher = SLURM) -> Ranks:
        """Run a command as so many ranks, all of which must succeed."""
        job = self.start(*command, ranks=ranks, launcher=launcher)
        assert job.wait() == [0] * ranks, [job.read(rank) for rank in range(ranks)]
        return job

    def within(self, place: int) -> list[str]:
        """Return the words that run a command on a host, under its name."""
        if not self.names:
            return []
        # Each program becomes the next one, so that signals reach the command.
        rename = f'hostname host{place} && exec "$@"'
        enter = ["ip", "netns", "exec", self.names[place]]
        return [*enter, "unshare", "--uts", "sh", "-c", rename, "sh"]

    def cut_off(self, place: int, is_cut: bool = True) -> None:
        """Cut a host's cable, or mend it."""
        ip("-n", self.names[place], "link", "set", "cable", "down" if is_cut else "up")


@contextmanager
def connect(folder: Path, number: int = 3) -> Iterator[Hosts]:
    """Create hosts that a switch connects; the end of the block removes them."""
    if not shutil.which("ip") or not shutil.which("unshare"):
        report_missing("`ip` or `unshare` is missing: install iproute2 and util-linux")
    names = [f"corpusmill-{os.getpid()}-{place}" for place in range(number)]
    switch = f"corpusmill-{os.getpid()}-switch"
    with ExitStack() as stack:
        for name in (switch, *names):
            add_network(name, stack)
        ip("-n", switch, "link", "add", "switch", "type", "bridge")
        ip("-n", switch, "link", "set", "switch", "up")
        for place, name in enumerate(names):
            plug, peer = f"plug{place}", ("type", "veth", "peer", "name", "cable", "netns", name)
            ip("-n", switch, "link", "add", plug, *peer)
            ip("-n", switch, "link", "set", plug, "master", "switch")
            ip("-n", switch, "link", "set", plug, "up")
            ip("-n", name, "address", "add", f"10.7.0.{place + 1}/24", "dev", "cable")
            ip("-n", name, "link", "set", "cable", "up")
        yield Hosts(folder, names)


def add_network(name: str, stack: ExitStack) -> None:
    """Make a network that the end of a stack removes; skip the test where none may be made."""
    outcome = subprocess.run(
        ["ip", "netns", "add", name], capture_output=True, text=True, check=False
    )
    if outcome.returncode:
        pytest.skip(f"network namespaces are not allowed here: {outcome.stderr.strip()}")
    stack.callback(ip, "netns", "delete", name)
    ip("-n", name, "link", "set", "lo", "up")


def ip(*arguments: str) -> None:
    """Run `ip`."""
    subprocess.run(["ip", *arguments], check=True)


def report_missing(reason: str) -> None:
    """Skip the test, but fail it in continuous integration, where everything must be there."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def end_by(job: Ranks, number: int = signal.SIGTERM) -> list[int]:
    """Send all processes a signal, and return the statuses of the ranks."""
    job.signal_all(number)
    return job.wait()
