"""The main measurements of the job side by side: `python -m benchmarks`.

Prints a table and whether each bar is met. The ways take turns for `--rounds` rounds; the table
shows medians, and a ratio is the median of the ratios of the rounds, as the speed of a shared
machine changes over time. By default this takes about 25 minutes on two cores, four of them for
the article's way at 100 MB.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.builds import (
    FOLDER,
    MEGABYTE,
    WIKITEXT_2_BYTES,
    WIKITEXT_103_BYTES,
    build,
    make_corpus,
    make_tokenizer,
)
from benchmarks.console import CONSOLE, make_parser, print_table, report
from benchmarks.measure import Measurement, median_ratio, take_turns

_SEED = ("--seed", "1")
_FLOOR = "floor, 2 processes"
_ARTICLE = "article's way"
_JOB, _JOB_ALONE = "job, 2 workers", "job, 1 worker"
_COMMANDS = {
    _FLOOR: ("benchmarks.job.floor", "bert", "--workers", "2", *_SEED),
    _ARTICLE: ("benchmarks.job.article",),
    _JOB: ("pipeline", "bert", "--workers", "2", *_SEED),
    _JOB_ALONE: ("pipeline", "bert", "--workers", "1", *_SEED),
}


class Case(NamedTuple):
    """A row of the table.

    Attributes:
        way: a key of `_COMMANDS`.
        corpus_bytes: the size of the corpus.
        shards: the number of the job's shards.
    """

    way: str
    corpus_bytes: int
    shards: int = 32


Measurements = Mapping[Case, Sequence[Measurement]]


def run(case: Case, folder: Path, tokenizer: Path) -> Measurement:
    """Measure the whole command once, from the shell to `_SUCCESS`."""
    report(f"{case.way}, {case.corpus_bytes / MEGABYTE:,.0f} MB ...")
    shards = ("--num-shards", case.shards) if case.way in {_JOB, _JOB_ALONE} else ()
    corpus = make_corpus(folder, case.corpus_bytes)
    return build(_COMMANDS[case.way], corpus, tokenizer, folder / "output", *shards)


def show(measurements: Measurements) -> None:
    """Print the table."""
    headings = ("", "MB", "seconds", "rounds", "examples", "examples/s", "peak MiB (PSS)")
    print_table(headings, (_cells(*item) for item in measurements.items()))


def _cells(case: Case, runs: Sequence[Measurement]) -> Iterator[str]:
    seconds, examples = _seconds(runs), runs[0].examples
    yield case.way
    yield f"{case.corpus_bytes / MEGABYTE:,.1f}"
    yield f"{seconds:,.1f}"
    yield " ".join(f"{run.seconds:.1f}" for run in runs)
    yield f"{examples:,}"
    yield f"{examples / seconds:,.0f}"
    yield f"{_peak(runs):,.0f}"


def _seconds(runs: Sequence[Measurement]) -> float:
    return median(run.seconds for run in runs)


def _peak(runs: Sequence[Measurement]) -> float:
    return max(run.peak_mib for run in runs)


def _ratio(runs: Sequence[Measurement], others: Sequence[Measurement]) -> float:
    return median_ratio([run.seconds for run in runs], [run.seconds for run in others])


def judge(measurements: Measurements, full: int) -> Iterator[tuple[str, float, str]]:
    """Yield what each bar is about, what was measured, and the bar."""
    jobs = {case.corpus_bytes: runs for case, runs in measurements.items() if case.way == _JOB}
    whole = jobs[full]
    yield "WikiText-2-sized, seconds", _seconds(jobs[WIKITEXT_2_BYTES]), "<= 5"
    yield "WikiText-103-sized, seconds", _seconds(whole), "<= 90"
    yield "its memory, MiB", _peak(whole), "<= 3,072"
    yield "its time over the floor's", _ratio(whole, measurements[Case(_FLOOR, full)]), "<= 1.5"
    articles = [case for case in measurements if case.way == _ARTICLE]
    for case, bar in zip(articles, (4, 10), strict=False):
        size = case.corpus_bytes
        ratio = _ratio(measurements[case], jobs[size])
        yield f"times the article's way, {size / MEGABYTE:.0f} MB", ratio, f">= {bar}"
    alone = measurements[Case(_JOB_ALONE, full)]
    yield "one worker's time over two's", _ratio(alone, whole), ">= 1.7"
    eighth = _seconds(jobs[full // 8])
    slope = (_seconds(whole) - eighth) / (full - full // 8)
    for part in (4, 2):
        line = eighth + slope * (full // part - full // 8)
        over = _seconds(jobs[full // part]) / line
        yield f"time at 1/{part} over the straight line", over, "within 15 % of 1"
    growth = _peak(whole) / _peak(jobs[full // 4])
    yield "memory of the whole over a quarter's", growth, "about 1"


def main() -> None:
    """Measure, print the table and the bars."""
    parser = make_parser(__doc__, folder=FOLDER, bytes=WIKITEXT_103_BYTES, rounds=3)
    parser.add_argument(
        "--article-bytes", type=int, nargs="*", default=[10 * MEGABYTE, 100 * MEGABYTE],
        help="sizes at which the article's way is measured, once",
    )  # fmt: skip
    arguments = parser.parse_args()
    full, folder = arguments.bytes, arguments.folder
    corpus = make_corpus(folder, min(full, 50 * MEGABYTE))
    tokenizer = make_tokenizer(folder, corpus, "bert")

    def measure_all(rounds: int, *cases: Case) -> dict[Case, list[Measurement]]:
        calls: dict[Case, Callable[[], Measurement]] = {
            case: partial(run, case, folder, tokenizer) for case in cases
        }
        return take_turns(calls, rounds)

    small = Case(_JOB, WIKITEXT_2_BYTES, 8)
    measure_all(1, small)  # compiles the kernels if they are not compiled
    parts = [Case(_JOB, full // part) for part in (1, 2, 4, 8)]
    measurements = measure_all(
        arguments.rounds, small, Case(_FLOOR, full), *parts, Case(_JOB_ALONE, full)
    )
    for size in arguments.article_bytes:
        measurements |= measure_all(1, Case(_ARTICLE, size), Case(_JOB, size, 8))
    show(measurements)
    for subject, value, bar in judge(measurements, full):
        CONSOLE.print(f"{subject}: {value:,.2f} ({bar})")


if __name__ == "__main__":
    main()
