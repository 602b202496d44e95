"""A first epoch, whose shards are not unpacked, with and without threads that unpack ahead.

    python -m benchmarks.readers.cold_epoch [--folder FOLDER] [--data-set DATA_SET] [--rounds 3]
        [--microseconds 4]

Each run is a process of its own that reads batches of 32 through `Loader`: once by a loop that does
nothing else, and once by one that waits for some microseconds per example between batches, as a
trainer waits for its accelerator. "Waited" is the time in which the loop had no batch. Warm epochs
are those of a data set that is unpacked.
"""

import json
import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.builds import FOLDER
from benchmarks.console import make_parser, print_table
from benchmarks.measure import measure, median_ratio, take_turns
from benchmarks.readers.data_sets import make_data_set
from corpusmill import DataSet, Loader, make_batches
from corpusmill.reading.load.batches import UnpackingAhead

BATCH_SIZE = 32
_WAYS = ("as needed", "ahead", "warm")


def read_epoch(options: Any) -> dict[str, float]:
    """Read an epoch in this process, and return what it took."""
    cache = options.folder / "cold"
    if options.way != "warm":
        shutil.rmtree(cache, ignore_errors=True)
    if options.way == "as needed":
        setattr(UnpackingAhead, "_start", lambda _: None)  # noqa: B010
    data = DataSet(options.data_set, cache_folder=cache)
    pause = options.microseconds * BATCH_SIZE / 1e6
    waited, read = 0.0, 0
    began, processor = time.perf_counter(), time.process_time()
    batches = iter(Loader(make_batches(data, BATCH_SIZE, seed=1)))
    while True:
        asked = time.perf_counter()
        batch = next(batches, None)
        waited += time.perf_counter() - asked
        if batch is None:
            break
        read += len(batch["input_ids"])
        if pause:
            time.sleep(pause)
    return {
        "seconds": time.perf_counter() - began,
        "waited": waited,
        "processor": time.process_time() - processor,
        "examples": read,
    }


def measure_epochs(folder: Path, data_set: Path, options: Any) -> Iterator[list[str]]:
    """Yield a row for each loop and way."""
    for microseconds in (0, options.microseconds):
        flags = ("--folder", folder, "--data-set", data_set)
        calls = {
            way: partial(
                measure, "benchmarks.readers.cold_epoch", *flags, "--way", way, "--microseconds",
                microseconds, watch=False,
            )
            for way in _WAYS
        }  # fmt: skip
        runs = {
            way: [run.result for run in own]
            for way, own in take_turns(calls, options.rounds).items()
        }
        needed = runs["as needed"]
        for way, own in runs.items():
            ratios = {
                name: median_ratio([run[name] for run in needed], [run[name] for run in own])
                for name in ("seconds", "waited")
            }
            yield [
                f"{microseconds} us of work, {way}",
                f"{median(run['examples'] for run in own):,.0f}",
                f"{median(run['seconds'] for run in own):.2f}",
                " ".join(f"{run['seconds']:.2f}" for run in own),
                f"{median(run['waited'] for run in own):.2f}",
                f"{median(run['processor'] for run in own):.2f}",
                f"{ratios['seconds']:.2f}",
                f"{ratios['waited']:.2f}",
            ]


def main() -> None:
    """Measure and print the table; or make one measurement in this process."""
    parser = make_parser(__doc__, folder=FOLDER / "readers", rounds=3, microseconds=4, scale=1.0)
    parser.add_argument("--data-set", type=Path, help="in place of a synthetic one")
    parser.add_argument("--way", choices=_WAYS, help="print one measurement as JSON")
    options = parser.parse_args()
    if options.way:
        print(json.dumps(read_epoch(options)))
        return
    data_set = options.data_set or make_data_set(options.folder, "bert", options.scale)
    headings = ["", "examples", "seconds", "rounds", "waited", "CPU s", "times as fast",
                "times less waiting"]  # fmt: skip
    print_table(headings, measure_epochs(options.folder, data_set, options))


if __name__ == "__main__":
    main()
