"""What it takes to add text to a data set of 30 million documents beside the new text itself.

    python -m benchmarks.scale.known_documents [--documents 30000000] [--new 300000] [--shards 40]
        [--rounds 3]

Two small data sets of BERT are built, and the tables of documents of one are replaced by ones that
claim all these documents, with digests at random. The same new lines are added to copies of both;
that takes longer where the digests of all documents are compared. The new lines have three words,
so that they take little time themselves.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from msgspec.structs import replace as replace_struct

from benchmarks.builds import FOLDER, SAMPLE, build, make_tokenizer, remove
from benchmarks.console import make_parser, print_table, report
from benchmarks.measure import Measurement, measure, take_turns
from corpusmill.dataset.manifest import MANIFEST
from corpusmill.dataset.manifest_entries import provenance_name
from corpusmill.dataset.manifest_json import encode
from corpusmill.dataset.shards import read_manifest
from corpusmill.location import locate
from corpusmill.provenance.documents_table import GROUP_DOCUMENTS, DocumentsWriter, documents_schema

_SMALL, _LARGE = "few documents", "all documents"
_DRIVER_MIB, _SECONDS_A_MILLION = 512, 0.22
_DOCUMENT_BYTES, _DOCUMENT_TOKENS = 275, 60
# Small inputs would be built in the driver itself.
_WORKERS = ("--workers", 2, "--min-bytes-per-worker", 0)
_FLAGS = ("--document-rule", "blank-lines", "--max-seq-length", 64)

Runs = Mapping[str, Sequence[Measurement]]


def claim(folder: Path, documents: int) -> None:
    """Replace a data set's tables of documents by tables with a given number of documents."""
    manifest = read_manifest(locate(str(folder)))
    shards = len(manifest.splits["train"].shards)
    ids = np.arange(documents, dtype=np.uint64) * np.uint64(_DOCUMENT_BYTES)
    claimed = {}
    for shard, own in enumerate(np.array_split(ids, shards)):
        name = manifest.path_of(provenance_name("documents", "train", shard, shards))
        _write_table(folder / name, own, shard)
        content = (folder / name).read_bytes()
        digest = sha256(content).hexdigest()
        claimed[name] = replace_struct(manifest.entries[name], bytes=len(content), sha256=digest)
    files = tuple(claimed.get(entry.file, entry) for entry in manifest.files)
    content = encode(replace(manifest, files=files))
    (folder / MANIFEST).write_bytes(content)


def _write_table(path: Path, ids: np.ndarray, seed: int) -> None:
    draws, schema = np.random.default_rng(seed), documents_schema()
    with path.open("wb") as sink:
        writer = DocumentsWriter(sink)
        for begin in range(0, len(ids), GROUP_DOCUMENTS):
            own = ids[begin : begin + GROUP_DOCUMENTS]
            facts = [
                np.full(len(own), number, field.type.to_pandas_dtype())
                for number, field in zip(
                    (_DOCUMENT_BYTES, _DOCUMENT_TOKENS), [*schema][1:3], strict=True
                )
            ]
            digests = draws.integers(0, 2**64, len(own), np.uint64)
            writer.add_rows(pa.table([own, *facts, digests], schema=schema))
        writer.close()


def write_lines(path: Path, documents: int) -> None:
    """Write documents of one line each."""
    words = np.array(sorted(set(SAMPLE.read_text().split())))
    drawn = words[np.random.default_rng(1).integers(0, len(words), (documents, 3))].tolist()
    lines = (f"{' '.join(own)} {number}\n\n" for number, own in enumerate(drawn))
    path.write_text("".join(lines))


def list_calls(
    folder: Path, documents: int, new: int, shards: int
) -> Mapping[str, Callable[[], Measurement]]:
    """List what is measured, by name."""
    lines, command = folder / "new.txt", ("pipeline", "bert")
    tokenizer = make_tokenizer(folder, SAMPLE, "bert")
    write_lines(lines, new)

    def append(output: Path) -> Measurement:
        copy = folder / "copy"
        remove(copy)
        # No file of a data set is written in place.
        shutil.copytree(output, copy, copy_function=os.link)
        files = ("--input", lines, "--tokenizer", tokenizer, "--output", copy)
        return measure(*command, *files, *_FLAGS, *_WORKERS, "--append")

    outputs = {_SMALL: folder / "small", _LARGE: folder / "large"}
    for name, output in outputs.items():
        if not (output / MANIFEST).exists():
            report(f"writing {output}")
            flags = ("--num-shards", shards, "--validation-share", 0)
            build(command, SAMPLE, tokenizer, output, *_FLAGS, *flags)
            if name == _LARGE:
                claim(output, documents)
    append(outputs[_SMALL])  # compiles kernels
    return {name: partial(append, output) for name, output in outputs.items()}


def list_cells(runs: Runs) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each command."""
    for name, own in runs.items():
        values = ("processor_seconds", "seconds", "first_mib", "peak_mib")
        yield (name, *(f"{_median(own, value):,.1f}" for value in values))


def _median(runs: Sequence[Measurement], value: str) -> float:
    return float(median(getattr(run, value) for run in runs))


def main() -> None:
    """Measure, and print a table."""
    parser = make_parser(__doc__, folder=FOLDER, rounds=3)
    parser.add_argument("--documents", type=int, default=30_000_000)
    parser.add_argument("--new", type=int, default=300_000, help="documents that are added")
    parser.add_argument("--shards", type=int, default=40)
    parser.add_argument("--keep", action="store_true", help="keep the data sets")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve() / f"known-{arguments.documents}"
    folder.mkdir(parents=True, exist_ok=True)
    calls = list_calls(folder, arguments.documents, arguments.new, arguments.shards)
    runs = take_turns(calls, arguments.rounds)
    headings = ("add to", "processor seconds", "seconds", "MiB of the driver", "MiB of all")
    title = f"{arguments.documents:,} documents, {arguments.new:,} new ones"
    print_table(headings, list_cells(runs), title)
    if not arguments.keep:
        remove(folder)


if __name__ == "__main__":
    main()
