"""Sources that are read each in its own way become one data set."""

import csv
import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import corpusmill
from corpusmill.dataset.shards import read_shard
from corpusmill.location import locate
from corpusmill.provenance.search import search_documents
from corpusmill.verification.check_data_set import verify
from tests.tools.data_files import manifest_of
from tests.tools.jobs import build_again, digests, last_wins, run_here
from tests.tools.knobs import knobs
from tests.tools.origins import check_provenance, list_documents

# Each shard holds the examples of its part of the corpus in their order, whatever else is built.
ORDERED = ("--order", "corpus", "--mode", "stream", "--max-seq-length", "32", "--num-shards", "4")
MANY_WORKERS = ("--workers", "3", "--min-bytes-per-worker", "0", "--range-bytes", "999")
OWN = {
    "books": ["document_rule=blank-lines"],
    "forum": ["sentence_rule=line"],
    "web": ["text_field=body", "keep_fields=url"],
    "wiki": ["keep_fields=date,url"],
}
FILES = {"books": "books", "forum": "forum.csv", "web": "web", "wiki": "wiki.parquet"}


def write_texts(folder: Path, texts: list[str]) -> None:
    """Write a quarter of some texts in each of four formats."""
    quarter = len(texts) // 4
    parts = {
        name: texts[begin * quarter : (begin + 1) * quarter] for begin, name in enumerate(FILES)
    }
    for name in ("books", "web"):
        (folder / name).mkdir(parents=True)
    (folder / "books" / "a.txt").write_text("\n\n".join(parts["books"]) + "\n")
    records = [{"body": text, "url": f"web-{n}"} for n, text in enumerate(parts["web"])]
    lines = [f"{json.dumps(record)}\n".encode() for record in records]
    half = len(lines) // 2
    (folder / "web" / "a.jsonl.gz").write_bytes(gzip.compress(b"".join(lines[:half]), mtime=0))
    packed = pa.compress(b"".join(lines[half:]), codec="zstd", asbytes=True)
    (folder / "web" / "b.jsonl.zst").write_bytes(packed)
    with (folder / "forum.csv").open("w", newline="") as file:
        posts = (text.replace(" . ", " .\n") for text in parts["forum"])
        csv.writer(file).writerows([["id", "text"], *enumerate(posts)])
    wiki = parts["wiki"]
    urls = [f"wiki-{number}" for number in range(len(wiki))]
    table = pa.table({"text": wiki, "url": urls, "date": ["2024"] * len(wiki)})
    pq.write_table(table, folder / "wiki.parquet")


@pytest.fixture(scope="module")
def texts(sample: Path) -> list[str]:
    lines = [line.strip() for line in sample.read_text().splitlines()]
    return [line for line in lines if len(line) > 60][:120]


@pytest.fixture(scope="module")
def corpus(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 80 texts in four formats."""
    folder = tmp_path_factory.mktemp("corpus")
    write_texts(folder, texts[:80])
    return folder


def name_sources(corpus: Path, *names: str) -> list[str]:
    return [
        ";".join([f"{name}={corpus / FILES[name]}", *OWN[name]]) for name in names or tuple(FILES)
    ]


def build(tokenizer: Path, output: Path, *flags: Any, refused: Any = ()) -> Any:
    placed = ("--tokenizer", tokenizer, "--output", output)
    return run_here("gpt", *last_wins(*placed, *ORDERED, *flags), refused=refused)


@pytest.fixture(scope="module")
def data_set(corpus: Path, gpt_tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("data") / "out"
    build(gpt_tokenizer, output, "--source", *name_sources(corpus))
    return output


def rows_of(folder: Path, source: str | None = None) -> list[Any]:
    place, manifest = locate(str(folder)), manifest_of(folder)
    shards = [each.file for each in manifest.splits["train"].shards if each.source == source]
    return [
        row
        for shard in shards
        for batch in read_shard(place, manifest, shard)
        for row in batch.column("input_ids").to_pylist()
    ]


def test_each_source_gives_the_rows_that_it_gives_alone(
    corpus: Path, data_set: Path, gpt_tokenizer: Path, tmp_path: Path
) -> None:
    assert verify(data_set) == []
    # Every row is compared with the text of its documents, read again in the way of each source.
    check_provenance(data_set, corpus)
    assert [source.name for source in manifest_of(data_set).corpus.sources] == [*FILES]
    for name, path in FILES.items():
        options = [f"--{word.replace('_', '-')}" for word in OWN[name]]
        alone = ("--input", corpus / path, *options, "--num-shards", "1")
        build(gpt_tokenizer, tmp_path / name, *alone)
        assert rows_of(data_set, name) == rows_of(tmp_path / name)


def test_the_bytes_are_the_same_for_three_workers_that_read_little_and_built_again(
    corpus: Path, data_set: Path, gpt_tokenizer: Path, tmp_path: Path
) -> None:
    with knobs(small=True):
        build(gpt_tokenizer, tmp_path / "many", "--source", *name_sources(corpus), *MANY_WORKERS)
    assert digests(tmp_path / "many") == digests(data_set)
    paths = {f"={name.upper()}@": f"={corpus / path}@" for name, path in FILES.items()}
    build_again(data_set, gpt_tokenizer, tmp_path / "again", paths=paths, objective="gpt")
    assert digests(tmp_path / "again") == digests(data_set)


def test_reports_say_how_each_source_was_read(data_set: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    output = run_here("inspect", data_set, "--html", page).output
    assert "input-format=json-lines, text-field=body, keep-fields=url" in output
    for text in (page.read_text(), (data_set / "README.md").read_text()):
        assert "json-lines" in text
    written = yaml.safe_load(run_here("config", data_set).output)
    assert "web=WEB@1;input-format=json-lines;text-field=body;keep-fields=url" in written["source"]


def test_every_document_has_the_fields_of_all_sources(data_set: Path) -> None:
    fields = {(name, *fields) for name, fields in _list_fields(data_set)}
    assert ("books", None, None) in fields
    assert ("forum", None, None) in fields
    assert ("web", "web-3", None) in fields
    assert ("wiki", "wiki-3", "2024") in fields
    manifest = manifest_of(data_set)
    # A row of a table is one record, whose place is not a byte as in the other sources.
    found = search_documents(locate(str(data_set)), manifest, "source = 'wiki' AND place = 3")
    assert [record.fields["url"] for record in found] == ["wiki-3"]


def _list_fields(folder: Path) -> list[tuple[str | None, tuple[Any, ...]]]:
    corpus = manifest_of(folder).corpus
    return [
        (corpus.source_of(each.file_number), (each.fields.get("url"), each.fields.get("date")))
        for each in list_documents(folder)
    ]


def test_documents_are_dropped_by_a_field_that_some_sources_keep(
    data_set: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    shutil.copytree(data_set, output)
    run_here("drop", output, "--where", "url = 'web-3' OR date IS NOT NULL AND url = 'wiki-0'")
    assert verify(output) == []
    assert len(list_documents(output)) == len(list_documents(data_set)) - 2


def test_text_is_added(
    data_set: Path, corpus: Path, texts: list[str], gpt_tokenizer: Path, tmp_path: Path
) -> None:
    grown, more = tmp_path / "grown", tmp_path / "more"
    write_texts(more, texts[80:])
    shutil.copytree(data_set, grown)
    new = f"aside={more / 'forum.csv'};document-rule=whole-file"
    added = ("--source", new, *name_sources(more, "web"), "--num-shards", "2")
    outcome = build(gpt_tokenizer, grown, *added, "--append")
    assert "input format of aside: csv" in outcome.output
    assert verify(grown) == []
    check_provenance(grown, corpus, more)


def test_what_is_added_is_read_as_before(data_set: Path, corpus: Path, gpt_tokenizer: Path) -> None:
    web = f"web={corpus / 'web'}"
    cases = [
        (f"{web};text-field=url;keep-fields=None", "web.text_field was body and is url"),
        (f"{web};text-field=body;keep-fields=url;max-line-bytes=9999", "web.max_line_bytes was"),
        (
            f"new={corpus / 'forum.csv'};keep-fields=id",
            "the data set does not keep this field of any source; it keeps url, date",
        ),
    ]
    for source, cause in cases:
        build(gpt_tokenizer, data_set, "--append", "--source", source, refused=[cause])


def test_a_file_and_a_program_have_a_table_for_each_source(
    corpus: Path, data_set: Path, gpt_tokenizer: Path, tmp_path: Path
) -> None:
    tables: dict[str, Any] = {
        "books": {"path": [str(corpus / "books")], "document_rule": "blank-lines"},
        "forum": {"path": str(corpus / "forum.csv"), "sentence_rule": "line"},
        "web": {"path": str(corpus / "web"), "text_field": "body", "keep-fields": ["url"]},
        "wiki": {"path": f"{corpus / 'wiki.parquet'}", "repeat": 1, "keep_fields": ["date", "url"]},
    }
    file = tmp_path / "build.yaml"
    file.write_text(yaml.safe_dump({"source": tables}))
    build(gpt_tokenizer, tmp_path / "file", "--config", file)
    assert digests(tmp_path / "file") == digests(data_set)
    corpusmill.build(
        "gpt", input=None,
        source={**tables, "books": f"{corpus / 'books'};document-rule=blank-lines"},
        tokenizer=str(gpt_tokenizer), output=str(tmp_path / "program"), order="corpus",
        mode="stream", max_seq_length=32, num_shards=4,
    )  # fmt: skip
    assert digests(tmp_path / "program") == digests(data_set)
    tables["web"] |= {"text_feild": "body"}
    file.write_text(yaml.safe_dump({"source": tables}))
    parts = [f"{file}: source: web: text-feild", "there is no such option", "Did you mean text-f"]
    build(gpt_tokenizer, tmp_path / "no", "--config", file, refused=parts)


def test_mistakes(corpus: Path, gpt_tokenizer: Path, tmp_path: Path) -> None:
    (corpus / "a;b.txt").write_text("One text .\n")
    web, forum, books = (f"{name}={corpus / FILES[name]}" for name in ("web", "forum", "books"))
    cases: list[tuple[list[str], list[str]]] = [
        ([f"{web};text_feild=a"], ["--source web: text-feild", "Did you mean text-field?"]),
        ([f"{web};input-format=jsonl"], ["--source web: input-format=jsonl", "json-lines"]),
        ([f"{web};text-field="], ["--source web: text-field: its value is empty"]),
        ([f"{web};text-field=a;text-field=b"], ["web: text-field: the option is given twice"]),
        ([f"{web};max-line-bytes=many"], ["max-line-bytes=many", "not a whole number"]),
        ([f"{web};max-line-bytes=0"], ["--source web: max-line-bytes=0: the value is out of"]),
        ([f"{web};repeat=0"], ["cannot be taken 0 times"]),
        ([f"{web};language=en"], ["web: language=en", "Give sentence-rule=split"]),
        ([f"x={corpus}/a;b.txt"], ["'b.txt' after a ; is not an option", r"write \; for a ;"]),
        ([web], ["--source web: ", "text-field"]),
        ([f"{forum};text-field=none"], ["--source forum: ", "text-field=none"]),
        ([f"{books};keep-fields=url"], ["books: keep-fields=url", "text have no fields"]),
        ([f"{web};text-field=a", f"{web};text-field=b"], ["has another text-field elsewhere"]),
        ([f"all={corpus}"], ["--source all: input-format=auto", "source of its own"]),
    ]
    for sources, parts in cases:
        build(gpt_tokenizer, tmp_path / "out", "--source", *sources, refused=parts)
    parts = ["--input-format auto", "as a source of its own (--source NAME=PATH)"]
    build(gpt_tokenizer, tmp_path / "out", "--input", corpus, refused=parts)
    # The rules of an objective hold for each source.
    parts = ["--source web: sentence-rule", "bert makes its examples of sentences"]
    placed = ("--tokenizer", gpt_tokenizer, "--output", tmp_path / "out")
    words = ("--source", f"{web};text-field=body;sentence-rule=document")
    run_here("bert", *words, *placed, refused=parts)
    build(gpt_tokenizer, tmp_path / "out", "--source", rf"x={corpus}/a\;b.txt")
