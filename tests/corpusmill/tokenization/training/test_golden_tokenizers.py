"""The tokens of each model for the bundled sample stay as they are."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from corpusmill.tokenization.training.models import MODELS, model_options
from tests.tools.training import train

# What the trainers of the tokenizers library gave, and for wordlevel our own code.
GOLDEN = [
    ("wordpiece", {"vocab_size": 3000}, "96b12c52b301afee"),
    (
        "wordpiece",
        {"lowercase": False, "min_frequency": 1, "special_tokens": "the ##e"},
        "e700ad86ed4c6cea",
    ),
    ("bpe", {"vocab_size": 3000}, "9f26e3c035ad1aa2"),
    (
        "bpe",
        {"min_frequency": 1, "add_prefix_space": True, "special_tokens": "the == a"},
        "5f7b884987b13004",
    ),
    ("wordlevel", {"vocab_size": 3000}, "9cb7d098e4b87136"),
]


@pytest.mark.parametrize(("model", "values", "digest"), GOLDEN)
def test_the_tokens_and_merges_of_the_sample(
    model: str, values: dict[str, Any], digest: str, sample: Path
) -> None:
    if "special_tokens" in values:
        default = MODELS[model]().special_tokens
        values = values | {"special_tokens": (*default, *values["special_tokens"].split())}
    text = sample.read_text("utf-8").split("\n")
    trained = json.loads(train([text], model_options(model, values)))["model"]
    content = json.dumps([trained["vocab"], trained.get("merges")], ensure_ascii=False)
    assert hashlib.sha256(content.encode()).hexdigest()[:16] == digest
