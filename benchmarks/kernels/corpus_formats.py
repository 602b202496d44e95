"""Table files to documents: each format beside a bare loop of the same library, on one core.

    python -m benchmarks.kernels.corpus_formats [--bytes 100000000] [--rounds 5]

Each document of the synthetic corpus becomes a record with a number, a text and an address. The
bare loop opens the file, lets the library decode each text, and counts them: it neither checks
texts nor finds their sentences. Rates are megabytes of text per second of processor time; the two
ways take turns, and the table shows the medians of the rates and of their ratios.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

from benchmarks.builds import FOLDER, MEGABYTE, make_corpus
from benchmarks.console import make_parser, print_table
from benchmarks.measure import median_ratio, take_turns, time_call
from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import read_corpus

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
    """A format of the corpus.

    Attributes:
        name: of the row, and the end of the file's name.
        write: writes records (id, text, url) into a file.
        count: the bare loop, which returns the number of texts.
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
        writer.write_table(table, max_chunksize=1000)  # like `save_to_disk` of datasets


def _count_stream(path: Path) -> int:
    with path.open("rb") as stream:
        return sum(len(batch.column("text")) for batch in pa.ipc.open_stream(stream))


def _write_feather(table: pa.Table, path: Path) -> None:
    pyarrow.feather.write_feather(table, path)  # compressed with lz4, the default


def _count_feather(path: Path) -> int:
    # By default the other columns would be decompressed, too.
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


FORMATS = (
    Format("snappy.parquet", _write_parquet("snappy"), _count_parquet),
    Format("zstd.parquet", _write_parquet("zstd"), _count_parquet),
    Format("stream.arrow", _write_stream, _count_stream),
    Format("lz4.feather", _write_feather, _count_feather),
    Format("null.avro", _write_avro("null"), _count_avro),
    Format("deflate.avro", _write_avro("deflate"), _count_avro),
)


def make_records(text: Path) -> pa.Table:
    """Return the documents of a text file as records (id, text, url)."""
    texts = []
    with text.open("rb") as stream:
        for batch in read_corpus(stream, FileRange(text.name, 0, DocumentOptions())):
            sentences = batch.documents.column("sentences").to_pylist()
            texts += ["\n".join(document) for document in sentences]
    urls = [f"https://example.org/{number}" for number in range(len(texts))]
    return pa.table({"id": range(len(texts)), "text": texts, "url": urls})


def count_documents(path: Path) -> int:
    """Return the number of documents that the reader of the file's format yields."""
    with path.open("rb") as stream:
        batches = read_corpus(stream, FileRange(path.name, 0, DocumentOptions()))
        return sum(batch.documents.num_rows for batch in batches)


def _time(count: Callable[[Path], int], path: Path, expected: int) -> float:
    number, seconds = time_call(lambda: count(path))
    assert number == expected, f"{path} has {number} texts, not {expected}"
    return seconds


def measure(
    formats: Sequence[Format], folder: Path, num_bytes: int, rounds: int
) -> Iterator[list[str]]:
    """Yield a row of the table for each format; files that exist are used again."""
    text = make_corpus(folder, num_bytes)
    records = make_records(text)
    megabytes = sum(len(text.encode()) for text in records.column("text").to_pylist()) / MEGABYTE
    for format_ in formats:
        path = folder / f"{text.stem}-{format_.name}"
        if not path.exists():
            format_.write(records, path)
        calls = {
            "bare": partial(_time, format_.count, path, len(records)),
            "reader": partial(_time, count_documents, path, len(records)),
        }
        take_turns(calls, 1)  # compiles
        seconds = take_turns(calls, rounds)
        rates = [f"{megabytes / median(seconds[way]):,.0f}" for way in ("bare", "reader")]
        share = median_ratio(seconds["bare"], seconds["reader"])
        yield [format_.name, f"{path.stat().st_size / MEGABYTE:,.1f}", *rates, f"{share:.2f}"]


def main() -> None:
    """Measure and print the table."""
    parser = make_parser(__doc__, folder=FOLDER, bytes=100 * MEGABYTE, rounds=5)
    arguments = parser.parse_args()
    headings = ("MB/s", "MB of the file", "bare loop", "corpusmill", "times bare loop")
    rows = measure(FORMATS, arguments.folder, arguments.bytes, arguments.rounds)
    print_table(headings, rows)


if __name__ == "__main__":
    main()
