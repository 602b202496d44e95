"""How long it takes to trace a row, a step and a document's rows, among 100 million rows.

    python -m benchmarks.scale.traced_rows [--rows 100000000] [--shards 400] [--rounds 3]
    python -m benchmarks.scale.traced_rows --rows 27000000 --shards 1 --random

A small data set of BERT is built, and its manifest and provenance are replaced by ones that claim
all these rows, in ten passes over each document. With --random every second row ends with text of
a random document; without it no row does, as for objectives that draw none. The shards themselves
stay small, and the claimed rows have no text.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from msgspec.structs import replace as replace_struct

from benchmarks.builds import FOLDER, SAMPLE, build, make_tokenizer, remove
from benchmarks.console import make_parser, print_table, report
from benchmarks.measure import measure, take_turns
from corpusmill.arrays import ragged
from corpusmill.arrays.columns import IDENTITY_SCHEMA
from corpusmill.dataset.manifest import MANIFEST, Manifest, Shard, Split
from corpusmill.dataset.manifest_entries import provenance_name
from corpusmill.dataset.manifest_json import encode
from corpusmill.dataset.shards import read_manifest
from corpusmill.layout.placement import Layout
from corpusmill.layout.sorting import add_keys, sort_rows
from corpusmill.location import locate
from corpusmill.provenance.documents_table import DocumentsWriter
from corpusmill.provenance.spans_table import SpansWriter
from corpusmill.reading.data_set import DataSet

_PASSES, _ROWS_PER_PASS, _DOCUMENT_BYTES, _DOCUMENT_TOKENS = 10, 5, 5000, 1000
_TOKENS, _DOCUMENTS_ADDED, _ROWS_ADDED = 64, 20_000, 8192
# Ranks and rows of a rank in a step.
_RANKS, _BATCH_SIZE = 8, 256
_RANDOM = "pool.documents"


def make_data_set(folder: Path, rows: int, shards: int, *, has_random: bool) -> Manifest:
    """Write a data set that claims rows, if the folder lacks it; return its manifest."""
    if not (folder / MANIFEST).exists():
        report(f"writing {folder}")
        tokenizer = make_tokenizer(folder.parent, SAMPLE, "bert")
        flags = ("--num-shards", shards, "--max-seq-length", _TOKENS)
        build(("pipeline", "bert"), SAMPLE, tokenizer, folder, *flags)
        _claim(folder, rows // shards, has_random=has_random)
    return read_manifest(locate(str(folder)))


def _claim(folder: Path, rows: int, *, has_random: bool) -> None:
    """Write provenance, and a manifest with this number of rows in each shard."""
    manifest = read_manifest(locate(str(folder)))
    assert manifest.provenance is not None
    layout = manifest.provenance.generations[0].layout
    number = rows * layout.train_shards // (_PASSES * _ROWS_PER_PASS)
    documents = np.arange(number, dtype=np.uint64) * np.uint64(_DOCUMENT_BYTES)
    homes = layout.homes(documents, np.zeros(number, np.uint8))
    shards: list[Shard] = []
    for shard in manifest.splits["train"].shards:
        claimed = _write_shard(folder, layout, len(shards), documents, homes, has_random)
        shards.append(replace_struct(shard, rows=claimed, tokens=claimed * _TOKENS))
    total = sum(one.rows for one in shards)
    train = Split(total, total * _TOKENS, (*shards,), {"length": {_TOKENS: total}})
    counts = {**manifest.counts, _RANDOM: number if has_random else 0}
    content = encode(replace(manifest, splits={"train": train}, counts=counts))
    (folder / MANIFEST).write_bytes(content)


def _write_shard(
    folder: Path,
    layout: Layout,
    shard: int,
    documents: np.ndarray,
    homes: np.ndarray,
    has_random: bool,
) -> int:
    """Write the provenance of a shard, and return its number of rows."""
    own = documents[homes == shard]
    sentences = ragged.to_arrow(
        pa.array(np.zeros(len(own) * _DOCUMENT_TOKENS, np.int16)),
        np.arange(len(own) + 1, dtype=np.int64) * _DOCUMENT_TOKENS,
    )
    texts = ragged.to_arrow(sentences, np.arange(len(own) + 1, dtype=np.int64))
    digests = np.random.default_rng(shard).integers(0, 2**64, len(own), np.uint64)
    batch = pa.record_batch({
        "document": pa.array(own), "sentences": texts,
        "length": pa.array(np.full(len(own), _DOCUMENT_BYTES, np.uint64)),
        "digest": pa.array(digests),
    })  # fmt: skip
    total = layout.train_shards
    with (folder / "v1" / provenance_name("documents", "train", shard, total)).open("wb") as sink:
        documents_writer = DocumentsWriter(sink)
        documents_writer.add(batch)
        documents_writer.close()
    rows = 0
    parts = _rows_of(layout, shard, documents, homes, has_random)
    keyed = [add_keys(part, layout.seed) for part in parts]
    with (folder / "v1" / provenance_name("spans", "train", shard, total)).open("wb") as sink:
        writer = SpansWriter(sink)
        for part in sort_rows(keyed, _ROWS_ADDED):
            writer.add(part)
            rows += part.num_rows
        writer.close()
    return rows


def _rows_of(
    layout: Layout, shard: int, documents: np.ndarray, homes: np.ndarray, has_random: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a shard, some documents in a pass at a time."""
    draws = np.random.default_rng(shard)
    for repeat in range(_PASSES):
        own = documents[homes == (shard - repeat) % layout.train_shards]
        for begin in range(0, len(own), _DOCUMENTS_ADDED):
            part = own[begin : begin + _DOCUMENTS_ADDED]
            others = draws.choice(documents, len(part) * _ROWS_PER_PASS)
            yield _make_rows(part, repeat, others, draws, 0.5 if has_random else 0)


def _make_rows(
    documents: np.ndarray,
    repeat: int,
    others: np.ndarray,
    draws: np.random.Generator,
    random_share: float,
) -> pa.RecordBatch:
    """Return the rows of documents in a pass: spans of 60 tokens, some of other documents."""
    names = np.repeat(documents, _ROWS_PER_PASS)
    indices = np.tile(np.arange(_ROWS_PER_PASS), len(documents))
    firsts = indices * 100 + draws.integers(0, 50, len(names))
    spans = np.stack([names, firsts.astype(np.uint64), np.full(len(names), 60, np.uint64)], 1)
    chosen = draws.random(len(names)) < random_share
    random_spans = spans.copy()
    random_spans[:, 0] = others
    parts = np.concatenate([spans, random_spans], 1)
    kept = np.stack([np.ones(len(names), bool), chosen], 1).repeat(3, axis=1)
    offsets = np.cumsum([0, *(3 + 3 * chosen)])
    identity = (names, np.full(len(names), repeat), indices)
    columns = [
        pa.array(values.astype(field.type.to_pandas_dtype()))
        for values, field in zip(identity, IDENTITY_SCHEMA, strict=True)
    ]
    spans_column = ragged.to_arrow(pa.array(parts[kept]), offsets)
    return pa.record_batch([*columns, spans_column], [*IDENTITY_SCHEMA.names, "spans"])


def time_both(call: Callable[[], object]) -> tuple[float, float]:
    """Return the processor seconds and the seconds of a call."""
    began, processor = time.perf_counter(), time.process_time()
    call()
    return time.process_time() - processor, time.perf_counter() - began


def list_cells(folder: Path, rounds: int) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each question, in Python and as a command."""
    opening = DataSet(folder)
    row = len(opening) // 2 + 12345
    document = opening.trace([row])[0].origin.document
    assert opening.rows_of([document])
    in_python = {
        "open, trace a row": lambda: DataSet(folder).trace([row]),
        "open, find a document's rows": lambda: DataSet(folder).rows_of([document]),
    }
    calls = {name: lambda call=call: time_both(call) for name, call in in_python.items()}
    trace = ("trace", folder, "--no-text")
    sizes = ("--batch-size", _BATCH_SIZE, "--world-size", _RANKS)
    step = f"trace --step of {_RANKS} x {_BATCH_SIZE:,} rows"
    commands = {
        "trace --row": ("--row", row),
        "trace --document": ("--document", document),
        step: ("--step", 1, *sizes),
    }
    for name, flags in commands.items():
        calls[name] = lambda flags=flags: _time_command(*trace, *flags)
    for name, times in take_turns(calls, rounds).items():
        processor, seconds = (sorted(each)[rounds // 2] for each in zip(*times, strict=True))
        yield name, f"{processor:.2f}", f"{seconds:.2f}"
    peak = measure("corpusmill", *trace, *commands[step]).peak_mib
    yield f"{step}: MiB", f"{peak:,.0f}"


def _time_command(*arguments: object) -> tuple[float, float]:
    run = measure("corpusmill", *arguments, watch=False)
    return run.processor_seconds, run.seconds


def main() -> None:
    """Measure with and without random documents, and print tables."""
    parser = make_parser(__doc__, folder=FOLDER, rounds=3)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--shards", type=int, default=400)
    parser.add_argument("--random", action="store_true", help="every second row has two documents")
    parser.add_argument("--keep", action="store_true", help="keep the data set")
    arguments = parser.parse_args()
    name = f"traced-{arguments.rows}{'-random' if arguments.random else ''}"
    folder = arguments.folder.resolve() / name
    size = (arguments.rows, arguments.shards)
    manifest = make_data_set(folder, *size, has_random=arguments.random)
    kept = sum(path.stat().st_size for path in (folder / "v1" / "provenance").iterdir())
    rows = manifest.splits["train"].rows
    title = f"{rows:,} rows, {kept:,} bytes of provenance"
    headings = ("", "processor seconds", "seconds")
    print_table(headings, list_cells(folder, arguments.rounds), title)
    if not arguments.keep:
        remove(folder)


if __name__ == "__main__":
    main()
