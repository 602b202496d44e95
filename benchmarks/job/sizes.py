"""A build of several sizes, beside its floor and the article's way.

    python -m benchmarks.job.sizes [--rounds 3] [--bytes 540000000]

The corpus is synthetic, with the size of WikiText-103 and parts of it; the objective is BERT with
its defaults (10 repeats, 512 tokens). The floor is `benchmarks.job.floor`, the article's way
`benchmarks.job.article`, measured once. All else takes turns for `--rounds` rounds; the table shows
medians of the time, and the most memory.
"""

from collections.abc import Callable, Iterator, Sequence
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
from benchmarks.console import make_parser, print_table, report
from benchmarks.measure import Measurement, take_turns

_SEED = ("--seed", "1")
_FLOOR = "plain loop, 2 processes"
_ARTICLE = "the article's way"
_JOB, _JOB_ALONE = "corpusmill, 2 workers", "corpusmill, 1 worker"
_COMMANDS = {
    _FLOOR: ("benchmarks.job.floor", "bert", "--workers", "2", *_SEED),
    _ARTICLE: ("benchmarks.job.article",),
    _JOB: ("pipeline", "bert", "--workers", "2", *_SEED),
    _JOB_ALONE: ("pipeline", "bert", "--workers", "1", *_SEED),
}
_HEADINGS = (
    "BERT, 10 repeats, 512 tokens", "MB of text", "seconds", "processor seconds", "examples/s",
    "MB/s", "peak MiB",
)  # fmt: skip


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


def run(case: Case, folder: Path, tokenizer: Path) -> Measurement:
    """Measure the whole command once, from the shell to the end."""
    report(f"{case.way}, {case.corpus_bytes / MEGABYTE:,.0f} MB ...")
    shards = ("--num-shards", case.shards) if case.way in {_JOB, _JOB_ALONE} else ()
    corpus = make_corpus(folder, case.corpus_bytes)
    return build(_COMMANDS[case.way], corpus, tokenizer, folder / "output", *shards)


def list_cells(case: Case, runs: Sequence[Measurement]) -> Iterator[str]:
    """Yield the cells of a row."""
    seconds, megabytes = median(run.seconds for run in runs), case.corpus_bytes / MEGABYTE
    yield case.way
    yield f"{megabytes:,.1f}"
    yield f"{seconds:,.1f}"
    yield f"{median(run.processor_seconds for run in runs):,.1f}"
    yield f"{runs[0].examples / seconds:,.0f}"
    yield f"{megabytes / seconds:,.1f}"
    yield f"{max(run.peak_mib for run in runs):,.0f}"


def main() -> None:
    """Measure and print the table."""
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
    parts = [Case(_JOB, full // part) for part in (8, 4, 2, 1)]
    measurements = measure_all(
        arguments.rounds, small, *parts, Case(_JOB_ALONE, full), Case(_FLOOR, full)
    )
    for size in arguments.article_bytes:
        measurements |= measure_all(1, Case(_JOB, size, 8), Case(_ARTICLE, size))
    print_table(_HEADINGS, (list_cells(*item) for item in measurements.items()))


if __name__ == "__main__":
    main()
