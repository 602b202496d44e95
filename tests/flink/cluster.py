"""A real Flink cluster on this machine: a JobManager, TaskManagers, and a worker pool beside each.

The program is Flink's own, the configuration that of `deploy/flink`. Each TaskManager has a
"localhost" of its own (127.0.0.2, 127.0.0.3, ...), where its worker pool listens at port 50000, so
that the very options of a cluster of machines hold.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import requests

from tests.conftest import CHECKOUT

CONFIGURATION = CHECKOUT / "deploy" / "flink"
_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_SIZES = "org.apache.flink.runtime.util.bash.BashJavaUtils"
_RESULT = "BASH_JAVA_UTILS_EXEC_RESULT:"
# Flink serializes by reflection, which newer versions of Java close.
_OPENED = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in (
        "java.io", "java.lang", "java.lang.invoke", "java.lang.reflect", "java.net", "java.nio",
        "java.text", "java.time", "java.util", "java.util.concurrent",
        "java.util.concurrent.atomic", "java.util.concurrent.locks", "sun.net.util", "sun.nio.ch",
    )
)  # fmt: skip
POOL_PORT = 50000

# A test's job is over before a JVM has compiled it well.
QUICK_TO_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class Cluster:
    """A JobManager and TaskManagers with their worker pools; whatever dies is started again.

    Args:
        distribution: the folder of Flink's jars.
        folder: for logs and temporary files.
        task_managers: how many.
    """

    def __init__(self, distribution: Path, folder: Path, task_managers: int = 2) -> None:
        self._distribution, self._folder = distribution, folder
        self._jars = ":".join(str(jar) for jar in sorted((distribution / "lib").glob("*.jar")))
        self._numbers = range(task_managers)
        self._rpc_port, self._rest_port = free_port(), free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, tuple[list[str], dict[str, str]]] = {}
        self._ending = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)
        self.restarts = 0

    @property
    def rest(self) -> str:
        """Address of the REST interface."""
        return f"127.0.0.1:{self._rest_port}"

    @property
    def task_managers(self) -> list[int]:
        """Process ids of the TaskManagers."""
        return [self._processes[f"taskmanager-{number}"].pid for number in self._numbers]

    def workers(self, number: int | None = None) -> list[int]:
        """Process ids of the Python workers that live, of one pool or of all."""
        numbers = self._numbers if number is None else [number]
        results = []
        for place in numbers:
            with suppress(psutil.NoSuchProcess):
                pool = psutil.Process(self._processes[f"pool-{place}"].pid)
                # The pool does not bury those that were killed.
                results += [
                    entry.pid for entry in pool.children() if entry.status() != psutil.STATUS_ZOMBIE
                ]
        return results

    def processes(self) -> list[psutil.Process]:
        """All processes, those of the workers among them."""
        results = []
        for process in list(self._processes.values()):
            with suppress(psutil.NoSuchProcess):
                parent = psutil.Process(process.pid)
                results += [parent, *parent.children(recursive=True)]
        return results

    def start(self) -> None:
        """Start everything and wait until the slots are there."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._start_java("jobmanager", _JOB_MANAGER, "GET_JM_RESOURCE_PARAMS", ())
        for number in self._numbers:
            hosts = self._folder / f"hosts-{number}"
            hosts.write_text(f"127.0.0.{number + 2} localhost\n127.0.0.1 {socket.gethostname()}\n")
            self._start_java(
                f"taskmanager-{number}", _TASK_MANAGER, "GET_TM_RESOURCE_PARAMS",
                (f"-Djdk.net.hosts.file={hosts}",), f"-Dtaskmanager.resource-id=machine-{number}",
            )  # fmt: skip
            self._start_pool(number)
        self._supervisor.start()
        self.await_slots()

    def stop(self) -> None:
        """End everything."""
        self._ending.set()
        if self._supervisor.is_alive():
            self._supervisor.join()
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        for program in self._processes.values():
            program.wait()

    def await_slots(self, seconds: float = 240) -> None:
        """Wait until every TaskManager has registered and every slot is free."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with suppress(requests.RequestException):
                overview = requests.get(f"http://{self.rest}/overview", timeout=10).json()
                free = overview["slots-available"] == overview["slots-total"]
                if overview["taskmanagers"] == len(self._numbers) and free:
                    return
            time.sleep(0.5)
        raise RuntimeError(f"the cluster did not come up; its logs are in {self._folder}")

    def _start_java(
        self, name: str, main: str, sizes: str, options: Sequence[str], *further: str
    ) -> None:
        places = {
            "jobmanager.rpc.address": "127.0.0.1",
            "jobmanager.rpc.port": self._rpc_port,
            "jobmanager.bind-host": "127.0.0.1",
            "rest.address": "127.0.0.1",
            "rest.bind-address": "127.0.0.1",
            "rest.port": self._rest_port,
            "taskmanager.host": "127.0.0.1",
            "taskmanager.bind-host": "127.0.0.1",
            "io.tmp.dirs": self._folder,
            "blob.storage.directory": self._folder,
            "web.tmpdir": self._folder,
        }
        arguments = [
            "--configDir",
            str(CONFIGURATION),
            *(f"-D{key}={place}" for key, place in places.items()),
        ]
        arguments += further
        jvm, sized = self._measure(sizes, arguments)
        # The same largest heap, but allocated as needed, because all processes share a machine.
        jvm = [option for option in jvm if not option.startswith("-Xms")]
        java = ["java", *QUICK_TO_START, *jvm, *_OPENED, *options, "-cp", self._jars]
        self._run(name, [*java, main, *arguments, *sized], {})

    def _measure(self, what: str, arguments: list[str]) -> tuple[list[str], list[str]]:
        """Options of Java and of Flink that follow from the sizes, by Flink's own program."""
        jars = f"{self._distribution / 'bin' / 'bash-java-utils.jar'}:{self._jars}"
        command = ["java", *QUICK_TO_START, "-cp", jars, _SIZES, what, *arguments]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        lines = [line.split(_RESULT)[1].split() for line in output.splitlines() if _RESULT in line]
        return lines[0], lines[1]

    def _start_pool(self, number: int) -> None:
        program = ["-m", "pipeline.runners.flink.pool", f"127.0.0.{number + 2}:{POOL_PORT}"]
        command = [sys.executable, *program]
        # The environment's own programs are not on the search path.
        self._run(f"pool-{number}", command, {"PYTHONPATH": str(CHECKOUT), "PATH": "/usr/bin:/bin"})

    def _run(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        self._commands[name] = command, environment
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, env={**os.environ, **environment}, stdout=log, stderr=log,
                cwd=self._folder,
            )  # fmt: skip

    def _supervise(self) -> None:
        while not self._ending.wait(0.5):
            for name, process in list(self._processes.items()):
                if process.poll() is not None and not self._ending.is_set():
                    self.restarts += 1
                    self._run(name, *self._commands[name])


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def started_cluster(distribution: Path, folder: Path, task_managers: int = 2) -> Iterator[Cluster]:
    """A cluster for the length of a block."""
    cluster = Cluster(distribution, folder, task_managers)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
