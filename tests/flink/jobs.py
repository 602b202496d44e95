"""Jobs on Flink as a user starts them, and what they must give."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import grpc

from tests.conftest import CHECKOUT
from tests.flink.cluster import QUICK_TO_START, Cluster, free_port
from tests.tools.jobs import digests, leftovers

_TOKENIZERS = CHECKOUT / "tests" / "data"
OBJECTIVES = {
    "bert": ("tokenizer.json", ("--max-seq-length", "64", "--duplicates", "6")),
    "electra": ("tokenizer.json", ("--max-seq-length", "64")),
    "ernie": ("tokenizer.json", ("--max-seq-length", "64", "--duplicates", "2")),
    "gpt": (
        "gpt-tokenizer.json",
        ("--mode", "pack", "--max-seq-length", "128", "--drop-near-duplicates"),
    ),
}
# Small ranges and shards, so that every slot has some of each.
_SPREAD = ("--num-shards", "8", "--seed", "1")
_RANGES = ("--range-bytes", "200000")


class Corpus:
    """A text, and the files that the local runner makes of it.

    Args:
        folder: for what is made.
        text: the text.
    """

    def __init__(self, folder: Path, text: Path) -> None:
        self.folder, self.text = folder, text
        self._digests: dict[str, dict[str, str]] = {}

    def flags(self, objective: str, output: Path) -> list[str]:
        """The command of a build."""
        tokenizer, options = OBJECTIVES[objective]
        places = {"input": self.text, "tokenizer": self._tokenizer(tokenizer), "output": output}
        arguments = [part for name, place in places.items() for part in (f"--{name}", str(place))]
        return [objective, *arguments, *options, *_SPREAD]

    def local_digests(self, objective: str) -> dict[str, str]:
        """Of every file that the local runner makes."""
        if objective not in self._digests:
            output = self.folder / f"local-{objective}"
            run(self.flags(objective, output))
            self._digests[objective] = digests(output)
        return self._digests[objective]

    def _tokenizer(self, name: str) -> Path:
        path = _TOKENIZERS / name
        if path.exists():
            return path
        trained = self.folder / name
        if not trained.exists():
            arguments = ("--input", str(self.text), "--output", str(trained), "--vocab-size", "600")
            special = ("--model", "bpe", "--special-tokens", "<|endoftext|>")
            run(["train-tokenizer", *arguments, *special])
        return trained


@dataclass(frozen=True)
class JobServer:
    """A job server that runs.

    Attributes:
        endpoint: where it takes jobs.
    """

    endpoint: str


@contextmanager
def started_job_server(jar: Path, cluster: Cluster, folder: Path) -> Iterator[JobServer]:
    """A job server for the length of a block."""
    port = free_port()
    ports = ("--job-port", str(port), "--artifact-port", "0", "--expansion-port", "-1")
    command = ["java", *QUICK_TO_START, "-jar", str(jar), "--flink-master", cluster.rest, *ports]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--artifacts-dir", str(folder)], stdout=log, stderr=log
        )
    try:
        with grpc.insecure_channel(f"localhost:{port}") as channel:
            grpc.channel_ready_future(channel).result()
        yield JobServer(f"localhost:{port}")
    finally:
        server.kill()
        server.wait()


def start(*arguments: str) -> "subprocess.Popen[str]":
    """Start a command as a process of its own, in another folder than the checkout's."""
    return subprocess.Popen(
        [sys.executable, "-m", "pipeline", *arguments], cwd=CHECKOUT, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )  # fmt: skip


def end(process: "subprocess.Popen[str]", status: int = 0) -> tuple[str, str]:
    """Wait for a command that must end with a status; gives what it prints on both streams."""
    output, errors = process.communicate()
    assert process.returncode == status, errors
    return output, errors


def run(arguments: list[str]) -> str:
    """Run a command that must succeed; gives what it prints."""
    return end(start(*arguments))[0]


def on_cluster(cluster: Cluster, *further: str) -> list[str]:
    """The flags of a run on a cluster; one worker a pool, as all share a machine."""
    master = f"--flink_master={cluster.rest}"
    return [*_RANGES, "--runner", "FlinkRunner", "--", master, "--sdk_worker_parallelism=1",
            *further]  # fmt: skip


def embedded() -> list[str]:
    """The flags of a run on embedded Flink."""
    return [*_RANGES, "--runner", "FlinkRunner"]


def assert_same(output: Path, expected: dict[str, str]) -> None:
    """Assert that every file is as the local runner makes it, and that there are no others."""
    folders = {str(folder) for name in expected for folder in PurePosixPath(name).parents}
    assert leftovers(output) == sorted({*expected, *folders} - {"."})
    assert digests(output) == expected


def await_file(output: Path, pattern: str, process: "subprocess.Popen[str]") -> bool:
    """Wait until a file of a pattern is in the run's temporary folder; False if the run ends."""
    while process.poll() is None:
        if any(output.glob(f"v1/_temporary-*/{pattern}")):
            return True
        time.sleep(0.05)
    return False
