"""Jobs that are killed at random moments and resumed: `python -m benchmarks.faults.kills`.

At each moment a worker process or the driver gets SIGKILL. Afterwards there must not be a
half-written file with a final name, nor `_SUCCESS`, and the same command with `--resume` must end
with the bytes of an undisturbed run.
"""

import hashlib
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from benchmarks.builds import CHECKOUT, SAMPLE, remove
from benchmarks.console import CONSOLE, make_parser

_NAMES_OF_A_RUN = ("_RUNNING", "_temporary-")


class Job:
    """A command that writes into one folder, as a process of its own.

    Args:
        command: the subcommand and its flags, without `--output`.
        output: the folder.
    """

    def __init__(self, command: list[str], output: Path) -> None:
        self._command, self.output = [sys.executable, "-m", "pipeline", *command], output

    def start(self, *flags: str) -> "subprocess.Popen[str]":
        """Start the command with further flags."""
        return subprocess.Popen(
            [*self._command, "--output", str(self.output.resolve()), *flags],
            cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def run(self, *flags: str) -> None:
        """Run the command to its end.

        Raises:
            RuntimeError: it failed; the message contains its output.
        """
        process = self.start(*flags)
        output, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"the job failed with {process.returncode}: {output}")

    def kill(self, victim: str, seconds: float) -> bool:
        """Start the command, kill it after some seconds, and return whether it was still running.

        Args:
            victim: "driver", or "worker" for the last worker process (or for the driver, if there
                is not any worker yet).
            seconds: wall time from the start.
        """
        process = self.start()
        time.sleep(seconds)
        family = _family(process.pid)
        if family:
            (family[-1] if victim == "worker" else family[0]).send_signal(signal.SIGKILL)
        return _wait(process, family)

    def kill_after_work(self, seconds: float) -> bool:
        """Start the command, and kill its driver after an amount of work.

        Args:
            seconds: processor time of all its processes together.

        Returns:
            Whether it was still running.
        """
        process = self.start()
        family = _family(process.pid)
        while process.poll() is None and _processor_seconds(family) < seconds:
            time.sleep(0.05)
            family = _family(process.pid)
        process.kill()
        return _wait(process, family)

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 digest of every file of the data set, by its path."""
        return {
            str(path.relative_to(self.output)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.output.rglob("*"))
            if path.is_file()
        }


def _family(pid: int) -> list[psutil.Process]:
    """Return a process and all its descendants, or nothing if it has ended."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def _wait(process: "subprocess.Popen[str]", family: list[psutil.Process]) -> bool:
    """Wait for the end of a process and its family; return whether it was killed."""
    process.communicate()
    psutil.wait_procs(family, timeout=60)
    return process.returncode != 0


def _processor_seconds(family: list[psutil.Process]) -> float:
    seconds = 0.0
    for process in family:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            seconds += times.user + times.system
    return seconds


def kill_and_resume(job: Job, expected: dict[str, str], victim: str, seconds: float) -> bool:
    """Kill a job once, resume it, and return whether it was still running when it was killed.

    Raises:
        AssertionError: a file is half-written, or the bytes differ in the end.
        RuntimeError: the resumed run failed.
    """
    remove(job.output)
    if not job.kill(victim, seconds):
        return False
    files = job.digests() if job.output.exists() else {}
    final = {name: sha for name, sha in files.items() if not name.startswith(_NAMES_OF_A_RUN)}
    half = [name for name, digest in final.items() if expected.get(name) != digest]
    assert not half, f"{half} were half-written"
    assert "_SUCCESS" not in final or set(final) == set(expected), "_SUCCESS before the end"
    if "_SUCCESS" not in final or "_RUNNING" in files:
        job.run("--resume")
    assert job.digests() == expected, (
        f"{victim} killed at {seconds:.2f} s: files differ or are left over"
    )
    return True


def main() -> int:
    """Kill a job, print each moment, and return 1 if it did not survive one of them."""
    parser = make_parser(__doc__, moments=20, seed=0)
    parser.add_argument("--copies", type=int, default=200, help="of the bundled sample, as input")
    arguments = parser.parse_args()
    draw, survived, done = random.Random(arguments.seed), 0, 0
    with TemporaryDirectory() as folder:
        text = Path(folder) / "text"
        text.write_bytes(SAMPLE.read_bytes() * arguments.copies)
        tokenizer = CHECKOUT / "tests" / "data" / "tokenizer.json"
        flags = ["--num-shards", "8", "--seed", "1", "--max-seq-length", "64", "--duplicates", "4"]
        flags += ["--workers", "2", "--min-bytes-per-worker", "0", "--range-bytes", "500000"]
        command = ["bert", "--input", str(text), "--tokenizer", str(tokenizer), *flags]
        job = Job(command, Path(folder) / "out")
        job.run()
        expected = job.digests()
        remove(job.output)
        began = time.perf_counter()
        job.run()
        whole = time.perf_counter() - began
        while done < arguments.moments:
            victim, seconds = draw.choice(["driver", "worker"]), draw.uniform(0, whole)
            outcome = "same bytes"
            try:
                if not kill_and_resume(job, expected, victim, seconds):
                    continue
                survived += 1
            except (AssertionError, RuntimeError) as error:
                outcome = str(error)
            CONSOLE.print(f"{victim} killed after {seconds:.2f} of {whole:.2f} s: {outcome}")
            done += 1
    CONSOLE.print(f"{survived} of {done}")
    return int(survived < done)


if __name__ == "__main__":
    sys.exit(main())
