"""Readers of training examples side by side: `python -m benchmarks.readers`.

    python -m benchmarks.readers [--data-sets bert gpt] [--readers "ours, loader" LitData]
        [--rounds 3] [--examples 100000] [--quick] [--folder FOLDER]

All readers read the same examples of up to 512 tokens, each in an order of its own, as padded int64
tensors with 32 rows; for GPT, windows of 512 tokens and their targets. Each reader runs in a
process of its own with 0, 1 and 2 workers, if it can have any; the readers take turns for
`--rounds` rounds, and the tables show medians. The first round also compares the sums of an epoch
(examples, tokens, ids, labels), so that a reader cannot be fast by leaving something out.

The peers are Hugging Face datasets, MosaicML streaming, LitData and a loop like nanoGPT's. LDDL is
not among them, as it needs years-old releases of dask and transformers. Data sets are built from
synthetic corpora if the folder lacks them, which takes some minutes.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.builds import FOLDER
from benchmarks.console import CONSOLE, make_parser, print_table, report
from benchmarks.measure import measure, take_turns
from benchmarks.readers.data_sets import make_data_set
from benchmarks.readers.measure_reader import READERS
from benchmarks.readers.ours import OURS
from benchmarks.readers.peers import RIVALS
from benchmarks.rivals import label, python_of

WORKERS = (0, 1, 2)
DATA_SETS = ("bert", "bert-dynamic", "gpt")
_NANO_GPT = "nanoGPT's memmap"

Results = Mapping[str, Sequence[Mapping[str, Any]]]


def choose_readers(data: str) -> list[str]:
    """Return the readers of a data set: only ours mask at load, and nanoGPT's reads streams."""
    names = list(OURS) if data == "bert-dynamic" else list(READERS)
    return [name for name in names if data == "gpt" or name != _NANO_GPT]


def run_reader(reader: str, folder: Path, work: Path, examples: int, check: bool) -> dict[str, Any]:
    """Measure a reader once, in a process of its own; "problem" says why this was impossible."""
    report(f"{folder.name}: {reader} ...")
    flags = ["--examples", examples, *(["--check"] if check else []), "--workers", *WORKERS]
    module = "benchmarks.readers.measure_reader"
    try:
        python = python_of(RIVALS[reader]) if reader in RIVALS else sys.executable
        return measure(module, reader, folder, work, *flags, watch=False, python=python).result
    except RuntimeError as error:
        return {"workers": {}, "problem": str(error).strip().splitlines()[-1]}


def cells(reader: str, rounds: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a row of the table: the median examples per second for each number of workers."""
    yield label(RIVALS[reader]) if reader in RIVALS else reader
    problem = next((run["problem"] for run in rounds if "problem" in run), None)
    if problem:
        yield problem
        return
    for workers in WORKERS:
        runs = [round_["workers"].get(str(workers)) for round_ in rounds]
        rates = [run["examples"] / run["seconds"] for run in runs if run]
        yield f"{median(rates):,.0f}" if rates else ""


def compare_fingerprints(results: Results) -> list[str]:
    """Return a sentence for each reader whose epoch has other sums than the first reader's."""
    sums = {name: runs[0].get("fingerprint") for name, runs in results.items()}
    first = next((value for value in sums.values() if value), None)
    return [
        f"{name}: {value}, not {first}" for name, value in sums.items() if value and value != first
    ]


def measure_data_set(data: str, options: Any) -> None:
    """Measure all readers of a data set and print their table."""
    folder, work = (
        make_data_set(options.folder, data, options.scale),
        options.folder / "work" / data,
    )
    readers = [name for name in choose_readers(data) if name in options.readers]

    def run_all(rounds: int, *, check: bool) -> dict[str, list[dict[str, Any]]]:
        calls = {
            name: partial(
                run_reader, name, folder, work, options.examples, check and name != _NANO_GPT
            )
            for name in readers
        }
        return take_turns(calls, rounds)

    results = run_all(1, check=not options.quick)
    for name, runs in run_all(options.rounds - 1, check=False).items():
        results[name] += runs
    headings = (
        f"{data}: examples/s",
        *("1 worker" if workers == 1 else f"{workers} workers" for workers in WORKERS),
    )
    print_table(headings, (cells(name, results[name]) for name in readers))
    for message in compare_fingerprints(results):
        CONSOLE.print(f"not the same examples: {message}", style="bold red")


def main() -> None:
    """Measure all and print the tables."""
    parser = make_parser(__doc__, folder=FOLDER / "readers", rounds=3, examples=100_000, scale=1.0)
    parser.add_argument("--data-sets", nargs="+", choices=DATA_SETS, default=DATA_SETS)
    parser.add_argument("--readers", nargs="+", choices=READERS, default=list(READERS))
    parser.add_argument("--quick", action="store_true", help="a round of 10,000, without comparing")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.examples = 1, 10_000
    for data in options.data_sets:
        measure_data_set(data, options)


if __name__ == "__main__":
    main()
