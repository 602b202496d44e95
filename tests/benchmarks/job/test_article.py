import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

from benchmarks.job import article

SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"]
WORDS = [f"w{number}" for number in range(300)]


@pytest.fixture
def tokenizer() -> tokenizers.Tokenizer:
    vocabulary = {word: index for index, word in enumerate(SPECIAL + WORDS)}
    made = tokenizers.Tokenizer(models.WordLevel(vocabulary, SPECIAL[4]))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


@pytest.fixture
def text(tmp_path: Path) -> Path:
    draw = np.random.default_rng(3)
    lines = []
    for _ in range(30):
        lines += [" \n", " = Title = \n", " \n"]
        for _ in range(draw.integers(1, 7)):
            lines.append(f" {' '.join(draw.choice(WORDS, draw.integers(1, 200)))} \n")
    path = tmp_path / "text.txt"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_documents_end_at_empty_and_title_lines(tokenizer: tokenizers.Tokenizer) -> None:
    lines = ["w0 w1\n", " w2 \n", " \n", " = w3 = \n", " w4 \n", " = = w5 = = \n"]
    assert article.create_documents(lines, tokenizer) == [[[5, 6], [7]], [[9]]]


def test_command_writes_the_articles_samples(
    tmp_path: Path, text: Path, tokenizer: tokenizers.Tokenizer
) -> None:
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    command = [sys.executable, "-m", "benchmarks.job.article", "--repeats", "3"]
    for option, path in (("input", text.name), ("tokenizer", "tokenizer.json")):
        command += [f"--{option}", str(tmp_path / path)]
    command += ["--output", str(tmp_path / "out.parquet")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result = json.loads(done.stdout)
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert result["bytes"] == text.stat().st_size
    assert result["documents"] == 30
    assert result["examples"] == len(rows) >= 90
    assert {row["is_random_next"] for row in rows} == {True, False}
    for row in rows:
        check_sample(row)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out.parquet", "text.txt", "tokenizer.json",
    ]  # fmt: skip


def check_sample(row: dict[str, list[int]]) -> None:
    tokens, segments = row["tokens"], row["segment_ids"]
    assert len(tokens) == len(segments) == 512
    length = 512 - tokens.count(0)
    separators = [place for place, token in enumerate(tokens) if token == 2]
    assert tokens[0] == 1
    assert len(separators) == 2
    assert separators[1] == length - 1
    first = separators[0] + 1
    assert segments == [0] * first + [1] * (length - first) + [-1] * (512 - length)
    assert len(row["masked_positions"]) == min(20, max(1, round((length - 3) * 0.15)))
    assert len(row["masked_labels"]) == len(row["masked_positions"])
    assert not set(row["masked_labels"]) & {0, 1, 2, 3}


def test_second_segment_is_never_from_the_same_document() -> None:
    documents = [[[10 + index] * 5] * 4 for index in range(3)]
    random.seed(0)
    for _ in range(200):
        for first, second, is_random_next in article.sentence_pairs(documents, 1, 30):
            assert set(first) == {11}
            assert (set(second) == {11}) is not is_random_next
