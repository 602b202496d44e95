"""Tokenizers of the Hugging Face hub, by name."""

import re
from dataclasses import dataclass
from pathlib import Path

import huggingface_hub

from corpusmill.corpus.hub.wikitext import TIMEOUT_SECONDS
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
    # What its transport raises, by its version, or an answer that is no JSON.
    try:
        folder = _download(repository, revision or None)
    except Exception as error:
        try:
            folder = _cached(repository, revision or None)
        except Exception:  # the first error tells the cause
            first = next(iter(str(error).strip().splitlines()), "").rstrip(".")
            refuse(
                name,
                "there is no such file or folder here, and the Hugging Face hub does not give it "
                f"({type(error).__name__}: {first})",
                "Check the path or the name; a private one needs HF_TOKEN; without a network, "
                "download its tokenizer.json and give its path",
            )
    if folder is None or not any((folder / file).exists() for file in MAIN_FILES):
        refuse(
            name,
            f"on the Hugging Face hub it holds no tokenizer ({', '.join(MAIN_FILES)})",
            "Give the name of a model that has one",
        )
    return HubFiles(str(folder), folder.name)


def _download(repository: str, revision: str | None) -> Path | None:
    """The folder of the cache that holds the files; None where there are none."""
    api = huggingface_hub.HfApi()
    info = api.model_info(repository, revision=revision, timeout=TIMEOUT_SECONDS)
    there = {sibling.rfilename for sibling in info.siblings or ()}
    main = next((file for file in MAIN_FILES if file in there), None)
    beside = [*COMPANIONS, *(["merges.txt"] if main == "vocab.json" else [])]
    # By the name of the revision, which makes the cache remember its commit.
    paths = [
        huggingface_hub.hf_hub_download(
            repository, file, revision=revision, etag_timeout=TIMEOUT_SECONDS
        )
        for file in [main, *beside]
        if file in there
    ]
    return Path(paths[0]).parent if main else None


def _cached(repository: str, revision: str | None) -> Path:
    wanted = [*MAIN_FILES, *COMPANIONS, "merges.txt"]
    folder = huggingface_hub.snapshot_download(
        repository, revision=revision, allow_patterns=wanted, local_files_only=True
    )
    return Path(folder)
