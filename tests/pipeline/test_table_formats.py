"""Whole jobs on tables: the same records as JSON lines give the same data set."""

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from corpusmill.verification.check_data_set import verify
from tests.tools import jobs
from tests.tools.corpus_files import split_documents
from tests.tools.data_files import find_file
from tests.tools.jobs import SMALL_RANGES, build, train
from tests.tools.lazily import LazyModule

datasets = LazyModule("datasets")

FIELD = ("--text-field", "body")
Records = list[dict[str, Any]]


def write_parquet(records: Records, path: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(records), path / "corpus.parquet", row_group_size=3)
    return path / "corpus.parquet"


def write_feather(records: Records, path: Path) -> Path:
    table = pa.Table.from_pylist(records)
    pyarrow.feather.write_feather(table, path / "corpus.feather", "zstd", chunksize=3)
    return path / "corpus.feather"


def write_saved(records: Records, path: Path) -> Path:
    """As users of Hugging Face's datasets do, with a cache that holds the text once more."""
    dataset = datasets.Dataset.from_list(records)
    datasets.DatasetDict({"train": dataset}).save_to_disk(path / "saved", num_shards={"train": 2})
    (path / "saved/train/cache-1.arrow").write_bytes(
        (path / "saved/train/data-00000-of-00002.arrow").read_bytes()
    )
    return path / "saved"


def write_avro(records: Records, path: Path) -> Path:
    fields = [{"name": "id", "type": "long"}, {"name": "body", "type": ["null", "string"]}]
    schema = {"type": "record", "name": "row", "fields": fields}
    with (path / "corpus.avro").open("wb") as stream:
        fastavro.writer(stream, schema, records, codec="deflate", sync_interval=1000,
                        sync_marker=bytes(range(16)))  # fmt: skip
    return path / "corpus.avro"


def write_csv(records: Records, path: Path) -> Path:
    with (path / "corpus.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, ["id", "body"])
        writer.writeheader()
        writer.writerows(records)
    return path / "corpus.csv"


def write_json_lines(records: Records, path: Path) -> Path:
    lines = [json.dumps(record) for record in records]
    (path / "corpus.jsonl").write_text("\n".join(["{", *lines]) + "\n")
    return path / "corpus.jsonl"


WRITERS = [write_parquet, write_feather, write_saved, write_avro]
Write = Callable[[Records, Path], Path]
formats = pytest.mark.parametrize("write", WRITERS, ids=lambda value: value.__name__)


@pytest.fixture
def records(sample: Path) -> Records:
    """The sample a record a document, with two that hold no text."""
    texts: list[str | None] = ["\n".join(sentences) for sentences in split_documents(sample)]
    texts[5:5] = [None, "  \n"]
    return [{"id": number, "body": text} for number, text in enumerate(texts)]


def counts_of(folder: Path) -> dict[str, int]:
    counts: dict[str, int] = jobs.read_manifest_json(folder)["counts"]
    return counts


@formats
def test_a_table_holds_what_the_same_json_lines_hold_however_it_is_read(
    write: Write, records: Records, tokenizer_path: Path, tmp_path: Path
) -> None:
    table, flags = write(records, tmp_path), (*FIELD, "--validation-share", "0.2")
    outcome = build([table], tokenizer_path, tmp_path / "out", *flags)
    assert "input format: " in outcome.output
    assert not verify(tmp_path / "out")
    lines = tmp_path / "corpus.jsonl"
    lines.write_text("".join(json.dumps(record) + "\n" for record in records))
    build([lines], tokenizer_path, tmp_path / "lines", *FIELD)
    counts, of_lines = counts_of(tmp_path / "out"), counts_of(tmp_path / "lines")
    for name in ("documents", "sentences", "records", "empty_records", "rejects"):
        assert counts[f"read.{name}"] == of_lines[f"read.{name}"]
    assert counts["tokenize.tokens"] == of_lines["tokenize.tokens"]
    assert counts["read.rows"] == len(records)
    assert counts["read.rejected_rows"] == 1
    [reject] = [
        json.loads(line) for line in find_file(tmp_path / "out", "rejects/rejects.jsonl").open()
    ]
    assert (reject["reason"], reject["detail"]) == ("not-text", "row 5: body holds null")
    assert len(jobs.digests(tmp_path / "out")) > 5
    # Workers read all formats by the same table; one shows that they reach it.
    way = jobs.TWO_WORKERS if write is write_parquet else SMALL_RANGES
    jobs.assert_same_bytes(tmp_path / "out", [table], tokenizer_path, *flags, *way)


def test_a_tokenizer_is_trained_on_records_as_on_their_text(
    records: Records, sample: Path, tmp_path: Path
) -> None:
    expected = train(sample, tmp_path / "text.json")
    files = [write(records, tmp_path) for write in (*WRITERS, write_csv, write_json_lines)]
    trained = {path.name: train(path, tmp_path / f"{path.name}.json", *FIELD) for path in files}
    assert [name for name, tokenizer in trained.items() if tokenizer != expected] == []


def test_what_cannot_be_read_is_refused_before_any_work(
    records: Records, tokenizer_path: Path, tmp_path: Path
) -> None:
    parquet = write_parquet(records, tmp_path)
    packed = tmp_path / "corpus.parquet.gz"
    packed.write_bytes(gzip.compress(parquet.read_bytes()))
    text = tmp_path / "text.parquet"
    text.write_text("words\n")
    feather_1 = tmp_path / "old.feather"
    feather_1.write_bytes(b"FEA1" + bytes(99) + b"FEA1")
    for inputs, parts in (
        *(
            ((write(records, tmp_path),), ("--text-field text", "its fields are id, body"))
            for write in (write_parquet, write_csv, write_json_lines)
        ),
        ((parquet, "--text-field", "id"), ("--text-field id", "int64", "holds text: body")),
        ((parquet, packed), (f"--input {packed}", "Decompress it")),
        ((text,), (f"--input {text}", "it is text, not parquet")),
        ((feather_1,), (f"--input {feather_1}", "Feather version 1")),
    ):
        build(map(str, inputs), tokenizer_path, tmp_path / "out", refused=parts)
        assert not (tmp_path / "out").exists()


def test_a_file_damaged_on_the_way_costs_only_what_it_held(
    records: Records, tokenizer_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    whole = write_parquet(records, tmp_path / "in")
    (tmp_path / "in/second.parquet").write_bytes(whole.read_bytes()[:-100])
    build([tmp_path / "in"], tokenizer_path, tmp_path / "out", *FIELD)
    assert not verify(tmp_path / "out")
    rejects = [
        json.loads(line) for line in find_file(tmp_path / "out", "rejects/rejects.jsonl").open()
    ]
    assert [reject["reason"] for reject in rejects] == ["not-text", "damaged-file"]
    assert rejects[1]["file"] == "second.parquet"
    assert counts_of(tmp_path / "out")["read.rows"] == len(records)
