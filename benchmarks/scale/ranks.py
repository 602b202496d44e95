"""How busy rank 0 is that drives a job: its processor time for each task, beside that of workers.

    python -m benchmarks.scale.ranks [--ranks 2 8 64] [--tasks 4000] [--folder FOLDER]

The tasks are tiny, so that the ranks do little but ask for the next one, and so are the shards. A
task of usual size has 64 MB, which takes a worker seconds; where rank 0 takes 5 ms for one that
takes 1 s, 200 workers keep it busy.
"""

import time
from pathlib import Path

import psutil

from benchmarks.builds import FOLDER, MEGABYTE, SAMPLE, make_corpus, make_tokenizer, remove
from benchmarks.console import make_parser, print_table
from tests.tools.launching import ONE_WORKER, Hosts


def measure_ranks(folder: Path, ranks: int, tasks: int) -> tuple[int, float, float]:
    """Run a job of so many tasks; return their number, and rank 0's processor and wall seconds."""
    text, output = make_corpus(folder, 8 * MEGABYTE), folder / "out"
    remove(output)
    flags = ("--tokenizer", make_tokenizer(folder, SAMPLE, "gpt"), "--num-shards", str(ranks))
    ranges = ("--range-bytes", str(8 * MEGABYTE // tasks), *ONE_WORKER)
    command = ("gpt", "--input", text, *flags, *ranges, "--output", output)
    job = Hosts(folder).start(*command, ranks=ranks)
    job.wait_for(output, "done-task-*")
    driver = psutil.Process(job.processes[0].pid)
    used = [sum(driver.cpu_times()[:2])]
    begin = time.monotonic()
    while job.processes[0].poll() is None:
        used.append(sum(driver.cpu_times()[:2]) or used[-1])
        time.sleep(0.05)
    seconds = time.monotonic() - begin
    if any(job.wait()):
        raise RuntimeError(job.read(0))
    return tasks, max(used) - used[0], seconds


def main() -> None:
    """Measure and print the table."""
    parser = make_parser(__doc__, folder=FOLDER / "ranks", tasks=4000)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 8, 64])
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for ranks in arguments.ranks:
        tasks, used, seconds = measure_ranks(arguments.folder, ranks, arguments.tasks)
        each = used / (tasks + ranks)
        rows.append(
            (str(ranks), f"{seconds:.1f}", f"{used:.1f}", f"{used / seconds:.0%}",
             f"{each * 1000:.2f}", f"{1 / each:,.0f}")
        )  # fmt: skip
    names = ("ranks", "seconds", "processor seconds of rank 0", "its share", "ms for each task",
             "workers at tasks of 1 s that keep it busy")  # fmt: skip
    print_table(names, rows)


if __name__ == "__main__":
    main()
