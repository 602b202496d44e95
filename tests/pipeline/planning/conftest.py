"""A tokenizer with the special tokens of all objectives."""

from pathlib import Path

import pytest

from tests.tools.jobs import train

_TOKENS = (
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "</s>", "[R]", "[S]", "[X]", "<|endoftext|>",
    *(f"<extra_id_{number}>" for number in range(128)),
)  # fmt: skip


@pytest.fixture(scope="session")
def any_tokenizer(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer that every objective can use."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    train(sample, path, "--vocab-size", "900", "--special-tokens", *_TOKENS)
    return path
