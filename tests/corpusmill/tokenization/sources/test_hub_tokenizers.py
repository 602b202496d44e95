"""Tokenizers named by their place on the hub, which is a server on the loopback interface."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from corpusmill.tokenization.sources.read import is_hub_name
from tests.corpusmill.tokenization.sources.test_vocabulary_files import LOWER, MERGES, VOCAB
from tests.tools.loopback_hub import COMMIT, DataSet, Hub, run_client, serve
from tests.tools.tokenizer_samples import byte_level

READ = """
import json, sys
from corpusmill.errors import UserError
from corpusmill.tokenization.sources.read import read_tokenizer
try:
    for name in sys.argv[1:]:
        file = read_tokenizer(name, lambda path: None)
        of_file = [file.name, file.form, file.revision, file.vocab_size, file.special.mask_id]
        print(json.dumps(of_file))
except UserError as error:
    sys.exit(f"UserError: {error}")
"""

MODELS = {
    "uncased": {"vocab.txt": LOWER, "model.safetensors": b"large"},
    "org/bpe": {
        "vocab.json": VOCAB, "merges.txt": MERGES, "model.safetensors": b"large",
        "tokenizer_config.json": b'{"mask_token": "</s>"}',
    },
    "org/both": {"vocab.txt": LOWER, "tokenizer.json": byte_level().encode()},
    "org/none": {"model.safetensors": b"large"},
}  # fmt: skip


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serve({name: DataSet(files) for name, files in MODELS.items()}) as server:
        yield server


def test_only_the_tokenizers_files_are_downloaded(hub: Hub, tmp_path: Path) -> None:
    done = run_client(READ, tmp_path, hub.address, "org/bpe@v1", "uncased", "org/both")
    assert done.returncode == 0, done.stderr
    bpe, uncased, both = map(json.loads, done.stdout.splitlines())
    size = len(json.loads(VOCAB))
    assert bpe == ["org/bpe@v1", "vocab.json with merges.txt", COMMIT, size, 1]
    assert uncased == ["uncased", "vocab.txt", COMMIT, 8, 4]
    assert both[1] == "tokenizer.json"
    assert not [path for path in hub.requests if "safetensors" in path]
    requests = len(hub.requests)
    done = run_client(READ, tmp_path, hub.address, "uncased", HF_HUB_OFFLINE="1")
    assert json.loads(done.stdout)[1:3] == ["vocab.txt", COMMIT], done.stderr
    assert len(hub.requests) == requests


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("org/none", "it holds no tokenizer (tokenizer.json, vocab.txt"),
        (
            "org/unheard-of",
            "there is no such file or folder here, and the Hugging Face hub does not provide",
        ),
    ],
)
def test_what_the_hub_does_not_have_is_refused(
    hub: Hub, tmp_path: Path, name: str, cause: str
) -> None:
    done = run_client(READ, tmp_path, hub.address, name)
    [message] = done.stderr.splitlines()
    assert message.startswith(f"UserError: --tokenizer {name}: ")
    assert cause in message


def test_without_a_network_the_message_names_both_causes(tmp_path: Path) -> None:
    done = run_client(READ, tmp_path, "http://127.0.0.1:9", "bert-base-uncased")
    [message] = done.stderr.splitlines()
    assert "there is no such file or folder here, and the Hugging Face hub does not" in message
    assert message.endswith("download its tokenizer.json and give its path.")


@pytest.mark.parametrize(
    ("name", "is_name"),
    [
        ("bert-base-uncased", True), ("org/name-1.5", True), ("org/name@refs/pr/1", True),
        ("name@v1.0", True), ("tokenizer.json", False), ("out/vocab.txt", False),
        ("/org/name", False), ("./name", False), ("../a/b", False), ("a/b/c", False),
        ("gs://a/b", False), ("a.model", False), ("", False), ("org/name@", False),
    ],
)  # fmt: skip
def test_names_that_can_be_on_the_hub(name: str, is_name: bool) -> None:
    assert is_hub_name(name) is is_name
