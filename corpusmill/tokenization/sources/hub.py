"""Tokenizers of the Hugging Face hub, by name."""

import re
from dataclasses import dataclass

from corpusmill.hub import describe_error, fetch_files
from corpusmill.tokenization.sources.source import refuse

# Files that a tokenizer is read from, best first, and those that say more about it.
MAIN_FILES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "spm.model",
)
COMPANIONS = ("special_tokens_map.json", "tokenizer_config.json", "added_tokens.json")

_NAME = re.compile(r"(?:[\w-][\w.-]*/)?[\w-][\w.-]*(?:@[\w./-]+)?")
_FILE = re.compile(r"\.(json|txt|model|tiktoken|bpe|gz|zst|bz2|xz)$")


@dataclass(frozen=True)
class HubFiles:
    """A tokenizer's files in the hub's cache.

    Attributes:
        folder: where they are.
        revision: the commit that they are of.
    """

    folder: str
    revision: str


def is_hub_name(name: str) -> bool:
    """Whether a name can be one on the hub, such as bert-base-uncased or org/name@revision."""
    return _NAME.fullmatch(name) is not None and _FILE.search(name) is None


def fetch_tokenizer(name: str) -> HubFiles:
    """Fetch a tokenizer's files from the hub.

    The hub's cache, endpoint, token and offline mode are those of huggingface_hub (HF_HOME,
    HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE); where the hub is not reached, its cache is used.

    Args:
        name: for which `is_hub_name`; the part behind an @ is a branch, a tag or a commit.

    Raises:
        UserError: the hub has no such tokenizer, or neither it nor its cache can be read.
    """
    repository, _, revision = name.partition("@")
    patterns = [*MAIN_FILES, *COMPANIONS, "merges.txt"]
    try:
        files = fetch_files(repository, patterns, "model", revision or None, _choose_files)
    except Exception as error:  # the cure is the same for all of them
        refuse(
            name,
            "there is no such file or folder here, and the Hugging Face hub does not give it "
            f"({describe_error(error)})",
            "Check the path or the name; a private one needs HF_TOKEN; without a network, "
            "download its tokenizer.json and give its path",
        )
    if not any(file.name in MAIN_FILES for file in files):
        refuse(
            name,
            f"on the Hugging Face hub it holds no tokenizer ({', '.join(MAIN_FILES)})",
            "Give the name of a model that has one",
        )
    folder = files[0].parent
    return HubFiles(str(folder), folder.name)


def _choose_files(names: list[str]) -> list[str]:
    """The best main file, and those that say more about it."""
    main = next((file for file in MAIN_FILES if file in names), None)
    chosen = {main, *COMPANIONS, *(["merges.txt"] if main == "vocab.json" else [])}
    return [name for name in names if name in chosen]
