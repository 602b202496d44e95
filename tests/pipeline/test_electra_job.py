"""Whole jobs of ELECTRA: what they write is what the kernels build, however they are run."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tokenizers import Tokenizer

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.text.text_documents import read_text
from corpusmill.layout.placement import draw_keys, sort_order
from corpusmill.objectives.electra import ElectraOptions
from corpusmill.objectives.objective import Repeat
from corpusmill.tokenization.encoding import encode_documents
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from corpusmill.verification.check_data_set import verify
from tests.tools import jobs
from tests.tools.corpus_files import as_json_lines, as_table, as_tar, as_wet, split_documents
from tests.tools.jobs import Outcome, read_manifest_json, rows_of, run_here
from tests.tools.table_files import arrow_file, avro, parquet


def build(source: Path, tokenizer: Path, output: Path, *flags: str) -> Outcome:
    """Build a small ELECTRA data set in this process."""
    return jobs.build([source], tokenizer, output, *flags, objective="electra")


# What is written


def test_the_job_writes_what_the_kernels_build(
    sample: Path, tokenizer_path: Path, tokenizer: TokenizerFile, tmp_path: Path
) -> None:
    flags = ("--num-shards", "1", "--range-bytes", "9000")
    build(sample, tokenizer_path, tmp_path / "out", *flags)
    objective = ElectraOptions(max_seq_length=64, duplicates=2).bind(tokenizer)
    to_ids = SentenceTokenizer(tokenizer.json, tokenizer.token_dtype)
    rule = DocumentOptions(document_rule="blank-lines")
    with sample.open("rb") as stream:
        batches = [
            encode_documents(to_ids, batch.documents).documents
            for batch in read_text(stream, FileRange(sample.name, 0, rule))
        ]
    examples = pa.concat_batches(
        [
            objective.build(batch, Repeat(repeat, None, np.zeros(batch.num_rows, np.uint8), 1))
            for batch in batches
            for repeat in (0, 1)
        ]
    )
    identity = [examples.column(place).to_numpy() for place in range(3)]
    order = sort_order(draw_keys(*identity, seed=1), *identity)
    expected = objective.finish(examples.take(pa.array(order)), padded=False)
    assert expected.to_pylist() == rows_of(tmp_path / "out")


@pytest.mark.parametrize("overflow", ["drop", "keep"])
def test_every_token_is_in_an_example_or_counted(
    overflow: str, sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    build(sample, tokenizer_path, tmp_path / "out", "--overflow", overflow)
    assert not verify(tmp_path / "out")
    counts = read_manifest_json(tmp_path / "out")["counts"]
    rows = rows_of(tmp_path / "out")
    special = [3 if 1 in row["token_type_ids"] else 2 for row in rows]
    written = sum(len(row["input_ids"]) for row in rows) - sum(special)
    parts = ("build.trimmed_tokens.first_segment", "build.trimmed_tokens.second_segment")
    assert counts["build.trimmed_tokens"] == sum(counts[part] for part in parts)
    assert written + counts["build.trimmed_tokens"] == 2 * counts["tokenize.tokens"]
    assert (counts["build.trimmed_tokens"] == 0) == (overflow == "keep")
    assert {2, 3} == set(special)


# Formats of the input. Without chance the same documents give the same examples in every format.

NO_CHANCE = ("--short-seq-prob", "0", "--single-segment-prob", "1", "--num-shards", "1")

Documents = list[list[str]]


def as_texts(documents: Documents) -> list[bytes]:
    return ["\n".join(document).encode() for document in documents]


FORMATS: dict[str, Callable[[Documents], bytes]] = {
    "txt": lambda documents: b"\n\n".join(as_texts(documents)) + b"\n",
    "jsonl": as_json_lines,
    "parquet": lambda documents: parquet(as_texts(documents), 7),
    "arrow": lambda documents: arrow_file(as_texts(documents), 7),
    "avro": lambda documents: avro([text.decode() for text in as_texts(documents)], 7),
    "csv": lambda documents: as_table(documents, "excel"),
    "tsv": lambda documents: as_table(documents, "excel-tab"),
    "tar": as_tar,
    "wet": as_wet,
}


@pytest.fixture(scope="module")
def documents(sample: Path) -> Documents:
    return [[line for line in document if line.strip()] for document in split_documents(sample)][
        :40
    ]


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_of_input(
    suffix: str, documents: Documents, tokenizer_path: Path, tmp_path: Path,
    tokenizer: TokenizerFile,
) -> None:  # fmt: skip
    source = tmp_path / f"corpus.{suffix}"
    source.write_bytes(FORMATS[suffix](documents))
    build(source, tokenizer_path, tmp_path / "out", *NO_CHANCE)
    assert not verify(tmp_path / "out")
    results = sorted(row["input_ids"] for row in rows_of(tmp_path / "out"))
    assert results == sorted(2 * packed_plainly(documents, tokenizer))


def packed_plainly(documents: Documents, tokenizer: TokenizerFile) -> list[list[int]]:
    """One segment an example: sentences until there are 64 tokens, cut to 62."""
    cls_id, sep_id = tokenizer.special.cls_id, tokenizer.special.sep_id
    assert cls_id is not None
    assert sep_id is not None
    to_ids = Tokenizer.from_str(tokenizer.json)
    rows = []
    for document in documents:
        waiting: list[int] = []
        for place, sentence in enumerate(document, 1):
            waiting += to_ids.encode(sentence, add_special_tokens=False).ids
            if len(waiting) >= 64 or place == len(document):
                rows.append([cls_id, *waiting[:62], sep_id])
                waiting = []
    return [row for row in rows if len(row) > 2]


# Documents of a text


@pytest.fixture
def two_texts(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_text(" = Title = \n\nthe sea .\nthe lamp .\n\nthe light .\n")
    (folder / "b.txt").write_text("the tower .\n\n\nthe keeper .\n")
    return folder


@pytest.mark.parametrize(
    ("flags", "rule", "documents_read", "sentences"),
    [
        ((), "blank-lines", 5, 6),
        (("--document-rule", "wikitext"), "wikitext", 4, 5),
        (("--no-blanks-separate-docs",), "whole-file", 2, 6),
        (("--no-blanks-separate-docs", "--document-rule", "whole-file"), "whole-file", 2, 6),
        (("--no-blanks-separate-docs", "--max-document-bytes", "12"), "whole-file", 6, 6),
    ],
)
def test_what_separates_documents(
    flags: tuple[str, ...],
    rule: str,
    documents_read: int,
    sentences: int,
    two_texts: Path,
    tokenizer_path: Path,
    tmp_path: Path,
) -> None:
    output = tmp_path / "out"
    once = ("--duplicates", "1", "--num-shards", "1", "--short-seq-prob", "0")
    build(two_texts, tokenizer_path, output, *once, *flags)
    manifest = read_manifest_json(output)
    assert manifest["corpus"]["options"]["document_rule"] == rule
    assert manifest["counts"]["read.documents"] == documents_read
    assert manifest["counts"]["read.sentences"] == sentences
    # No document of this size reaches the target: each is flushed at its end.
    assert len(rows_of(output)) == documents_read


def test_a_tokenizer_without_sep_is_refused(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    settings = {**json.loads(tokenizer_path.read_text()), "post_processor": None}
    text = json.dumps(settings).replace("[SEP]", "[END]")
    (tmp_path / "tokenizer.json").write_text(text)
    arguments = ("--input", sample, "--tokenizer", tmp_path / "tokenizer.json")
    parts = ("it has no [SEP] token",)
    run_here("electra", *arguments, "--output", tmp_path / "out", refused=parts)


# Reports


def test_the_report_says_which_share_of_the_text_is_covered(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    built = build(sample, tokenizer_path, output)
    counts = read_manifest_json(output)["counts"]
    first, second = (
        counts[f"build.trimmed_tokens.{segment}_segment"] for segment in ("first", "second")
    )
    share = 100 - 100 * (first + second) / (2 * counts["tokenize.tokens"])
    shown = run_here("inspect", output, "--html", tmp_path / "report.html")
    for text in (built.output, shown.output):
        assert f"{share:.1f} %" in text
        assert f"first segment {first:,}, second segment {second:,}" in text
    page = (tmp_path / "report.html").read_text()
    assert f"{share:.1f} %" in page
    assert f"first segment {first:,}, second segment {second:,}" in page
    for text in (shown.output, page):
        assert " predictions" not in text
        assert "second segment: next" not in text


def test_decoded_examples_have_one_segment_or_two(
    sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    build(sample, tokenizer_path, tmp_path / "out", *NO_CHANCE)
    one = run_here("inspect", tmp_path / "out", "--examples", "50").output
    assert "  A  " in one
    assert "  B  " not in one
    build(sample, tokenizer_path, tmp_path / "out", "--replace")
    shown = run_here("inspect", tmp_path / "out", "--examples", "50").output
    assert shown.count("  A  ") == 50
    assert 0 < shown.count("  B  ") < 50
    assert "[SEP]" not in shown


def test_a_padded_data_set_verifies(sample: Path, tokenizer_path: Path, tmp_path: Path) -> None:
    build(sample, tokenizer_path, tmp_path / "out", "--padding", "max_length")
    assert not verify(tmp_path / "out")
    build(sample, tokenizer_path, tmp_path / "plain")
    for name in ("splits", "counts"):
        padded, plain = (read_manifest_json(tmp_path / entry)[name] for entry in ("out", "plain"))
        if name == "splits":
            padded, plain = padded["train"]["distributions"], plain["train"]["distributions"]
        assert padded == plain
    assert {len(row["token_type_ids"]) for row in rows_of(tmp_path / "out")} == {64}
