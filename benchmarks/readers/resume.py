"""Going on in an epoch of millions of samples, and the memory of a worker.

    python -m benchmarks.readers.resume [--data FOLDER] [--rounds 5]

Each resumption is a new process that has the state of a checkpoint: the data set is opened, the
state loaded and the first batch read. It is to take less than 0.2 s at 90 % of the epoch, and the
same anywhere in it. What every process needs before it reads anything is timed apart: importing
torch and the library, and Numba's own start with the kernels it has compiled before, for which a
batch of epoch 0 is read through another data set object. Shards are unpacked beforehand, as they
are where a run was stopped.

Memory is that of a worker that was started anew ("spawn"), so that nothing is shared with its
parent, while it reads, beside a process that has imported torch and nothing else. Pages of mapped
shards are told apart: the system takes them back when it needs memory, and workers share them.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import median

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.readers.data_sets import make_data_set

SHARES = (0.0, 0.5, 0.9)
MOST_SECONDS, MOST_MIB = 0.2, 300
_BATCHES = 3000
_MIB = 2**20


def resume(folder: Path, work: Path, share: float) -> dict[str, float]:
    """Go on at a share of the epoch; for a process of its own.

    Returns:
        samples of the epoch; seconds of importing, of loading kernels, and of going on, these in
        processor time, too.
    """
    began = time.perf_counter()
    # Importing is what is timed.
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


def measure_worker(folder: Path, work: Path) -> dict[str, float]:
    """Memory of a worker that reads, in MiB; for a process of its own."""
    Source = import_module("benchmarks.readers.data_sets").Source  # noqa: N806
    loader = import_module("benchmarks.readers.ours").loader(Source(folder, work), 1, "spawn")
    batches = iter(loader)
    for _ in range(_BATCHES):
        next(batches)
    [worker] = [
        child
        for child in psutil.Process().children(recursive=True)
        if "spawn_main" in " ".join(child.cmdline())
    ]
    return describe_memory(worker, work)


def measure_torch(*_: Path) -> dict[str, float]:
    """Memory of a process that has imported torch and its DataLoader, in MiB."""
    import_module("torch.utils.data")
    return describe_memory(psutil.Process(), Path("/nowhere"))


def describe_memory(process: psutil.Process, work: Path) -> dict[str, float]:
    """Memory of a process, in MiB, and how much of it are pages of mapped shards."""
    of, inside = process.memory_full_info(), str(work.resolve())
    mapped = sum(part.rss for part in process.memory_maps() if part.path.startswith(inside))
    sizes = {"rss": of.rss, "pss": of.pss, "uss": of.uss, "mapped": mapped}
    return {name: size / _MIB for name, size in sizes.items()}


def _run(*arguments: object) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.readers.resume", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def show_resumptions(data: Path, rounds: int) -> Table:
    """How long it takes to go on at several places of an epoch."""
    folder, work = make_data_set(data, "many"), data / "work" / "many"
    table = Table("going on at", "of samples", "s to the first batch", "rounds", "CPU s")
    table.add_column("import s")
    table.add_column("kernels s")
    table.add_column()
    for share in SHARES:
        _run("resume", folder, work, share)  # compiles, and unpacks what is read there
    turns = [
        (share, _run("resume", folder, work, share)) for _ in range(rounds) for share in SHARES
    ]
    for share in SHARES:
        found = [of for at, of in turns if at == share]
        seconds = median(of["first"] for of in found)
        table.add_row(
            f"{share:.0%}",
            f"{found[0]['samples']:,.0f}",
            f"{seconds:.3f}",
            " ".join(f"{of['first']:.3f}" for of in found),
            f"{median(of['processor'] for of in found):.3f}",
            f"{median(of['import'] for of in found):.2f}",
            f"{median(of['kernels'] for of in found):.2f}",
            "met" if seconds < MOST_SECONDS else "missed",
        )
    return table


def show_memory(data: Path) -> Table:
    """What a worker takes."""
    table = Table("MiB", "RSS", "of it mapped shards", "without them", "USS", "PSS", "")
    torch = _run("torch", data, data)
    rows = {"torch alone": torch}
    for name in ("bert", "bert-dynamic", "gpt", "many"):
        folder = make_data_set(data, name)
        rows[f"a worker, {name}"] = _run("worker", folder, data / "work" / name)
    for name, of in rows.items():
        own = of["rss"] - of["mapped"]
        verdict = "met" if own - torch["rss"] < MOST_MIB else "missed"
        sizes = [of["rss"], of["mapped"], own, of["uss"], of["pss"]]
        table.add_row(name, *(f"{size:,.0f}" for size in sizes), "" if of is torch else verdict)
    return table


def main() -> None:
    """Measure, in processes of their own; or be one of them."""
    inner: dict[str, Callable[..., object]] = {
        "resume": resume, "worker": measure_worker, "torch": measure_torch,
    }  # fmt: skip
    if len(sys.argv) > 1 and sys.argv[1] in inner:
        folder, work, *share = sys.argv[2:]
        print(json.dumps(inner[sys.argv[1]](Path(folder), Path(work), *map(float, share))))
        return
    parser = argparse.ArgumentParser(description="Going on within an epoch, and memory.")
    parser.add_argument("--data", type=Path, default=Path("benchmark-data/readers"))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    console = Console(width=130)
    console.print(show_resumptions(options.data, options.rounds))
    console.print(show_memory(options.data))


if __name__ == "__main__":
    main()
