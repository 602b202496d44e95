"""Whole jobs on documents as they stand, from every format of input."""

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import judge_name, look_at, read_file, resolve_format
from corpusmill.corpus.registry import FORMATS
from corpusmill.verification.check_data_set import verify
from tests.tools import jobs, table_files
from tests.tools.corpus_files import KINDS
from tests.tools.jobs import SMALL_RANGES, assert_same_bytes, build
from tests.tools.table_rows import for_rows

RULE = ("--sentence-rule", "document")
# Code, paragraphs, white space at both ends, line breaks of both systems.
TEXTS = [
    f"\n  def f{number}():\r\n\treturn 1\n\n\n# {'end ' * (number % 7)}\n\nSome  text ,\n here . \n"
    for number in range(60)
]


def in_lines(texts: list[str]) -> list[str]:
    return [text.replace("\r\n", " ").replace("\n", " ") for text in texts]


WRITERS: dict[str, Callable[[list[str]], bytes]] = {
    **{
        kind: lambda texts, write=write: write([[text] for text in texts])  # type: ignore[misc]
        for kind, write in KINDS.items()
    },
    "jsonl": lambda documents: "".join(
        json.dumps({"text": text}) + "\n" for text in documents
    ).encode(),
    "ndjson.xz": lambda documents: lzma.compress(WRITERS["jsonl"](documents)),
    "parquet": lambda documents: table_files.parquet(documents, 7),
    "arrow": lambda documents: table_files.arrow_file(documents, 7),
    "feather": lambda documents: table_files.arrow_file(documents, 60),
    "avro": lambda documents: table_files.avro(documents, 7, "deflate"),
}


def write_folder(kind: str, folder: Path) -> tuple[Path, list[str], tuple[str, ...]]:
    """The texts in files of a kind; what their documents are, and the options to read them."""
    folder.mkdir()
    if kind == "lines":
        (folder / "a.txt").write_text("\r\n".join(in_lines(TEXTS)) + "\n", newline="")
        return folder, in_lines(TEXTS), ("--input-format", "lines")
    if kind.startswith("txt"):
        for number, text in enumerate(TEXTS):
            content = text.encode()
            content = gzip.compress(content) if kind.endswith("gz") else content
            (folder / f"{number:04}.{kind}").write_bytes(content)
        return folder, TEXTS, ("--document-rule", "whole-file")
    if kind == "articles":
        texts = [f" = Title {number} = \n \n{text[1:]} \n" for number, text in enumerate(TEXTS)]
        (folder / "wiki.tokens").write_bytes("".join(texts).encode())
        return folder, texts, ("--document-rule", "wikitext-articles")
    for number in range(3):
        content = WRITERS[kind](TEXTS[20 * number : 20 * (number + 1)])
        (folder / f"part-{number}.{kind}").write_bytes(content)
    return folder, TEXTS, ()


EVERY_KIND = ["txt", "txt.gz", "articles", "lines", *WRITERS]


@for_rows("kind", EVERY_KIND)
def test_every_format_gives_its_texts_as_they_stand(kind: str, tmp_path: Path) -> None:
    folder, expected, flags = write_folder(kind, tmp_path / kind)
    names = [flag.removeprefix("--").replace("-", "_") for flag in flags[::2]]
    arguments = dict(zip(names, flags[1::2], strict=True))
    paths = sorted(folder.iterdir())
    options = resolve_format(
        DocumentOptions(sentence_rule="document", **arguments),  # type: ignore[arg-type]
        {path.name: look_at(path.open("rb"), path.name) for path in paths},
    )
    results = []
    for index, path in enumerate(paths):
        with path.open("rb") as raw:
            for batch in read_file(raw, FileRange(path.name, index, options)):
                results += batch.documents.column("sentences").to_pylist()
    assert results == [[text] for text in expected]


def test_every_format_is_tried() -> None:
    names = [f"a.{kind}" for kind in WRITERS]
    of_kinds = {
        resolve_format(DocumentOptions(), {name: judge_name(name)}).input_format for name in names
    }
    assert of_kinds | {"text", "lines", "json"} == set(FORMATS.names)


@pytest.fixture
def any_objective(monkeypatch: pytest.MonkeyPatch) -> None:
    """BERT as an objective that takes whole documents: each is a sentence of its examples."""
    monkeypatch.setattr(DocumentOptions, "require_sentences", lambda options, _: options)


@pytest.mark.usefixtures("any_objective")
@pytest.mark.parametrize(
    ("kind", "way"),
    [("articles", jobs.TWO_WORKERS), ("parquet", SMALL_RANGES), ("tgz", SMALL_RANGES)],
    ids=["articles", "parquet", "tgz"],
)
def test_a_job_tokenizes_documents_as_a_whole(
    kind: str, way: tuple[str, ...], tokenizer_path: Path, tmp_path: Path
) -> None:
    folder, expected, flags = write_folder(kind, tmp_path / "in")
    build([folder], tokenizer_path, tmp_path / "one", *RULE, *flags)
    assert not verify(tmp_path / "one")
    counts = jobs.read_manifest_json(tmp_path / "one")["counts"]
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    tokenizer.no_padding()
    rows = tokenizer.encode_batch(expected, add_special_tokens=False)
    assert counts["tokenize.tokens"] == sum(len(row.ids) for row in rows)
    assert counts["read.documents"] == counts["read.sentences"] == len(expected)
    assert_same_bytes(tmp_path / "one", [folder], tokenizer_path, *RULE, *flags, *way)


@pytest.mark.usefixtures("any_objective")
def test_a_large_file_is_one_text_that_is_read_in_ranges(
    tokenizer_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "large.txt").write_text("".join(TEXTS) + "\udcff\n", errors="surrogateescape")
    flags = (*RULE, "--document-rule", "whole-file", "--max-document-bytes", "700")
    build([tmp_path / "large.txt"], tokenizer_path, tmp_path / "one", *flags)
    ways = (*flags, *SMALL_RANGES)
    assert_same_bytes(tmp_path / "one", [tmp_path / "large.txt"], tokenizer_path, *ways)
    counts = jobs.read_manifest_json(tmp_path / "one")["counts"]
    assert counts["read.documents"] == counts["read.cut_documents"] + 1 > 5
    assert counts["read.rejects"] == counts["read.rejected_lines"] == 1


def test_a_tokenizer_is_trained_on_whole_documents(tmp_path: Path) -> None:
    """Line breaks and indentation become tokens, as GPT's are."""
    (tmp_path / "a.jsonl").write_bytes(WRITERS["jsonl"](TEXTS))
    kind = ("--model", "bpe", "--vocab-size", "400")
    trained = jobs.train(tmp_path / "a.jsonl", tmp_path / "t.json", *kind, *RULE)
    tokens = Tokenizer.from_str(trained).encode("a\n\n\n# end").tokens
    assert "\u010a\u010a" in tokens
