"""How long commands take to start, beside `import apache_beam`, in the same rounds.

    python -m benchmarks.job.start [--input wiki.train.tokens]

Each row is a process of its own, from its start to its end. Ratios are medians of the rounds, of
the processor time, which other programs affect less. Beam also imports packages that it only uses
if they are installed, such as pandas and the clients of clouds: run this in an environment that has
what `pip install corpusmill-job` installs, and no more.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.builds import (
    CHECKOUT,
    FOLDER,
    SAMPLE,
    WIKITEXT_2_BYTES,
    build,
    make_corpus,
    make_tokenizer,
)
from benchmarks.console import make_parser, print_table
from benchmarks.measure import ended_children_seconds, median_ratio, take_turns

_BEAM = "import apache_beam"


class Run(NamedTuple):
    """One run of a command.

    Attributes:
        seconds: wall time.
        processor_seconds: of all its processes.
    """

    seconds: float
    processor_seconds: float


def start(*arguments: str) -> Run:
    """Run Python with these arguments to its end, whatever its status is."""
    used, began = ended_children_seconds(), time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments], cwd=CHECKOUT, env=dict(os.environ), capture_output=True,
        check=False,
    )  # fmt: skip
    return Run(time.perf_counter() - began, ended_children_seconds() - used)


def list_calls(arguments: argparse.Namespace) -> Mapping[str, Callable[[], Run]]:
    """List what is measured, by name."""
    folder = arguments.folder.resolve()
    given = arguments.input
    corpus = Path(given).resolve() if given else make_corpus(folder, WIKITEXT_2_BYTES)
    tokenizer, data_set = make_tokenizer(folder, corpus, "bert"), folder / "small"
    build(("pipeline", "bert"), SAMPLE, tokenizer, data_set)
    job = ("-m", "pipeline")
    bert = (*job, "bert", "--output", str(folder / "none"))
    known = ("--input", str(SAMPLE), "--tokenizer", str(tokenizer))

    def build_all(text: Path) -> Run:
        measured = build(("pipeline", "bert"), text, tokenizer, folder / "output")
        return Run(measured.seconds, measured.processor_seconds)

    commands = {
        _BEAM: ("-c", _BEAM),
        "--help": (*job, "--help"),
        "bert --help": (*job, "bert", "--help"),
        "an unknown option": (*bert, *known, "--sed", "1"),
        "no such input": (*bert, "--input", "none", "--tokenizer", str(tokenizer)),
        "inspect": (*job, "inspect", str(data_set)),
        "verify": (*job, "verify", str(data_set)),
    }
    calls: dict[str, Callable[[], Run]] = {
        name: partial(start, *command) for name, command in commands.items()
    }
    texts = {"bert, 50 KB": SAMPLE, "bert, 10.8 MB": corpus}
    return {**calls, **{name: partial(build_all, text) for name, text in texts.items()}}


def list_cells(runs: Mapping[str, Sequence[Run]]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each row."""
    beam = runs[_BEAM]
    for name, own in runs.items():
        yield (
            name,
            f"{median(run.seconds for run in own):.2f}",
            f"{median(run.processor_seconds for run in own):.2f}",
            f"{_ratio(own, beam):.2f}",
        )


def _ratio(runs: Sequence[Run], others: Sequence[Run]) -> float:
    return median_ratio(*([run.processor_seconds for run in each] for each in (runs, others)))


def main() -> None:
    """Measure, and print a table."""
    parser = make_parser(__doc__, folder=FOLDER, rounds=5)
    parser.add_argument("--input", help="text in place of a synthetic corpus of WikiText-2's size")
    arguments = parser.parse_args()
    calls = list_calls(arguments)
    take_turns(calls, 1)  # compiles kernels, and reads files for the first time
    runs = take_turns(calls, arguments.rounds)
    headings = ("", "seconds", "processor seconds", "times Beam's import")
    print_table(headings, list_cells(runs))


if __name__ == "__main__":
    main()
