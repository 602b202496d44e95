"""Resuming within an epoch of millions of samples.

    python -m benchmarks.readers.resume [--folder FOLDER] [--rounds 5]

Each resumption is a new process with the state of a checkpoint: it opens the data set, loads the
state and reads the first batch. What every process needs before it reads is timed separately:
importing torch and the library, and the start of Numba with the kernels that it compiled before,
for which the process reads a batch of epoch 0 through another data set object. The shards are
already unpacked, as they are when a run has stopped.
"""

import json
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.builds import FOLDER
from benchmarks.console import make_parser, print_table
from benchmarks.measure import measure, take_turns
from benchmarks.readers.data_sets import make_data_set

SHARES = (0.0, 0.5, 0.9)


def resume(folder: Path, work: Path, share: float) -> dict[str, float]:
    """Resume at a share of the epoch, in a process of its own.

    Returns:
        The samples of the epoch; the seconds to import, to load kernels, and to resume; and the
        processor seconds to resume.
    """
    began = time.perf_counter()
    # The imports are part of the measurement.
    source = import_module("benchmarks.readers.data_sets").Source(folder, work)
    open_loader = import_module("benchmarks.readers.ours").loader
    imported = time.perf_counter()
    next(iter(open_loader(source)))
    started, processor = time.perf_counter(), time.process_time()
    loader = open_loader(source)
    samples = len(loader.batches.order)
    loader.load_state_dict(loader.state_dict() | {"number": int(samples * share)})
    batch = next(iter(loader))
    first = time.perf_counter()
    if not len(batch["input_ids"]):
        raise ValueError("the first batch is empty")
    return {
        "samples": samples,
        "import": imported - began,
        "kernels": started - imported,
        "first": first - started,
        "processor": time.process_time() - processor,
    }


def _resume_alone(data: Path, work: Path, share: float) -> dict[str, Any]:
    flags = ("--data-set", data, "--work", work, "--share", share)
    return measure("benchmarks.readers.resume", *flags, watch=False).result


def measure_resumptions(folder: Path, scale: float, rounds: int) -> Iterator[list[str]]:
    """Yield a row for each place of the epoch."""
    data, work = make_data_set(folder, "many", scale), folder / "work" / "many"
    calls = {share: lambda share=share: _resume_alone(data, work, share) for share in SHARES}
    take_turns(calls, 1)  # compiles, and unpacks the shards
    for share, runs in take_turns(calls, rounds).items():
        medians = {name: median(run[name] for run in runs) for name in runs[0]}
        yield [
            f"{share:.0%}",
            f"{medians['samples']:,.0f}",
            f"{medians['first']:.3f}",
            " ".join(f"{run['first']:.3f}" for run in runs),
            f"{medians['processor']:.3f}",
            f"{medians['import']:.2f}",
            f"{medians['kernels']:.2f}",
        ]


def main() -> None:
    """Measure and print the table; or resume once in this process."""
    parser = make_parser(__doc__, folder=FOLDER / "readers", rounds=5, scale=1.0, share=0.0)
    parser.add_argument("--data-set", type=Path, help="resume once, and print it as JSON")
    parser.add_argument("--work", type=Path, help="with --data-set")
    options = parser.parse_args()
    if options.data_set:
        print(json.dumps(resume(options.data_set, options.work, options.share)))
        return
    headings = ["resumed at", "of samples", "s to the first batch", "rounds", "processor seconds",
                "import s", "kernels s"]  # fmt: skip
    print_table(headings, measure_resumptions(options.folder, options.scale, options.rounds))


if __name__ == "__main__":
    main()
