"""A job that is killed after 80 % of its work: what does the rest take?

    python -m benchmarks.faults.resume

The rest must end with the same bytes. Work is the processor time of all processes, which other
programs on the machine affect less than wall time.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from benchmarks.builds import FOLDER, MEGABYTE, SAMPLE, make_corpus, make_tokenizer, remove
from benchmarks.console import make_parser, print_table
from benchmarks.faults.kills import Job
from benchmarks.measure import ended_children_seconds


class _Cost(NamedTuple):
    """What a run took.

    Attributes:
        seconds: wall time.
        work: processor seconds of all its processes.
    """

    seconds: float
    work: float


def _measure(run: Callable[[], None]) -> _Cost:
    began, work = time.perf_counter(), ended_children_seconds()
    run()
    return _Cost(time.perf_counter() - began, ended_children_seconds() - work)


def main() -> None:
    """Measure and print the table."""
    parser = make_parser(__doc__, folder=FOLDER, bytes=540 * MEGABYTE, share=0.8)
    arguments = parser.parse_args()
    folder = arguments.folder
    corpus = make_corpus(folder, arguments.bytes)
    sample = make_corpus(folder, min(arguments.bytes, 50 * MEGABYTE))
    tokenizer = str(make_tokenizer(folder, sample, "bert"))
    small = ["bert", "--input", str(SAMPLE), "--tokenizer", tokenizer, "--workers", "1"]
    Job(small, folder / "compiled").run("--replace")  # compiles the kernels
    flags = ["--num-shards", "32", "--seed", "1", "--workers", "2"]
    job = Job(
        ["bert", "--input", str(corpus), "--tokenizer", tokenizer, *flags], folder / "resumed"
    )
    remove(job.output)
    whole = _measure(job.run)
    expected = job.digests()
    remove(job.output)
    assert job.kill_after_work(whole.work * arguments.share), "the job ended before it was killed"
    rest = _measure(lambda: job.run("--resume"))
    assert job.digests() == expected, "the bytes differ"
    costs = {"the whole": whole, "the rest": rest}
    title = f"{arguments.bytes / MEGABYTE:,.0f} MB, killed after {arguments.share:.0%} of the work"
    rows = (
        (name, f"{cost.seconds:.1f}", f"{cost.work:.1f}", f"{cost.work / whole.work:.0%}")
        for name, cost in costs.items()
    )
    print_table((title, "seconds", "processor seconds", "share"), rows)


if __name__ == "__main__":
    main()
