"""`corpusmill verify` with one worker and with more, in this process and as a job of Beam's.

    python -m benchmarks.readers.verification [--folder FOLDER] [--data-set DATA_SET] [--rounds 5]
        [--most-workers 2]

Each row is the whole command, and the rows take turns. The data set is built from a synthetic
corpus unless one is given; it is read once before, so that its files are in memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.builds import FOLDER, MEGABYTE
from benchmarks.console import CONSOLE, make_parser, print_table, verdict
from benchmarks.measure import Measurement, measure, median_ratio, take_turns
from benchmarks.readers.data_sets import make_data_set
from corpusmill.dataset.shards import read_manifest
from corpusmill.location import locate

_BAR = 1.7


def list_cells(
    runs: Mapping[str, Sequence[Measurement]], data_bytes: int
) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each row; ratios are to the first one."""
    first, *_ = runs.values()
    for name, own in runs.items():
        seconds = median(run.seconds for run in own)
        ratio = median_ratio([run.seconds for run in first], [run.seconds for run in own])
        yield (
            name,
            f"{seconds:.2f}",
            " ".join(f"{run.seconds:.2f}" for run in own),
            f"{median(run.processor_seconds for run in own):.2f}",
            f"{data_bytes / MEGABYTE / seconds:,.0f}",
            f"{max(run.peak_mib for run in own):,.0f}",
            f"{ratio:.2f}",
        )


def main() -> None:
    """Measure and print the table."""
    parser = make_parser(__doc__, folder=FOLDER / "readers", rounds=5, most_workers=2, scale=1.0)
    parser.add_argument("--data-set", type=Path, help="in place of a synthetic one")
    options = parser.parse_args()
    folder = options.data_set or make_data_set(options.folder, "bert", options.scale)
    splits = read_manifest(locate(str(folder))).splits.values()
    data_bytes = sum(split.bytes for split in splits)
    one, most = ("--workers", 1), ("--workers", options.most_workers)
    names = {
        "1 worker": one,
        f"{options.most_workers} workers": most,
        "a job, 1 worker": (*one, "--runner", "DirectRunner"),
        f"a job, {options.most_workers} workers": (*most, "--runner", "DirectRunner"),
    }
    calls = {
        name: partial(measure, "pipeline", "verify", folder, *flags)
        for name, flags in names.items()
    }
    take_turns(calls, 1)
    runs = take_turns(calls, options.rounds)
    headings = ("", "seconds", "rounds", "CPU s", "MB/s", "peak MiB (PSS)", "times the first")
    print_table(headings, list_cells(runs, data_bytes), f"{data_bytes / MEGABYTE:,.0f} MB")
    alone, together = (runs[name] for name in list(names)[:2])
    ratio = median_ratio([run.seconds for run in alone], [run.seconds for run in together])
    CONSOLE.print(f"{ratio:.2f} times as fast: {verdict(is_met=ratio >= _BAR)}")


if __name__ == "__main__":
    main()
