"""What an audit of large token files takes, beside one pass that counts ids and does nothing else.

    python -m benchmarks.scale.audited_files [--gigabytes 2] [--sparse-gigabytes 100] [--rounds 3]

The ids of a text are written again and again, until the file has the size: as ids of 16 and of 32
bits, with and without the index of Megatron-LM. A sparse file of zeros shows that the memory does
not grow with the size.
"""

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from tokenizers import Tokenizer

from benchmarks.builds import FOLDER, SAMPLE, make_tokenizer
from benchmarks.console import make_parser, print_table, report
from benchmarks.measure import Measurement, measure, take_turns
from corpusmill.audit.measures import COUNTED_IDS
from corpusmill.formats.token_files import MEGATRON_HEADER, MEGATRON_MAGIC

_BLOCK = 2**22
_CODES = {"uint16": 8, "int32": 4}


def write_ids(path: Path, ids: np.ndarray, size: int) -> None:
    """Write ids again and again until a file has a size."""
    times = -(-size // ids.nbytes)
    with path.open("wb") as file:
        for _ in range(times):
            ids.tofile(file)
    lengths = np.tile(np.diff(np.flatnonzero(ids == ids[-1]), prepend=-1), times)
    begins = np.append(0, np.cumsum(lengths)[:-1]) * ids.itemsize
    code = _CODES[ids.dtype.name]
    head = MEGATRON_HEADER.pack(MEGATRON_MAGIC, 1, code, len(lengths), len(lengths) + 1)
    documents = np.arange(len(lengths) + 1)
    parts = (lengths.astype("<i4"), begins.astype("<i8"), documents.astype("<i8"))
    path.with_suffix(".idx").write_bytes(head + b"".join(part.tobytes() for part in parts))


def count(path: str, dtype: str) -> None:
    """Count the ids of a file, and print nothing else: the pass that is compared with."""
    counts, ids = np.zeros(COUNTED_IDS, np.int64), np.memmap(path, dtype, "r")
    for begin in range(0, len(ids), _BLOCK):
        counts += np.bincount(ids[begin : begin + _BLOCK], minlength=COUNTED_IDS)
    print(json.dumps({"ids": int(counts.sum())}))


def describe(name: str, size: float, runs: Sequence[Measurement]) -> list[str]:
    """Return the cells of a row."""
    seconds = median(run.seconds for run in runs)
    processor = median(run.processor_seconds for run in runs)
    peak = max(run.peak_mib for run in runs)
    return [name, f"{seconds:.2f}", f"{processor:.2f}", f"{size / seconds:.2f}", f"{peak:,.0f}"]


def main() -> None:
    """Measure the audits and print a table."""
    if sys.argv[1:2] == ["count"]:
        count(*sys.argv[2:])
        return
    parser = make_parser(
        __doc__, gigabytes=2.0, sparse_gigabytes=100.0, rounds=3, folder=str(FOLDER)
    )
    options = parser.parse_args()
    folder = Path(options.folder) / "audited"
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(make_tokenizer(Path(options.folder), SAMPLE, "gpt")))
    texts = SAMPLE.read_text().split("\n \n")
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    ids = np.array([token for one in encoded for token in (*one.ids, 0)])
    runs: dict[str, Callable[[], Measurement]] = {}
    for dtype in _CODES:
        path = folder / f"{dtype}.bin"
        write_ids(path, ids.astype(dtype), int(options.gigabytes * 1e9))
        audit = partial(measure, "corpusmill", "audit", path, "--end-id", 0)
        runs[f"audit of {dtype} with an index"] = partial(audit, "--format", "megatron")
        runs[f"audit of {dtype} alone"] = partial(audit, "--format", "tokens", "--dtype", dtype)
        count_ids = partial(measure, "benchmarks.scale.audited_files", "count", path, dtype)
        runs[f"{dtype} counted by NumPy"] = count_ids
    report(f"{options.rounds} rounds of {len(runs)} runs")
    measured = take_turns(runs, options.rounds)
    rows = [describe(name, options.gigabytes, own) for name, own in measured.items()]
    if options.sparse_gigabytes:
        sparse = folder / "sparse.npy"
        with sparse.open("wb") as file:
            file.truncate(int(options.sparse_gigabytes * 1e9))
        run = measure("corpusmill", "audit", sparse, "--dtype", "uint16", "--format", "tokens")
        name = f"audit of {options.sparse_gigabytes:g} GB of zeros"
        rows.append(describe(name, options.sparse_gigabytes, [run]))
    print_table(["", "s", "processor s", "GB/s", "MiB"], rows, f"{options.gigabytes:g} GB of ids")


if __name__ == "__main__":
    main()
