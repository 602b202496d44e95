"""Every objective beside its floor: `python -m benchmarks.job.objectives --input FILE`.

The floor of an objective is the plain loop of `benchmarks.job.floor` with the same flags. The ways
take turns for `--rounds` rounds; the table shows medians, and a ratio is the median of the ratios
of the rounds' processor time, which other programs affect less. `--times 10` repeats the file ten
times: WikiText-2's training text then has 108 MB. Without `--input` the corpus is synthetic.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.builds import (
    FOLDER,
    SAMPLE,
    WIKITEXT_2_BYTES,
    build,
    make_corpus,
    make_tokenizer,
)
from benchmarks.console import make_parser, print_table, report
from benchmarks.measure import Measurement, median_ratio, take_turns

WAYS: dict[str, tuple[str, ...]] = {
    "bert": ("bert",),
    "bert, whole words": ("bert", "--whole-word-mask"),
    "bert, sentence order": ("bert", "--segments", "sentence-order"),
    "bert, full sentences": ("bert", "--segments", "full-sentences"),
    "bert, Google's pairs": ("bert", "--pairs", "google"),
    "bert, packed": (
        "bert", "--segments", "packed", "--max-predictions-per-seq", "None", "--duplicates", "1",
    ),
    "electra": ("electra",),
    "ernie": ("ernie",),
    "gpt, stream": ("gpt",),
    "gpt, stream, Megatron": ("gpt", "--output-format", "megatron"),
    "gpt, windows": ("gpt", "--mode", "windows"),
    "gpt, pack": ("gpt", "--mode", "pack"),
    "gpt, fill in the middle": ("gpt", "--fim-rate", "0.5"),
    "t5": ("t5",),
    "t5, UL2": ("t5", "--denoisers", "ul2"),
}  # fmt: skip
_HEADINGS = ("", "examples", "seconds", "processor seconds", "times plain loop", "peak MiB")


def repeat_corpus(folder: Path, path: Path | None, times: int) -> Path:
    """Return a file repeated a number of times, or a synthetic corpus of as many times 10.8 MB."""
    if path is None:
        return make_corpus(folder, WIKITEXT_2_BYTES * times)
    repeated = folder / f"{path.stem}-{times}.txt"
    if not repeated.exists():
        repeated.write_bytes(path.read_bytes() * times)
    return repeated


def run(
    module: str, way: str, folder: Path, corpus: Path, tokenizer: Path, *flags: object
) -> Measurement:
    """Measure the job or its floor."""
    report(f"{way}, {module} ...")
    objective, *options = WAYS[way]
    flags = ("--workers", "2", "--seed", "1", *options, *flags)
    return build((module, objective), corpus, tokenizer, folder / "output", *flags)


def cells(way: str, jobs: Sequence[Measurement], floors: Sequence[Measurement]) -> Iterator[str]:
    """Yield a row of the table."""
    processor = [[run.processor_seconds for run in runs] for runs in (jobs, floors)]
    yield way
    yield f"{jobs[0].examples:,}"
    yield f"{median(run.seconds for run in jobs):.1f}"
    yield f"{median(processor[0]):.1f}"
    yield f"{median_ratio(*processor):.2f}"
    yield f"{max(run.peak_mib for run in jobs):,.0f}"


def main() -> None:
    """Measure and print the table."""
    parser = make_parser(__doc__, folder=FOLDER, times=1, rounds=3, shards=8, only="")
    parser.add_argument("--input", type=Path, help="a plain text file")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    corpus = repeat_corpus(folder, arguments.input, arguments.times)
    ways = [way for way in WAYS if arguments.only in way]
    calls: dict[tuple[str, str], Callable[[], Measurement]] = {}
    for way in ways:
        tokenizer = make_tokenizer(folder, corpus, WAYS[way][0])
        run("pipeline", way, folder, SAMPLE, tokenizer)  # compiles kernels
        files = (way, folder, corpus, tokenizer)
        shards = ("--num-shards", arguments.shards)
        calls[way, "job"] = partial(run, "pipeline", *files, *shards)
        calls[way, "floor"] = partial(run, "benchmarks.job.floor", *files)
    runs = take_turns(calls, arguments.rounds)
    print_table(_HEADINGS, (cells(way, runs[way, "job"], runs[way, "floor"]) for way in ways))


if __name__ == "__main__":
    main()
