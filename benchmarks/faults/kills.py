"""Runs that are killed at random moments, and go on: `python -m benchmarks.faults.kills`.

At each moment a worker process or the driver itself gets SIGKILL. Then no file under a final name
may be half-written, no `_SUCCESS` be there, and the same command with `--resume` must end with the
bytes of a run that nobody killed.
"""

import argparse
import hashlib
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

_CHECKOUT = Path(__file__).resolve().parents[2]
_OF_THE_RUN = ("_RUNNING", "_temporary-")


class Job:
    """A command that writes into one place, as a process of its own.

    Args:
        command: and its flags, without the output.
        output: what it writes.
    """

    def __init__(self, command: list[str], output: Path) -> None:
        self._command, self.output = [sys.executable, "-m", "pipeline", *command], output

    def start(self, *flags: str) -> "subprocess.Popen[str]":
        """Start it."""
        return subprocess.Popen(
            [*self._command, "--output", str(self.output.resolve()), *flags],
            cwd=_CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def run(self, *flags: str) -> None:
        """Run it to its end.

        Raises:
            RuntimeError: it failed; with what it printed.
        """
        process = self.start(*flags)
        said, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"the job failed with {process.returncode}: {said}")

    def kill(self, victim: str, seconds: float) -> bool:
        """Start it, and kill it after some seconds; whether it was still at work.

        Args:
            victim: "driver", or "worker" for the last of its worker processes (the driver where it
                has none yet).
            seconds: from its start.
        """
        process = self.start()
        time.sleep(seconds)
        family = _family(process.pid)
        if family:
            (family[-1] if victim == "worker" else family[0]).send_signal(signal.SIGKILL)
        process.communicate()
        psutil.wait_procs(family, timeout=60)
        return process.returncode != 0

    def kill_after_work(self, seconds: float) -> bool:
        """Start it, and kill its driver once all its processes have worked so long.

        Args:
            seconds: of processor time.
        """
        process = self.start()
        while process.poll() is None and _work_of(family := _family(process.pid)) < seconds:
            time.sleep(0.05)
        process.kill()
        process.communicate()
        psutil.wait_procs(family, timeout=60)
        return process.returncode != 0

    def digests(self) -> dict[str, str]:
        """The sha256 of every file of the data set."""
        return {
            str(path.relative_to(self.output)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.output.rglob("*"))
            if path.is_file()
        }


def _family(pid: int) -> list[psutil.Process]:
    """A process and all below it; none where it has ended."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def _work_of(family: list[psutil.Process]) -> float:
    work = 0.0
    for process in family:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            work += times.user + times.system
    return work


def kill_and_go_on(job: Job, expected: dict[str, str], victim: str, seconds: float) -> bool:
    """Kill a job once and let it go on; whether it was still at work.

    Raises:
        AssertionError: a file is half-written, or the bytes differ in the end.
        RuntimeError: the run that goes on failed.
    """
    shutil.rmtree(job.output, ignore_errors=True)
    if not job.kill(victim, seconds):
        return False
    left = job.digests() if job.output.exists() else {}
    final = {name: of for name, of in left.items() if not name.startswith(_OF_THE_RUN)}
    half = [name for name, of in final.items() if expected.get(name) != of]
    assert not half, f"{half} were half-written"
    assert "_SUCCESS" not in final or set(final) == set(expected), "_SUCCESS before the end"
    if "_SUCCESS" not in final or "_RUNNING" in left:
        job.run("--resume")
    found = job.digests()
    assert found == expected, f"{victim} at {seconds:.2f} s: the bytes differ, or something is left"
    return True


def main() -> int:
    """Kill as often as asked, print each moment, and end with 1 where one was not survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--copies", type=int, default=200, help="of the bundled sample, as input")
    arguments = parser.parse_args()
    draw, survived, done = random.Random(arguments.seed), 0, 0
    with TemporaryDirectory() as folder:
        text = Path(folder) / "text"
        sample = _CHECKOUT / "samples" / "wiki.sample.tokens"
        text.write_bytes(sample.read_bytes() * arguments.copies)
        tokenizer = _CHECKOUT / "tests" / "data" / "tokenizer.json"
        flags = ["--num-shards", "8", "--seed", "1", "--max-seq-length", "64", "--duplicates", "4"]
        flags += ["--workers", "2", "--min-bytes-per-worker", "0", "--range-bytes", "500000"]
        given = ["bert", "--input", str(text), "--tokenizer", str(tokenizer), *flags]
        job = Job(given, Path(folder) / "out")
        job.run()
        expected = job.digests()
        shutil.rmtree(job.output)
        began = time.perf_counter()
        job.run()
        whole = time.perf_counter() - began
        while done < arguments.moments:
            victim, seconds = draw.choice(["driver", "worker"]), draw.uniform(0, whole)
            try:
                if not kill_and_go_on(job, expected, victim, seconds):
                    continue
                survived += 1
                print(f"{victim} killed after {seconds:.2f} of {whole:.2f} s: same bytes")
            except (AssertionError, RuntimeError) as error:
                print(f"{victim} killed after {seconds:.2f} of {whole:.2f} s: {error}")
            done += 1
    print(f"{survived} of {done}")
    return int(survived < done)


if __name__ == "__main__":
    sys.exit(main())
