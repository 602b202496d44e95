"""Files to documents: each format of a corpus beside a bare loop of the same library, on one core.

    python -m benchmarks.kernels.corpus_formats [--bytes 100000000] [--rounds 5]
        [--folder benchmark-data]

The synthetic corpus is written a document a record, with a number and an address beside its text.
The bare loop opens the file, has the library give each record's text, and counts them: it neither
checks texts nor finds their sentences. A number is megabytes of text a second of processor time;
the two are run in turn, and the median of each and of their ratios is shown.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.synthetic.corpus import write_corpus
from corpusmill.corpus.input_formats import read_corpus
from corpusmill.corpus.options import DocumentOptions

_AVRO_SCHEMA = {
    "type": "record",
    "name": "document",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "text", "type": ["null", "string"]},
        {"name": "url", "type": "string"},
    ],
}


class Format(NamedTuple):
    """A way of keeping a corpus.

    Attributes:
        name: of the row, and of the file.
        write: puts records (id, text, url) into a file.
        count: the bare loop: the number of texts.
    """

    name: str
    write: Callable[[pa.Table, Path], None]
    count: Callable[[Path], int]


def _write_parquet(codec: str) -> Callable[[pa.Table, Path], None]:
    return lambda table, path: pq.write_table(table, path, compression=codec)


def _count_parquet(path: Path) -> int:
    batches = pq.ParquetFile(path).iter_batches(columns=["text"], use_threads=False)
    return sum(len(batch.column(0)) for batch in batches)


def _write_stream(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)  # as `save_to_disk` of datasets


def _count_stream(path: Path) -> int:
    with path.open("rb") as stream:
        return sum(len(batch.column("text")) for batch in pa.ipc.open_stream(stream))


def _write_feather(table: pa.Table, path: Path) -> None:
    pyarrow.feather.write_feather(table, path)  # in its default codec, lz4


def _count_feather(path: Path) -> int:
    # Columns that are not asked for would be decompressed too.
    options = pa.ipc.IpcReadOptions(included_fields=[1], use_threads=False)
    with path.open("rb") as stream, pa.ipc.open_file(stream, options=options) as file:
        return sum(len(file.get_batch(at).column(0)) for at in range(file.num_record_batches))


def _write_avro(codec: str) -> Callable[[pa.Table, Path], None]:
    def write(table: pa.Table, path: Path) -> None:
        with path.open("wb") as stream:
            fastavro.writer(stream, _AVRO_SCHEMA, table.to_pylist(), codec)

    return write


def _count_avro(path: Path) -> int:
    with path.open("rb") as stream:
        records: Iterator[Any] = fastavro.reader(stream)
        return sum(1 for record in records if record["text"])


FORMATS: tuple[Format, ...] = (
    Format("snappy.parquet", _write_parquet("snappy"), _count_parquet),
    Format("zstd.parquet", _write_parquet("zstd"), _count_parquet),
    Format("stream.arrow", _write_stream, _count_stream),
    Format("lz4.feather", _write_feather, _count_feather),
    Format("null.avro", _write_avro("null"), _count_avro),
    Format("deflate.avro", _write_avro("deflate"), _count_avro),
)


def make_records(text: Path) -> pa.Table:
    """The documents of a text file as records of id, text and url."""
    texts = []
    with text.open("rb") as stream:
        for batch in read_corpus(stream, text.name, 0, 0, None, DocumentOptions()):
            texts += ["\n".join(of) for of in batch.documents.column("sentences").to_pylist()]
    urls = [f"https://example.org/{number}" for number in range(len(texts))]
    return pa.table({"id": range(len(texts)), "text": texts, "url": urls})


def count_documents(path: Path) -> int:
    """The documents that the reader of the file's format gives."""
    with path.open("rb") as stream:
        batches = read_corpus(stream, path.name, 0, 0, None, DocumentOptions())
        return sum(batch.documents.num_rows for batch in batches)


def _time(count: Callable[[Path], int], path: Path, expected: int) -> float:
    """Seconds of processor time."""
    began = time.process_time()
    found = count(path)
    assert found == expected, f"{path}: {found} texts, not {expected}"
    return time.process_time() - began


def compare(of: Format, path: Path, records: int, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of the bare loop and of the reader, round by round, after one that does not count."""
    pairs = [
        (_time(of.count, path, records), _time(count_documents, path, records))
        for _ in range(rounds + 1)
    ]
    bare, ours = zip(*pairs[1:], strict=True)
    return list(bare), list(ours)


def measure(formats: Sequence[Format], folder: Path, num_bytes: int, rounds: int) -> Table:
    """The table of all formats; files that exist are used as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / f"corpus-{num_bytes}.txt"
    if not text.exists():
        write_corpus(text, num_bytes)
    records = make_records(text)
    megabytes = sum(len(of.encode()) for of in records.column("text").to_pylist()) / 1e6
    table = Table("", "file, MB", "bare loop, MB/s", "reader, MB/s", "reader of bare loop")
    for of in formats:
        path = folder / f"corpus-{num_bytes}-{of.name}"
        if not path.exists():
            of.write(records, path)
        bare, ours = compare(of, path, len(records), rounds)
        share = median(a / b for a, b in zip(bare, ours, strict=True))
        speeds = [f"{megabytes / median(seconds):,.0f}" for seconds in (bare, ours)]
        table.add_row(of.name, f"{path.stat().st_size / 1e6:,.1f}", *speeds, f"{share:.0%}")
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("benchmark-data"))
    parser.add_argument("--bytes", type=int, default=100_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    table = measure(FORMATS, arguments.folder, arguments.bytes, arguments.rounds)
    Console().print(table)


if __name__ == "__main__":
    main()
