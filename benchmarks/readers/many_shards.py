"""A data set of ten trillion tokens: how long it takes to open, and what a rank reads at first.

    python -m benchmarks.readers.many_shards [--folder FOLDER] [--rounds 5] [--shards 100000]

It has 100,000 shards of 195,312 rows of 512 tokens, and 40,000 files in its corpus. Every shard is
a link to the same file of random tokens, so that its manifest is a real one and any shard can be
read; for the same reason one shard that is unpacked stands for all.

Each round is a new process. As in `benchmarks.readers.resume`, what every process needs before it
reads anything is timed separately: the start of Numba with the kernels that it compiled before, for
which the process reads a batch of a data set of one small shard. Then it opens the data set and
takes the first batch of rank 4,095 of 4,096, with all shards unpacked by an earlier run, and once
with none. Memory is the largest resident set until then, less that before it opens the data set.
What is opened and listed in the data set's folder is counted by Python's audit events.
"""

import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.builds import FOLDER, MEGABYTE, SAMPLE, make_tokenizer
from benchmarks.console import make_parser, print_table
from benchmarks.measure import measure
from corpusmill import DataSet, Loader, make_batches
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.dataset.manifest import Manifest, Shard, Split, shard_name
from corpusmill.dataset.manifest_entries import SourceFile
from corpusmill.dataset.manifest_json import encode
from corpusmill.objectives.gpt import GptOptions
from corpusmill.testing.datasets import SmallBuild, write_dataset
from corpusmill.tokenization.sources.read import read_tokenizer

ROWS, TOKENS, FILES = 195_312, 512, 40_000
RANK, RANKS, BATCH_SIZE = 4095, 4096, 32


def make_data_sets(folder: Path, shards: int) -> None:
    """Write the data set, and a small one, unless the folder has them."""
    if (folder / "large" / "dataset.json").exists():
        return
    shutil.rmtree(folder / "large", ignore_errors=True)
    path = make_tokenizer(folder, SAMPLE, "gpt")
    tokenizer = read_tokenizer("tokenizer.json", {"tokenizer.json": path.read_bytes()}.get)
    build = SmallBuild(
        GptOptions(mode="windows", max_seq_length=TOKENS),
        tokenizer,
        SAMPLE.read_bytes(),
        DocumentOptions(document_rule="wikitext"),
        shards=1,
        validation_share=0.0,
    )
    shutil.rmtree(folder / "small", ignore_errors=True)
    header = write_dataset(folder / "small", build)
    content = _write_shard(folder / "shard.parquet", header)
    (folder / "large").mkdir()
    names = [shard_name("train", n, shards, ".parquet") for n in range(shards)]
    for name in names:
        (folder / "large" / name).symlink_to("../shard.parquet")
    size, digest = len(content), sha256(content).hexdigest()
    entries = [Shard(name, size, digest, ROWS, ROWS * TOKENS) for name in names]
    lengths = {"length": {TOKENS: ROWS * shards}}
    files = tuple(
        SourceFile(f"crawl/part-{n:05d}.jsonl.zst", 10**9 + n, f"{n:08x}") for n in range(FILES)
    )
    manifest = replace(
        header,
        splits={"train": Split.from_shards(entries, lengths)},
        corpus=replace(header.corpus, files=files, bytes=sum(file.bytes for file in files)),
    )
    (folder / "large" / "dataset.json").write_bytes(encode(manifest))


def _write_shard(path: Path, header: Manifest) -> bytes:
    column = header.columns[0]
    ids = np.random.default_rng(0).integers(0, header.tokenizer.vocab_size, ROWS * TOKENS)
    offsets = np.arange(0, ROWS * TOKENS + 1, TOKENS, dtype=np.int32)
    field = column.arrow_field(padded=False)
    lists = pa.ListArray.from_arrays(offsets, ids.astype(column.dtype), type=field.type)
    rows = pa.RecordBatch.from_arrays([lists], schema=pa.schema([field]))
    with path.open("wb") as stream:
        output = header.output
        writer = output.shard_format.open_writer([stream], header.columns, output.options)
        for begin in range(0, ROWS, 8192):
            writer.write(rows.slice(begin, 8192))
        writer.close()
    return path.read_bytes()


def open_alone(folder: Path, cache: Path) -> dict[str, float]:
    """Open the data set in this process and read a rank's first batch."""

    def first_batch(name: str, rank: int, ranks: int) -> tuple[float, float]:
        """Return the seconds to open a data set, and to the first batch of a rank."""
        opening = time.perf_counter()
        data = DataSet(folder / name, cache_folder=cache)
        opened = time.perf_counter()
        batches = make_batches(data, BATCH_SIZE, seed=1)
        batch = next(iter(Loader(batches, rank, ranks, prefetch_factor=0)))
        if len(batch["input_ids"]) != BATCH_SIZE:
            raise ValueError("the first batch is incomplete")
        return opened - opening, time.perf_counter() - opened

    kernels, loaded = sum(first_batch("small", 0, 1)), _peak()
    events = _count_events(folder / "large")
    opened, first = first_batch("large", RANK, RANKS)
    return {
        "kernels": kernels,
        "open": opened,
        "first": first,
        "megabytes": _peak() - loaded,
        "files": events["open"],
        "lists": events["os.listdir"] + events["os.scandir"],
    }


def _peak() -> float:
    """Return the largest resident set of this process; `getrusage` tells that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(kilobytes) * 1024 / MEGABYTE


def _count_events(folder: Path) -> Counter[str]:
    counts, inside = Counter[str](), str(folder.absolute())

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event in {"open", "os.listdir", "os.scandir"} and str(arguments[0]).startswith(inside):
            counts[event] += 1

    sys.addaudithook(note)
    return counts


def measure_openings(folder: Path, rounds: int) -> Iterator[list[str]]:
    """Yield a row for the first run, which unpacks, and one for the later ones."""
    cache = folder / "unpacked"
    shutil.rmtree(cache, ignore_errors=True)
    module = "benchmarks.readers.many_shards"
    runs = [
        measure(module, "--folder", folder, "--alone", watch=False).result
        for _ in range(rounds + 1)
    ]
    for name, some in (("nothing is unpacked", runs[:1]), ("unpacked before", runs[1:])):
        medians = {key: median(run[key] for run in some) for key in some[0]}
        yield [
            name,
            f"{medians['open']:.2f}",
            f"{medians['first']:.3f}",
            f"{medians['megabytes']:.0f}",
            f"{medians['files']:.0f}",
            f"{medians['lists']:.0f}",
            f"{medians['kernels']:.2f}",
        ]


def main() -> None:
    """Measure and print the table; or make one measurement in this process."""
    parser = make_parser(__doc__, folder=FOLDER / "many-shards", rounds=5, shards=100_000)
    parser.add_argument("--alone", action="store_true", help="print one measurement as JSON")
    options = parser.parse_args()
    folder: Path = options.folder
    if options.alone:
        print(json.dumps(open_alone(folder, folder / "unpacked")))
        return
    make_data_sets(folder, options.shards)
    headings = ["", "s to open", "s to the first batch", "MB", "files opened", "listed",
                "kernels s"]  # fmt: skip
    print_table(headings, measure_openings(folder, options.rounds))


if __name__ == "__main__":
    main()
