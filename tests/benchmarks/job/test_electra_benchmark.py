from pathlib import Path

import pytest
from tokenizers import Tokenizer

from benchmarks.job.electra import build_originals_way, read_examples


def test_both_sides_of_the_benchmark_have_the_same_tokens(
    sample: Path, tokenizer_path: Path
) -> None:
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    lines = filter(None, map(str.strip, sample.read_text().split("\n")))
    tokens = sum(len(tokenizer.encode(line, add_special_tokens=False).ids) for line in lines)
    examples = list(read_examples(str(sample), tokenizer))
    kept = sum(len(example.first) + len(example.second) for example in examples)
    trimmed = sum(len(example.first_trimmed) + len(example.second_trimmed) for example in examples)
    assert kept + trimmed == tokens
    result = build_originals_way(str(sample), str(tokenizer_path))
    assert result["examples"] == len(examples)
    assert result["dropped"] == pytest.approx(trimmed / tokens)
