"""The command gpt as a whole: every mode and format, in any number of processes."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from corpusmill.verification.check_data_set import verify
from tests.corpusmill.formats.test_token_files import open_as_megatron
from tests.corpusmill.objectives.reference_gpt import windows
from tests.tools import jobs
from tests.tools.data_files import find_file, find_files, manifest_of
from tests.tools.tokenizer_samples import byte_level

END = 600
# Documents of a few sentences, of which the sample has a hundred.
LINES = ("--document-rule", "wikitext", "--sentence-rule", "line")
PACK = ("--mode", "pack", "--max-seq-length", "128")
WINDOWS = ("--mode", "windows", "--max-seq-length", "40", "--overlap", "10")


def build(sample: Path, tokenizer: Path, output: Path, *flags: str, **end: Any) -> None:
    share = ("--validation-share", "0.2")
    jobs.build([sample], tokenizer, output, *share, *LINES, *flags, objective="gpt", **end)


@pytest.fixture(scope="module")
def documents(sample: Path, gpt_tokenizer: Path) -> list[list[int]]:
    """The tokens of each document of the sample."""
    tokenizer = Tokenizer.from_file(str(gpt_tokenizer))
    texts: list[list[str]] = [[]]
    for line in map(str.strip, sample.read_text().splitlines()):
        if line and not line.startswith("="):
            texts[-1].append(line)
        else:
            texts.append([])
    encoded = [
        [token for line in text for token in tokenizer.encode(line, add_special_tokens=False).ids]
        for text in texts
    ]
    return [tokens for tokens in encoded if tokens]


def rows_of(folder: Path, pattern: str = "*", column: str = "input_ids") -> list[list[int]]:
    return [row[column] for row in jobs.rows_of(folder, pattern)]


@pytest.mark.parametrize("flags", [(), PACK, WINDOWS, ("--output-format", "nanogpt")])
def test_every_mode_can_be_looked_at(
    flags: tuple[str, ...], sample: Path, gpt_tokenizer: Path, tmp_path: Path
) -> None:
    build(sample, gpt_tokenizer, tmp_path / "out", *flags)
    shown = jobs.run_here("inspect", tmp_path / "out", "--html", tmp_path / "report.html")
    assert "example 1: " in shown.output
    assert " predictions" not in shown.output + (tmp_path / "report.html").read_text()


def test_a_stream_holds_every_document_once(
    sample: Path, gpt_tokenizer: Path, documents: list[list[int]], output: Path
) -> None:
    build(sample, gpt_tokenizer, output)
    assert sorted(rows_of(output)) == sorted([*tokens, END] for tokens in documents)


def test_documents_are_texts_as_they_stand(sample: Path, tmp_path: Path, output: Path) -> None:
    """By default a stream spells the articles, every line break and title of them."""
    tokenizer = Tokenizer.from_str(byte_level())
    tokenizer.save(str(tmp_path / "bytes.json"))
    arguments = ("--input", sample, "--tokenizer", tmp_path / "bytes.json", "--output", output)
    jobs.run_here("gpt", *arguments)
    rows = rows_of(output)
    assert {row[-1] for row in rows} == {tokenizer.token_to_id("<|endoftext|>")}
    text = sample.read_text()
    articles = sorted((tokenizer.decode(row[:-1]) for row in rows), key=text.index)
    # The blank line before the first title is of no document.
    assert "".join(articles) == text.removeprefix(" \n")
    assert len(articles) > 5


def test_windows_of_the_whole_corpus_are_the_articles(
    sample: Path, gpt_tokenizer: Path, documents: list[list[int]], output: Path
) -> None:
    build(sample, gpt_tokenizer, output, *WINDOWS)
    expected = [window for tokens in documents for window in windows(tokens, 40, 10)]
    assert sorted(rows_of(output)) == sorted(expected)
    cut = sum(len(tokens) > 40 for tokens in documents)
    assert manifest_of(output).counts["build.cut_documents"] == cut


def test_packs_hold_every_token_once_and_little_padding(
    sample: Path, gpt_tokenizer: Path, documents: list[list[int]], output: Path
) -> None:
    build(sample, gpt_tokenizer, output, *PACK, "--num-shards", "1")
    rows, marks = rows_of(output), rows_of(output, column="cu_seqlens")
    pieces = sorted(
        row[begin:end]
        for row, ends in zip(rows, marks, strict=True)
        for begin, end in pairwise(ends)
    )
    ended = [[*tokens, END] for tokens in documents]
    assert pieces == sorted(
        tokens[start : start + 128] for tokens in ended for start in range(0, len(tokens), 128)
    )
    train = rows_of(output, "train-*")
    assert sum(map(len, train)) > 0.98 * 128 * len(train)
    assert manifest_of(output).counts["write.pieces"] == len(pieces)
    inspected = jobs.run_here("inspect", output)
    assert re.search(r"padding +[01]\.\d % +of the positions", inspected.output)


def test_megatron_maps_the_documents(
    sample: Path, gpt_tokenizer: Path, documents: list[list[int]], output: Path
) -> None:
    build(sample, gpt_tokenizer, output, "--output-format", "megatron")
    results = []
    for tokens in find_files(output, "*.bin"):
        dataset = open_as_megatron(tokens.read_bytes(), tokens.with_suffix(".idx").read_bytes())
        results += [dataset.read(number) for number in range(len(dataset.lengths))]
    assert sorted(results) == sorted([*tokens, END] for tokens in documents)
    assert "--data-path path/to/v1/train-00000-of-00003" in (output / "README.md").read_text()


def test_nanogpt_maps_one_file_a_split(
    sample: Path, gpt_tokenizer: Path, output: Path, tmp_path: Path
) -> None:
    """The shards that were built in parallel, one after the other."""
    build(sample, gpt_tokenizer, output, "--output-format", "nanogpt")
    build(sample, gpt_tokenizer, tmp_path / "parquet")
    for name, split in (("train", "train"), ("val", "validation")):
        rows = rows_of(tmp_path / "parquet", f"{split}-*")
        data = np.memmap(find_file(output, f"{name}.bin"), dtype=np.uint16, mode="r")
        assert data.tolist() == [token for row in rows for token in row]
        lengths = np.fromfile(find_file(output, f"{name}.lengths"), np.int32)
        assert lengths.tolist() == list(map(len, rows))
        [shard] = manifest_of(output).splits[split].shards
        assert (shard.file, shard.rows, shard.tokens) == (f"v1/{name}.bin", len(rows), len(data))
    build(sample, gpt_tokenizer, output, "--replace")
    assert not list(output.rglob("train.bin"))


def test_documents_of_any_length_have_a_short_manifest(
    gpt_tokenizer: Path, tmp_path: Path, output: Path
) -> None:
    """A book's length is one number in the manifest, and not the zeros below it."""
    book = tmp_path / "book.txt"
    book.write_text("The lighthouse keeper .\n" * 20_000)
    flags = ("--validation-share", "0", "--num-shards", "1")
    build(book, gpt_tokenizer, output, *flags)
    split = jobs.read_manifest_json(output)["splits"]["train"]
    tokens = split["tokens"]
    assert split["distributions"]["length"] == {str(tokens): 1}
    assert tokens > 100_000
    assert verify(output) == []
    shown = jobs.run_here("inspect", output)
    assert f"largest {tokens:,}" in shown.output
    assert f"... and {tokens - 1024:,} more tokens" in shown.output
