"""Files of data sets on the Hugging Face hub, by name: `hf://datasets/organization/name`.

The hub's endpoint, token and offline mode are those of huggingface_hub (HF_ENDPOINT, HF_TOKEN or a
login, HF_HUB_OFFLINE). Files are listed at one commit, which their paths name, and are read from
the hub, not downloaded first.
"""

import re
from collections.abc import Sequence
from glob import has_magic
from pathlib import Path, PurePosixPath
from typing import Any, cast
from urllib.parse import unquote

import huggingface_hub
import pyarrow.parquet as pq

from corpusmill.corpus.input_formats import take_suffixes
from corpusmill.errors import UserError, option
from corpusmill.hub import (
    SCHEME,
    DataSetName,
    describe_error,
    explain_error,
    fetch_files,
)

# The branch on which the hub keeps the Parquet files that it made of other files.
CONVERTED = "refs/convert/parquet"

# The names of splits, as the datasets library recognizes them.
_SPLITS = {
    "train": "train", "training": "train", "test": "test", "testing": "test", "eval": "test",
    "evaluation": "test", "validation": "validation", "valid": "validation", "dev": "validation",
    "val": "validation",
}  # fmt: skip


def is_hub_path(path: str) -> bool:
    """Whether a path names files on the hub."""
    return path.startswith(SCHEME)


def list_hub_files(name: str, suffixes: Sequence[str] = ()) -> dict[str, int]:
    """List the files that a name on the hub refers to, with their bytes.

    Args:
        name: `hf://datasets/organization/name`, optionally with `@revision`, and with the path of
            a file or folder, or a glob. Without path and suffixes it means the Parquet files of the
            data set, or else those that the hub has made of it; if their names tell splits, only
            the train split.
        suffixes: the wanted ones, of the files of a folder or a whole data set.

    Returns:
        Paths with the commit as their revision: they mean the same bytes at any later time.

    Raises:
        UserError: the hub, the data set or the file is not available, or it is not clear which
            files are meant.
    """
    named = DataSetName.parse(name)
    if not named:
        cure = "Write hf://datasets/organization/name, then @revision and /path where you need them"
        raise UserError(option("input", name), "it names no data set of the hub", cure)
    try:
        files = _list_named(named, named.ask(), suffixes)
        first = next((path for path, size in files.items() if size), None)
        if first:  # a user who may list a data set is perhaps not allowed to read it
            with huggingface_hub.HfFileSystem().open(first, "rb", cache_type="none") as stream:
                stream.read(1)
    except UserError:
        raise
    # The transport is requests, httpx or another, depending on the version, with its own errors.
    except Exception as error:
        raise _refusal(named, *explain_error(error)) from error
    return files


def _refusal(named: DataSetName, cause: str, cure: str) -> UserError:
    return UserError(option("input", unquote(named.url)), cause, cure)


def _list_named(
    named: DataSetName, info: "huggingface_hub.DatasetInfo", suffixes: Sequence[str]
) -> dict[str, int]:
    root = f"datasets/{named.data_set}@{info.sha}"
    if not named.path and not suffixes:
        return _list_parquet(named, info, _list_files(root))
    files = _list_files(f"{root}/{named.path}".rstrip("/"))
    if not files:
        cure = "Check the path; globs such as hf://datasets/a/b/*.jsonl work, quoted"
        raise _refusal(named, f"{named.data_set} has no such file", cure)
    if has_magic(named.path) or list(files) == [f"{SCHEME}{root}/{named.path}"]:
        return files
    return {path: files[path] for path in take_suffixes(named.url, list(files), suffixes)}


def _list_files(path: str) -> dict[str, int]:
    """List the files of a folder or glob in order, except those whose names start with a point."""
    hub = huggingface_hub.HfFileSystem()
    listed = hub.glob(path, detail=True) if has_magic(path) else hub.find(path, detail=True)
    return {
        f"{SCHEME}{name}": entry["size"]
        for name, entry in sorted(cast(dict[str, dict[str, Any]], listed).items())
        if entry["type"] == "file" and not PurePosixPath(name).name.startswith(".")
    }


def _list_parquet(
    named: DataSetName, info: "huggingface_hub.DatasetInfo", files: dict[str, int]
) -> dict[str, int]:
    """Choose the Parquet files of the train split of a data set with one configuration."""
    card: Any = info.card_data or {}
    configurations = [entry.get("config_name", "") for entry in card.get("configs") or []]
    parquet = {path: size for path, size in files.items() if path.endswith(".parquet")}
    name = named.url
    if not parquet:
        from huggingface_hub.errors import RevisionNotFoundError  # noqa: PLC0415  as above

        suffixes = ", ".join(sorted({PurePosixPath(path).suffix for path in files} - {""}))
        try:
            converted = named._replace(revision=CONVERTED).ask()
        except RevisionNotFoundError:
            cause = f"it has no Parquet files, and the hub made none of it (it has {suffixes})"
            raise _refusal(named, cause, f"Name files of it: {name}/*.jsonl") from None
        parquet = _list_files(f"datasets/{named.data_set}@{converted.sha}")
        configurations = sorted({path.split("@")[1].split("/")[1] for path in parquet})
    if len(configurations) > 1:
        cause = f"it has several configurations: {', '.join(configurations)}"
        cure = f"Name the files of one: {name}/path, where * stands for any name"
        raise _refusal(named, cause, cure)
    return _take_train(named, parquet)


def split_of(path: str) -> str | None:
    """Return the split that a path tells: the file's name first, then the folders from the inside.

    Example:
        "data/train-00000-of-00002.parquet" and "train/test/0.parquet" tell "train" and "test".
    """
    for name in reversed(PurePosixPath(path.lower()).parts):
        for word in re.split(r"[^a-z0-9]+", name):
            if word in _SPLITS:
                return _SPLITS[word]
    return None


def _take_train(named: DataSetName, files: dict[str, int]) -> dict[str, int]:
    """Return the files of the train split, or all files if no name tells a split."""
    splits = {path: split_of(path.partition("@")[2].partition("/")[2]) for path in files}
    if not any(splits.values()):
        return files
    train = {path: size for path, size in files.items() if splits[path] == "train"}
    if not train:
        others = ", ".join(sorted({split for split in splits.values() if split}))
        cause = f"it has files of the splits {others}, but none of a train split"
        raise _refusal(named, cause, "Name the files by their path or a glob")
    return train


# The names that users write, and the configurations of the data set that the article loads.
WIKITEXT = {"wikitext-2": "wikitext-2-raw-v1", "wikitext-103": "wikitext-103-raw-v1"}

REPOSITORY = "Salesforce/wikitext"
ROWS_AT_A_TIME = 8192


def fetch_wikitext(name: str, destination: str | Path) -> Path:
    """Download the train split of WikiText and write its rows as the lines of one text file.

    If the hub cannot be reached, its cache is used. Memory is bounded by a row group of the
    Parquet files.

    Args:
        name: one of `WIKITEXT`.
        destination: folder for the text; made if it is missing.

    Returns:
        The path of `wiki.train.tokens`, in which each row ends with one newline. It replaces an
        older file of that name once it is complete.

    Raises:
        UserError: neither the hub nor its cache has the files.
    """
    files = _parquet_files(name)
    path = Path(destination) / "wiki.train.tokens"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("w", encoding="utf-8", newline="\n") as text:
        for file in files:
            with pq.ParquetFile(file, pre_buffer=False) as parquet:
                for batch in parquet.iter_batches(batch_size=ROWS_AT_A_TIME, columns=["text"]):
                    rows = batch.column(0).to_pylist()
                    text.writelines(f"{(row or '').rstrip(chr(10))}\n" for row in rows)
    return partial.replace(path)


def _parquet_files(name: str) -> list[Path]:
    """Return the Parquet files of the train split in the hub's cache, in order."""
    pattern = f"{WIKITEXT[name]}/train-[0-9]*-of-[0-9]*.parquet"
    try:
        files = fetch_files(REPOSITORY, [pattern], "dataset")
        # "train-00000-of-00002.parquet" says how many files there are.
        if not files or len(files) != int(files[-1].stem.rpartition("-")[2]):
            names = ", ".join(file.name for file in files) or "none"
            raise FileNotFoundError(f"files matching {pattern} are incomplete, found: {names}")
    except Exception as error:  # the cure is the same for all of them
        raise UserError(
            f"{name} (the train split of {REPOSITORY} on the Hugging Face hub)",
            f"it cannot be downloaded ({describe_error(error)})",
            "Download it on a machine with access to the hub and pass the path of its text file",
        ) from error
    return files
