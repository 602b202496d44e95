"""A run that is killed at 80 % of its work, and what the rest takes.

    python -m benchmarks.faults.resume

The bar: the rest takes at most 30 % of the whole, and ends with the same bytes. Work is processor
time of all its processes, which on a machine that others use says more than the clock.
"""

import argparse
import resource
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.faults.kills import Job
from benchmarks.synthetic.corpus import write_corpus

_BAR = 0.3
_SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "wiki.sample.tokens"


class _Spent(NamedTuple):
    """What a run took: by the clock, and of all processors."""

    seconds: float
    work: float


def _measure(run: Callable[[], None]) -> _Spent:
    began, used = time.perf_counter(), _work()
    run()
    return _Spent(time.perf_counter() - began, _work() - used)


def _work() -> float:
    """Processor time of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Measure, print, and end with 1 where the bar is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("benchmark-data"))
    parser.add_argument("--bytes", type=int, default=540_000_000)
    parser.add_argument("--share", type=float, default=0.8)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    corpus = arguments.folder / f"corpus-{arguments.bytes}.txt"
    if not corpus.exists():
        write_corpus(corpus, arguments.bytes)
    tokenizer = arguments.folder / "tokenizer.json"
    if not tokenizer.exists():
        train = ["train-tokenizer", "--input", str(corpus), "--sample-bytes", "50000000"]
        Job(train, tokenizer).run()
    flags = ["--num-shards", "32", "--seed", "1", "--workers", "2"]
    given = ["bert", "--input", str(corpus), "--tokenizer", str(tokenizer), *flags]
    job = Job(given, arguments.folder / "resumed")
    small = ["bert", "--input", str(_SAMPLE), "--tokenizer", str(tokenizer), "--workers", "1"]
    Job(small, arguments.folder / "compiled").run("--replace")  # compiles the kernels
    shutil.rmtree(job.output, ignore_errors=True)
    whole = _measure(job.run)
    expected = job.digests()
    shutil.rmtree(job.output)
    killed = job.kill_after_work(whole.work * arguments.share)
    assert killed, "it was over before it was killed"
    rest = _measure(lambda: job.run("--resume"))
    assert job.digests() == expected, "the bytes differ"
    share = rest.work / whole.work
    print(
        f"{arguments.bytes / 1e6:,.0f} MB, killed at {arguments.share:.0%} of its work: the whole "
        f"takes {whole.seconds:.1f} s and {whole.work:.1f} s of processors, the rest "
        f"{rest.seconds:.1f} s and {rest.work:.1f} s: {share:.0%} of the work "
        f"(at most {_BAR:.0%}), {rest.seconds / whole.seconds:.0%} of the time; same bytes"
    )
    return int(share > _BAR)


if __name__ == "__main__":
    sys.exit(main())
