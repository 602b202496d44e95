"""Jobs that are killed at random moments and resumed: `python -m benchmarks.faults.kills`.

At each moment a worker process or the driver gets SIGKILL. Afterwards there must not be a
half-written file with a final name, and the same command with `--resume` must end with the bytes of
an undisturbed run. A build must not have written `dataset.json` before all files that it lists.
Where a data set is added to or documents are removed from it, readers must find it as it was or as
it becomes, and `corpusmill verify` must miss nothing but copies, which come after `dataset.json`.
"""

import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from benchmarks.builds import CHECKOUT, SAMPLE, remove
from benchmarks.console import CONSOLE, make_parser
from corpusmill.dataset.manifest import CARD, MANIFEST
from corpusmill.dataset.manifest_entries import base_name
from corpusmill.location import locate
from tests.tools.data_files import digests_by_version
from tests.tools.killed_commands import find_damage

_OF_A_RUN = re.compile(r"v\d+/(_run\.json|_temporary-)")
# Stands for the folder in a command.
OUTPUT = "OUTPUT"


class Job:
    """A command that writes into one folder, as a process of its own.

    Args:
        command: the subcommand and its arguments, with OUTPUT for the folder; without OUTPUT,
            `--output` follows them.
        output: the folder.
        base: a data set that is copied there first, because the command changes it; None for none.
        resume: the flags that let the command continue after it was stopped.
    """

    def __init__(
        self,
        command: list[str],
        output: Path,
        base: Path | None = None,
        resume: tuple[str, ...] = ("--resume",),
    ) -> None:
        if OUTPUT not in command:
            command = [*command, "--output", OUTPUT]
        place = str(output.resolve())
        words = (place if word == OUTPUT else word for word in command)
        self._command = [sys.executable, "-m", "pipeline", *words]
        self.output, self.base, self.resume = output, base, resume

    def reset(self) -> None:
        """Make the folder what it is before the command: absent, or a copy of the base."""
        remove(self.output)
        if self.base:
            shutil.copytree(self.base, self.output)

    def start(self, *flags: str) -> "subprocess.Popen[str]":
        """Start the command with further flags."""
        return subprocess.Popen(
            [*self._command, *flags],
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
            with suppress(psutil.NoSuchProcess):  # it may have just ended
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
        """Return the sha256 of every file of the data set, by its name with its version's rank."""
        return digests_by_version(self.output)


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
        AssertionError: a file is half-written, readers do not find the data set as it was or
            becomes, or the bytes differ in the end.
        RuntimeError: the resumed run failed.
    """
    job.reset()
    if not job.kill(victim, seconds):
        return False
    before = digests_by_version(job.base) if job.base else {}
    files = job.digests() if job.output.exists() else {}
    final = {name: sha for name, sha in files.items() if not _OF_A_RUN.match(name)}
    # A version that the data set no longer needs is gone in the end, so that others have its rank.
    whole = {(base_name(name), sha) for name, sha in (*expected.items(), *before.items())}
    # These name versions, whose ranks are others in the end; readers look at them below.
    half = [
        name
        for name, sha in final.items()
        if (base_name(name), sha) not in whole and not name.endswith((CARD, MANIFEST))
    ]
    assert not half, f"{half} were half-written"
    if job.base:
        problems = find_damage(locate(str(job.output)))
        assert not problems, f"readers find {problems[0]}"
        job.run(*job.resume)
    else:
        listed = {name for name in expected if name.startswith("v")}
        assert MANIFEST not in final or listed <= final.keys(), f"{MANIFEST} before the end"
        if files != expected:
            job.run(*job.resume)
    assert job.digests() == expected, (
        f"{victim} killed at {seconds:.2f} s: files differ or are left over"
    )
    return True


def make_jobs(folder: Path, copies: int) -> Iterator[tuple[str, Job]]:
    """Yield a build and all commands that change a data set in its place, each with a name.

    Args:
        folder: for texts and data sets.
        copies: how often the bundled sample is in the text that is built.
    """
    first, second = folder / "first", folder / "second"
    first.write_bytes(SAMPLE.read_bytes() * copies)
    second.write_bytes(SAMPLE.read_bytes() * (copies // 2))
    tokenizer = str(CHECKOUT / "tests" / "data" / "tokenizer.json")
    run = ["--workers", "2", "--min-bytes-per-worker", "0", "--range-bytes", "500000"]
    flags = ["--num-shards", "8", "--seed", "1", "--max-seq-length", "64", "--duplicates", "4"]
    bert = ["bert", "--tokenizer", tokenizer, *flags, *run]
    build = Job([*bert, "--input", str(first)], folder / "built")
    yield "build", build
    sources = ["--source", f"wiki={first}", f"books={second}@1.5"]
    mixed = Job([*bert, *sources], folder / "mixed")
    for job in (build, mixed):
        job.reset()
        job.run()
    append = [*bert, "--append", "--existing", "allow"]
    more = [*append, "--input", str(second)]
    changed = partial(Job, output=folder / "changed", base=build.output)
    yield "append", changed(more)
    grown = [*append, "--source", f"wiki={second}@2", f"news={first}"]
    yield "append to sources", Job(grown, folder / "changed", mixed.output)
    where = ["--where", "document % 50 = 0"]
    yield "drop", changed(["drop", OUTPUT, *where, *run[:2]], resume=())


def survive(job: Job, moments: int, draw: random.Random) -> int:
    """Kill a job at random moments, print each, and return at how many it went on as it should."""
    job.reset()
    job.run()
    expected = job.digests()
    job.reset()
    began = time.perf_counter()
    job.run()
    whole = time.perf_counter() - began
    survived = done = 0
    while done < moments:
        victim, seconds = draw.choice(["driver", "worker"]), draw.uniform(0, whole)
        outcome = "same bytes"
        try:
            if not kill_and_resume(job, expected, victim, seconds):
                continue
            survived += 1
        except (AssertionError, RuntimeError) as error:
            outcome = str(error)
        CONSOLE.print(f"  {victim} killed after {seconds:.2f} of {whole:.2f} s: {outcome}")
        done += 1
    return survived


def main() -> int:
    """Kill each job, print each moment, and return 1 if one did not survive one of them."""
    parser = make_parser(__doc__, moments=20, seed=0, only="")
    parser.add_argument("--copies", type=int, default=200, help="of the bundled sample, as input")
    arguments = parser.parse_args()
    draw, failed = random.Random(arguments.seed), 0
    with TemporaryDirectory() as folder:
        for name, job in make_jobs(Path(folder), arguments.copies):
            if arguments.only in name:
                CONSOLE.print(name)
                survived = survive(job, arguments.moments, draw)
                CONSOLE.print(f"{name}: {survived} of {arguments.moments}")
                failed += arguments.moments - survived
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
