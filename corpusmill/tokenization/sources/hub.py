"""A tokenizer's files on the Hugging Face hub, by the name of the model."""

import re
from pathlib import Path

from corpusmill.hub import describe_error, fetch_files
from corpusmill.tokenization.sources.source import refuse

# The files that hold a tokenizer, best first, and those that say more about it.
MAIN_FILES = (
    "tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model",
    "sentencepiece.bpe.model", "spm.model",
)  # fmt: skip
COMPANIONS = ("special_tokens_map.json", "tokenizer_config.json", "added_tokens.json")

_NAME = re.compile(r"(?:[\w-][\w.-]*/)?[\w-][\w.-]*(?:@[\w./-]+)?")
_FILE = re.compile(r"\.(json|txt|model|tiktoken|bpe|gz|zst|bz2|xz)$")


def is_hub_name(name: str) -> bool:
    """Whether a name, such as bert-base-uncased or org/name@revision, can exist on the hub."""
    return _NAME.fullmatch(name) is not None and _FILE.search(name) is None


def fetch_tokenizer(name: str) -> Path:
    """Fetch a tokenizer's files from the hub.

    The hub's cache, endpoint, token and offline mode are those of huggingface_hub (HF_HOME,
    HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE); if the hub cannot be reached, its cache is used.

    Args:
        name: a name that `is_hub_name`; the part after an @ is a branch, a tag or a commit.

    Returns:
        The folder of the files, which is named after their commit.

    Raises:
        UserError: the hub has no such tokenizer, or neither it nor its cache can be read.
    """
    repository, _, revision = name.partition("@")
    patterns = [*MAIN_FILES, *COMPANIONS, "merges.txt"]
    try:
        files = fetch_files(repository, patterns, "model", revision or None, _choose_files)
    except Exception as error:  # of any kind; the cure is the same
        refuse(
            name,
            "there is no such file or folder here, and the Hugging Face hub does not provide "
            f"it ({describe_error(error)})",
            "Check the path or the name; a private one needs HF_TOKEN; without a network, "
            "download its tokenizer.json and give its path",
        )
    if not any(file.name in MAIN_FILES for file in files):
        refuse(
            name,
            f"on the Hugging Face hub it holds no tokenizer ({', '.join(MAIN_FILES)})",
            "Give the name of a model that has one",
        )
    return files[0].parent


def _choose_files(names: list[str]) -> list[str]:
    """The best main file, and those that say more about it."""
    main = next((file for file in MAIN_FILES if file in names), None)
    chosen = {main, *COMPANIONS, *(["merges.txt"] if main == "vocab.json" else [])}
    return [name for name in names if name in chosen]
