"""Resuming within an epoch of millions of samples, and the memory of a worker.

    python -m benchmarks.readers.resume [--folder FOLDER] [--rounds 5]

Each resumption is a new process with the state of a checkpoint: it opens the data set, loads the
state and reads the first batch. This must take less than 0.2 s at 90 % of the epoch, and as long
anywhere else. What every process needs before it reads is timed separately: importing torch and the
library, and the start of Numba with the kernels that it compiled before, for which the process
reads a batch of epoch 0 through another data set object. The shards are already unpacked, as they
are when a run has stopped.

The memory is that of a worker while it reads, beside a process that has only imported torch. The
worker is started by "spawn", so that it shares nothing with its parent. Pages of mapped shards are
shown separately, as workers share them and the system can reclaim them.
"""

import json
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks.builds import FOLDER
from benchmarks.console import make_parser, print_table, verdict
from benchmarks.measure import measure, take_turns
from benchmarks.readers.data_sets import make_data_set

SHARES = (0.0, 0.5, 0.9)
MOST_SECONDS, MOST_MIB = 0.2, 300
_BATCHES = 3000
_MIB = 2**20


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
    next(iter(open_loader(source, 0)))
    started, processor = time.perf_counter(), time.process_time()
    loader = open_loader(source, 0)
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


def measure_worker(folder: Path, work: Path, _share: float) -> dict[str, float]:
    """Return the memory of a worker that reads, in MiB."""
    source = import_module("benchmarks.readers.data_sets").Source(folder, work)
    loader = import_module("benchmarks.readers.ours").loader(source, 1, "spawn")
    batches = iter(loader)
    for _ in range(min(_BATCHES, len(loader) // 2)):
        next(batches)
    [worker] = [
        child
        for child in psutil.Process().children(recursive=True)
        if "spawn_main" in " ".join(child.cmdline())
    ]
    return measure_memory(worker, work)


def measure_torch(_folder: Path, work: Path, _share: float) -> dict[str, float]:
    """Return the memory of a process that has imported torch and its DataLoader, in MiB."""
    import_module("torch.utils.data")
    return measure_memory(psutil.Process(), work)


def measure_memory(process: psutil.Process, work: Path) -> dict[str, float]:
    """Return the memory of a process, in MiB; "mapped" is the part that are pages of shards."""
    memory, folder = process.memory_full_info(), str(work.resolve())
    mapped = sum(area.rss for area in process.memory_maps() if area.path.startswith(folder))
    sizes = {"rss": memory.rss, "pss": memory.pss, "uss": memory.uss, "mapped": mapped}
    return {name: size / _MIB for name, size in sizes.items()}


_ALONE = {"resume": resume, "worker": measure_worker, "torch": measure_torch}


def _run_alone(name: str, folder: Path, work: Path, share: float = 0.0) -> dict[str, Any]:
    flags = ("--alone", name, "--data-set", folder, "--work", work, "--share", share)
    return measure("benchmarks.readers.resume", *flags, watch=False).result


def measure_resumptions(folder: Path, scale: float, rounds: int) -> Iterator[list[str]]:
    """Yield a row for each place of the epoch."""
    data, work = make_data_set(folder, "many", scale), folder / "work" / "many"
    calls = {share: lambda share=share: _run_alone("resume", data, work, share) for share in SHARES}
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
            verdict(is_met=medians["first"] < MOST_SECONDS),
        ]


def measure_memories(folder: Path, scale: float) -> Iterator[list[str]]:
    """Yield a row for torch alone, and one for a worker on each data set."""
    torch = _run_alone("torch", folder, folder)
    memories = {"torch alone": torch}
    for name in ("bert", "bert-dynamic", "gpt", "many"):
        data = make_data_set(folder, name, scale)
        memories[f"a worker, {name}"] = _run_alone("worker", data, folder / "work" / name)
    for name, memory in memories.items():
        own = memory["rss"] - memory["mapped"]
        sizes = [memory["rss"], memory["mapped"], own, memory["uss"], memory["pss"]]
        outcome = "" if memory is torch else verdict(is_met=own - torch["rss"] < MOST_MIB)
        yield [name, *(f"{size:,.0f}" for size in sizes), outcome]


def main() -> None:
    """Measure and print the tables; or make one measurement in this process."""
    parser = make_parser(__doc__, folder=FOLDER / "readers", rounds=5, scale=1.0, share=0.0)
    parser.add_argument("--alone", choices=_ALONE, help="print one measurement as JSON")
    parser.add_argument("--data-set", type=Path, help="with --alone")
    parser.add_argument("--work", type=Path, help="with --alone")
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(_ALONE[options.alone](options.data_set, options.work, options.share)))
        return
    headings = ["resumed at", "of samples", "s to the first batch", "rounds", "CPU s", "import s",
                "kernels s", ""]  # fmt: skip
    print_table(headings, measure_resumptions(options.folder, options.scale, options.rounds))
    headings = ["MiB", "RSS", "mapped shards", "without them", "USS", "PSS", ""]
    print_table(headings, measure_memories(options.folder, options.scale))


if __name__ == "__main__":
    main()
