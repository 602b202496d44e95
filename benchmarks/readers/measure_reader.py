"""One reader in a process of its own, for `benchmarks.readers`.

    python -m benchmarks.readers.measure_reader READER FOLDER WORK [--workers 0 1 2]
        [--examples 100000]

Prints a line of JSON with the measurements for each number of workers, or only for 0 if the reader
has none.
"""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
import torch

from benchmarks.console import make_parser
from benchmarks.readers.data_sets import Source
from benchmarks.readers.ours import OURS, WITHOUT_WORKERS
from benchmarks.readers.peers import PEERS, nano_gpt

READERS = {**OURS, **PEERS, "nanoGPT's memmap": nano_gpt}


def measure_reader(batches: Iterable[dict[str, torch.Tensor]], examples: int) -> dict[str, Any]:
    """Read a number of examples, and return the time that this took.

    The clock starts after the first batch, as starting workers and filling their queues does not
    count; the time until then is `first`.
    """
    began, own, others = time.perf_counter(), time.process_time(), _children_seconds()
    iterator = iter(batches)
    first = next(iterator)
    started = time.perf_counter()
    read = 0
    for batch in iterator:
        read += len(batch["input_ids"])
        if read >= examples:
            break
    seconds = time.perf_counter() - started
    workers = _children_seconds() - others
    spent = time.process_time() - own + workers
    _check_shape(first)
    return {
        "examples": read,
        "seconds": seconds,
        "processor_seconds": spent,
        "first": started - began,
    }


def _check_shape(batch: dict[str, torch.Tensor]) -> None:
    """Check that a batch has padded int64 matrices, as those of all readers must."""
    rows, width = batch["input_ids"].shape
    for name, values in batch.items():
        if values.dtype != torch.int64 or values.shape not in {(rows, width), (rows,)}:
            raise ValueError(f"{name} is {values.dtype} {tuple(values.shape)}")


def _children_seconds() -> float:
    """Return the processor time of the running workers."""
    spent = 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
            spent += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return spent


def fingerprint(batches: Iterable[dict[str, torch.Tensor]]) -> list[int]:
    """Return an epoch's sums of rows, tokens, ids and labels, which any order has in common."""
    sums = [0, 0, 0, 0]
    for batch in batches:
        ids = batch["input_ids"]
        mask = batch.get("attention_mask")
        labels = batch.get("labels", batch.get("targets"))
        sums[0] += len(ids)
        sums[1] += ids.numel() if mask is None else int(mask.sum())
        sums[2] += int(ids.sum())
        sums[3] += 0 if labels is None else int((labels + 100).sum())
    return sums


def main() -> None:
    """Measure one reader."""
    parser = make_parser(__doc__, examples=100_000)
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--check", action="store_true", help="print the sums of an epoch, too")
    options = parser.parse_args()
    source = Source(options.folder, options.work)
    options.work.mkdir(parents=True, exist_ok=True)
    read = READERS[options.reader]
    began = time.perf_counter()
    read(source, 0)
    result: dict[str, Any] = {"open": time.perf_counter() - began, "workers": {}}
    if options.check:
        result["fingerprint"] = fingerprint(read(source, 0))
    for workers in [0] if options.reader in WITHOUT_WORKERS else options.workers:
        measure_reader(read(source, workers), 2048)  # compiles, and maps files
        result["workers"][workers] = measure_reader(read(source, workers), options.examples)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
