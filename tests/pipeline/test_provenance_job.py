"""Provenance as builds write it: every row is made of the text that it is traced to."""

import gzip
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.shards import read_manifest
from corpusmill.location import Location, locate
from corpusmill.objectives.examples.fill_in_the_middle import FIM_TOKENS
from corpusmill.provenance.search import search_documents
from corpusmill.verification.check_data_set import verify
from tests.tools import jobs
from tests.tools.corpus_files import as_json_lines, split_documents
from tests.tools.data_files import damage_file, find_file
from tests.tools.knobs import knobs
from tests.tools.origins import check_provenance, list_documents, open_store
from tests.tools.table_rows import for_rows
from tests.tools.tokenizer_samples import byte_level

SHARE = ("--validation-share", "0.2")
LINES = ("--document-rule", "wikitext", "--sentence-rule", "line")
BERT, PACKED = jobs.PAIRS, ("--segments", "packed", "--max-seq-length", "128", "--duplicates", "1")
FIM = ("--fim-rate", "0.7", "--document-rule", "wikitext")
WINDOWS = ("--mode", "windows", "--max-seq-length", "40", "--overlap", "10")
PACK = ("--mode", "pack", "--max-seq-length", "64")

# `test_built_again` has rows of the others, `test_spans_of_rows` all options of all objectives.
WAYS: list[tuple[str, str, Sequence[str]]] = [
    ("gpt", "text", LINES),
    ("gpt", "text", (*WINDOWS, "--output-format", "mds")),
    ("gpt", "text", (*PACK, *LINES, "--max-document-bytes", "300")),
    ("gpt", "records", PACK),
    ("gpt", "text", FIM),
    ("gpt", "records", FIM[:2]),
    ("gpt", "text", (*FIM, "--fim-cut", "tokens")),
    ("gpt", "text", (*FIM, *PACK)),
    ("gpt", "text", ("--output-format", "megatron", "--order", "corpus")),
    ("gpt", "text", ("--output-format", "nanogpt", "--max-document-bytes", "1000")),
    ("bert", "text", (*PACKED, "--max-predictions-per-seq", "128", "--order", "corpus")),
    ("bert", "records", (*BERT, "--drop-duplicates")),
]


@pytest.fixture(scope="module")
def tokenizers(wordpiece: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One of words for all objectives but gpt, whose characters may be cut into several tokens."""
    path = tmp_path_factory.mktemp("gpt") / "tokenizer.json"
    spelling = Tokenizer.from_str(byte_level())
    spelling.add_special_tokens(sorted({names[0] for names in FIM_TOKENS.values()}))
    spelling.save(str(path))
    return {**dict.fromkeys(("bert", "electra", "ernie", "t5"), wordpiece), "gpt": path}


@pytest.fixture(scope="module")
def corpora(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two files of text in WikiText's layout, and the same as JSON lines."""
    folder = tmp_path_factory.mktemp("corpora")
    lines = sample.read_text().splitlines(keepends=True)
    documents = list(split_documents(sample))
    for name in ("text", "records"):
        (folder / name / "more").mkdir(parents=True)
    (folder / "text" / "a.txt").write_text("".join(lines[:100]))
    (folder / "text" / "more" / "b.txt").write_text("".join(lines[100:170]))
    (folder / "records" / "a.jsonl").write_bytes(as_json_lines(documents[:25]))
    (folder / "records" / "more" / "b.jsonl").write_bytes(as_json_lines(documents[25:40]))
    return {name: folder / name for name in ("text", "records")}


@pytest.mark.parametrize(("objective", "corpus", "flags"), WAYS)
def test_every_row_is_made_of_what_it_is_traced_to(
    objective: str, corpus: str, flags: Sequence[str], corpora: dict[str, Path],
    tokenizers: dict[str, Path], output: Path,
) -> None:  # fmt: skip
    spread = ("--input", corpora[corpus], "--output", output, *SHARE, *jobs.SPREAD)
    jobs.run_here(objective, *spread, "--tokenizer", tokenizers[objective], *flags)
    assert len(check_provenance(output, corpora[corpus])) > 10
    assert verify(output) == []


# All that decides a file's bytes happens many times in a shard of a few kilobytes.
SMALL = {
    "group_rows": 7, "group_tokens": 300, "page_values": 20, "group_lines": 5, "group_documents": 3,
    "group_field_bytes": 10, "built_documents": 3, "built_tokens": 100, "merged_piece_tokens": 50,
    "joined_pieces": 3, "shuffled_tokens": 200, "packed_tokens": 128, "most_packed_tokens": 128,
    "most_stocked_tokens": 128,
}  # fmt: skip


@knobs(small=True, **SMALL)
@pytest.mark.parametrize(
    ("objective", "flags"),
    [
        ("bert", BERT), ("bert", (*PACKED, "--mask", "dynamic")), ("gpt", PACK), ("gpt", LINES),
        ("t5", BERT),
    ],
)  # fmt: skip
def test_many_groups_of_rows_depend_on_the_text_alone(
    objective: str, flags: Sequence[str], corpora: dict[str, Path],
    tokenizers: dict[str, Path], tmp_path: Path,
) -> None:  # fmt: skip
    tokenizer = ("--tokenizer", tokenizers[objective])
    given: Sequence[str | Path]
    given = ("--input", corpora["text"], *tokenizer, *SHARE, *flags)
    for size in ("1000", "100000"):
        spread = ("--num-shards", "1", "--range-bytes", size)
        jobs.run_here(objective, "--output", tmp_path / size, *given, *spread)
        check_provenance(tmp_path / size, corpora["text"])
        assert verify(tmp_path / size) == []
    assert jobs.digests(tmp_path / "1000") == jobs.digests(tmp_path / "100000")
    spans = find_file(tmp_path / "1000", "provenance/spans-train-00000-of-00001.parquet")
    assert pq.ParquetFile(spans).metadata.num_row_groups > 2
    jobs.run_here("drop", tmp_path / "1000", "--where", "document % 5 = 0")
    check_provenance(tmp_path / "1000", corpora["text"])
    assert verify(tmp_path / "1000") == []


def write_records(folder: Path, sample: Path, form: str) -> Path:
    """Write the documents of the sample with two fields, compressed or as Parquet."""
    folder.mkdir()
    rows = [
        {"text": "\n".join(lines), "url": f"https://{number % 3}.org/{number}",
         "score": number / 4 if number % 2 else None}
        for number, lines in enumerate(split_documents(sample))
    ]  # fmt: skip
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), folder / "a.parquet", row_group_size=20)
    else:
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
        name = f"a.jsonl{'.gz' if form == 'gz' else ''}"
        (folder / name).write_bytes(gzip.compress(content) if form == "gz" else content)
    return folder


@pytest.mark.parametrize("form", ["parquet", "gz", "plain"])
def test_fields_are_kept_and_do_not_change_rows(
    form: str, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    corpus = write_records(tmp_path / "corpus", sample, form)
    kept = tmp_path / "kept"
    jobs.build([corpus], tokenizer_path, kept, *SHARE, "--keep-fields", "url,score")
    check_provenance(kept, corpus)
    records = list_documents(kept)
    for number, record in enumerate(records):
        expected = {"url": f"https://{number % 3}.org/{number}"}
        if number % 2:
            expected["score"] = str(number / 4)
        assert record.fields == expected
    if form == "parquet":
        [third] = search_documents(*opened(kept), "place = 3")
        assert third == records[3]
        assert open_store(kept).documents_at("a.parquet", 3) == [third]
    chosen = search_documents(*opened(kept), "url LIKE 'https://1.%' AND CAST(score AS DOUBLE) > 3")
    assert [record.document for record in chosen] == [
        record.document for number, record in enumerate(records)
        if number % 3 == 1 and number % 2 and number / 4 > 3
    ]  # fmt: skip
    plain = tmp_path / "plain"
    jobs.build([corpus], tokenizer_path, plain, *SHARE)
    shards = [jobs.shards_of(jobs.digests(folder)) for folder in (kept, plain)]
    of_rows = [
        {name: own for name, own in each.items() if "documents-" not in name} for each in shards
    ]
    assert of_rows[0] == of_rows[1]


def opened(folder: Path) -> tuple[Location, Manifest]:
    files = locate(str(folder))
    return files, read_manifest(files)


def test_without_provenance_nothing_is_left_of_it(
    sample: Path, tokenizer_path: Path, built: Path, tmp_path: Path
) -> None:
    without = tmp_path / "without"
    jobs.build([sample], tokenizer_path, without, "--no-provenance")
    assert not list(without.rglob("provenance"))
    assert "provenance" not in jobs.read_manifest_json(without)
    assert verify(without) == []
    shards = [jobs.digests(folder) for folder in (built, without)]
    rows = [{name: own for name, own in each.items() if "/train-" in name} for each in shards]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 3
    jobs.run_here("trace", without, "--row", "0", refused=["it was built without provenance"])


@for_rows("kind", ["cut", "gone", "flipped"])
@for_rows("name", ["spans-train-00001-of-00003.parquet", "documents-train-00000-of-00003.parquet"])
def test_damaged_provenance_is_named(name: str, kind: str, built: Path, tmp_path: Path) -> None:
    output = shutil.copytree(built, tmp_path / f"{kind}-{name}")
    damage_file(find_file(output, f"provenance/{name}"), kind)
    [problem] = verify(output)
    assert f"provenance/{name}" in str(problem)
    if kind != "flipped":
        every = jobs.run_here("trace", output, "--where", "tokens > 0", refused=[name])
        assert "Traceback" not in every.errors
