"""The same text and options give the same file in every process, even if counts are tied."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from corpusmill.tokenization.training.models import MODELS, model_options
from tests.corpusmill.tokenization.training.test_train_wordpiece import TIED
from tests.tools.knobs import knobs
from tests.tools.tokenizer_samples import TEXT
from tests.tools.training import train

SENTENCES = [*TIED, *TEXT]
SIZES = {"wordpiece": 300, "bpe": 320, "wordlevel": 60, "unigram": 150}

TRAIN_IN_A_PROCESS = """
import hashlib
from corpusmill.tokenization.training.models import model_options
from tests.tools.training import train
from tests.corpusmill.tokenization.training.test_same_tokenizer import SENTENCES, SIZES
for model, size in SIZES.items():
    options = model_options(model, {"vocab_size": size})
    trained = train([SENTENCES], options)
    print(model, hashlib.sha256(trained.encode()).hexdigest())
"""


@pytest.fixture(scope="module")
def digests() -> list[dict[str, str]]:
    digests = []
    for number in range(2):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": str(number),
            "RAYON_NUM_THREADS": str(1 + 3 * number),
            "TOKENIZERS_PARALLELISM": "true" if number % 2 else "false",
        }
        started = subprocess.run(
            [sys.executable, "-c", TRAIN_IN_A_PROCESS],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        lines = started.stdout.splitlines()  # some are empty, because the library prints
        digests.append(dict(line.split(" ") for line in lines if line))
    return digests


@pytest.mark.parametrize("model", MODELS)
def test_every_process_gives_the_same_file(model: str, digests: list[dict[str, str]]) -> None:
    assert len({by_model[model] for by_model in digests}) == 1


@pytest.mark.parametrize("model", MODELS)
def test_a_tokenizer_does_not_depend_on_how_much_is_done_at_a_time(model: str) -> None:
    options = model_options(model, {"vocab_size": SIZES[model]})
    expected = train([SENTENCES], options)
    for words_at_once in (3, 30):
        with knobs(small=True, words_at_once=words_at_once):
            assert train([SENTENCES], options) == expected


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
