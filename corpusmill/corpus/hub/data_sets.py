"""Files of data sets on the Hugging Face hub, by name: `hf://datasets/organization/name`.

The hub's endpoint, token and offline mode are those of huggingface_hub (HF_ENDPOINT, HF_TOKEN or a
login, HF_HUB_OFFLINE). Files are listed at one commit, which their paths name, and are read where
they lie.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from glob import has_magic
from pathlib import PurePosixPath
from typing import Any, BinaryIO, NamedTuple, cast
from urllib.parse import unquote

from huggingface_hub import DatasetInfo, HfApi, HfFileSystem
from huggingface_hub.errors import (
    GatedRepoError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from corpusmill.corpus.input_formats import take_suffixes
from corpusmill.errors import UserError
from corpusmill.hub import TIMEOUT_SECONDS, describe_error, first_line

SCHEME = "hf://"
# Where the hub keeps what it has made Parquet of.
CONVERTED = "refs/convert/parquet"
# Bytes that are asked for at a time.
_BLOCK_BYTES = 4 * 2**20

_NAME = re.compile(
    r"hf://datasets/(?P<data_set>[^/@]+/[^/@]+)"
    r"(?:@(?P<revision>refs/(?:convert|pr)/[^/]+|[^/]+))?(?:/(?P<path>.*))?"
)
# As the datasets library tells splits by names.
_SPLITS = {
    "train": "train", "training": "train", "test": "test", "testing": "test", "eval": "test",
    "evaluation": "test", "validation": "validation", "valid": "validation", "dev": "validation",
    "val": "validation",
}  # fmt: skip


class _Named(NamedTuple):
    """What the user named."""

    given: str
    data_set: str
    revision: str | None
    path: str


def is_hub_path(path: str) -> bool:
    """Whether a path is of the hub."""
    return path.startswith(SCHEME)


def open_hub_file(path: str) -> BinaryIO:
    """Open a file for reading from any place; it is fetched in blocks of 4 MiB as it is read.

    Args:
        path: as `list_hub_files` gives it.
    """
    # Each process and thread has a filesystem of its own; the client gives a forked process new
    # connections.
    return cast(BinaryIO, HfFileSystem().open(path, "rb", block_size=_BLOCK_BYTES))


def list_hub_files(given: str, suffixes: Sequence[str] = ()) -> dict[str, int]:
    """The files that a name on the hub stands for, and their bytes.

    Args:
        given: `hf://datasets/organization/name`, perhaps with `@revision`, and with the path of a
            file or folder, or a glob. Without path and suffixes it stands for the data set's
            Parquet files, or else those that the hub has made of it; and of these for the train
            split, where names tell splits.
        suffixes: of the files of a folder or a whole data set that are taken.

    Returns:
        Paths with the commit as their revision: they stand for the same bytes at any later time.

    Raises:
        UserError: the hub, the data set or the file cannot be had, or which files are meant is
            not clear.
    """
    found = _NAME.fullmatch(given.rstrip("/"))
    if not found:
        cure = "Write hf://datasets/organization/name, then @revision and /path where you need them"
        raise UserError(f"--input {given}", "it names no data set of the hub", cure)
    revision = unquote(found["revision"]) if found["revision"] else None
    named = _Named(given, found["data_set"], revision, found["path"] or "")
    with _explain_errors(given):
        files = _list_named(named, suffixes)
        first = next((path for path, size in files.items() if size), None)
        if first:  # whoever may list a data set need not be allowed to read it
            with HfFileSystem().open(first, "rb", cache_type="none") as stream:
                stream.read(1)
    return files


def _list_named(named: _Named, suffixes: Sequence[str]) -> dict[str, int]:
    info = HfApi().dataset_info(named.data_set, revision=named.revision, timeout=TIMEOUT_SECONDS)
    root = f"datasets/{named.data_set}@{info.sha}"
    if not named.path and not suffixes:
        return _list_parquet(named, info, _find(root))
    files = _find(f"{root}/{named.path}".rstrip("/"))
    if not files:
        cure = "Check the path; globs such as hf://datasets/a/b/*.jsonl work, quoted"
        raise UserError(f"--input {named.given}", f"{named.data_set} has no such file", cure)
    if has_magic(named.path) or list(files) == [f"{SCHEME}{root}/{named.path}"]:
        return files
    return {path: files[path] for path in take_suffixes(named.given, list(files), suffixes)}


def _find(path: str) -> dict[str, int]:
    """Files of a folder or glob, in order; none whose name starts with a point."""
    hub = HfFileSystem()
    listed = hub.glob(path, detail=True) if has_magic(path) else hub.find(path, detail=True)
    return {
        f"{SCHEME}{name}": of["size"]
        for name, of in sorted(cast(dict[str, dict[str, Any]], listed).items())
        if of["type"] == "file" and not PurePosixPath(name).name.startswith(".")
    }


def _list_parquet(named: _Named, info: DatasetInfo, files: dict[str, int]) -> dict[str, int]:
    """The train split's Parquet files of a data set of one configuration."""
    card: Any = info.card_data or {}
    configurations = [of.get("config_name", "") for of in card.get("configs") or []]
    parquet = {path: size for path, size in files.items() if path.endswith(".parquet")}
    if not parquet:
        suffixes = ", ".join(sorted({PurePosixPath(path).suffix for path in files} - {""}))
        try:
            converted = HfApi().dataset_info(
                named.data_set, revision=CONVERTED, timeout=TIMEOUT_SECONDS
            )
        except RevisionNotFoundError:
            cause = f"it has no Parquet files, and the hub made none of it (it has {suffixes})"
            cure = f"Name files of it: {named.given.rstrip('/')}/*.jsonl"
            raise UserError(f"--input {named.given}", cause, cure) from None
        root = f"datasets/{named.data_set}@{converted.sha}"
        parquet = _find(root)
        configurations = sorted({path.split("@")[1].split("/")[1] for path in parquet})
    if len(configurations) > 1:
        cause = f"it has several configurations: {', '.join(configurations)}"
        cure = f"Name the files of one: {named.given.rstrip('/')}/path, where * stands for any name"
        raise UserError(f"--input {named.given}", cause, cure)
    return take_train(named.given, parquet)


def split_of(path: str) -> str | None:
    """The split that the names of a file and its folders tell, the file's own before those around.

    Example:
        "data/train-00000-of-00002.parquet" and "train/test/0.parquet" tell "train" and "test".
    """
    for name in reversed(PurePosixPath(path.lower()).parts):
        for word in re.split(r"[^a-z0-9]+", name):
            if word in _SPLITS:
                return _SPLITS[word]
    return None


def take_train(given: str, files: dict[str, int]) -> dict[str, int]:
    """The files of the train split; all of them where no name tells a split.

    Args:
        given: the data set, as the user named it.
        files: bytes by path.

    Raises:
        UserError: names tell splits, and none tells train.
    """
    splits = {path: split_of(path.partition("@")[2].partition("/")[2]) for path in files}
    if not any(splits.values()):
        return files
    train = {path: size for path, size in files.items() if splits[path] == "train"}
    if not train:
        others = ", ".join(sorted({of for of in splits.values() if of}))
        cause = f"none of its files is of a train split, but of {others}"
        raise UserError(f"--input {given}", cause, "Name the files by their path or a glob")
    return train


@contextmanager
def _explain_errors(given: str) -> Iterator[None]:
    """Make a user's error of what the hub's client raises."""
    login = "with a token in HF_TOKEN or after `hf auth login`"
    try:
        yield
    except UserError:
        raise
    except GatedRepoError:
        cause, cure = "it is gated", f"Accept its terms on the hub, and run again {login}"
    except RepositoryNotFoundError:
        cause = "the hub has no such data set, or you may not see it"
        cure = f"Check the name; a private one is read {login}"
    except RevisionNotFoundError:
        cause, cure = "the data set has no such revision", "Give a branch, a tag or a commit of it"
    except HFValidationError as error:
        cause, cure = f"it is no name of a data set ({first_line(error)})", "Check the name"
    except OfflineModeIsEnabled:
        cause, cure = "the hub's offline mode is on", "Unset HF_HUB_OFFLINE, or give local files"
    # Its transport is requests, httpx or another, by its version, and has errors of its own.
    except Exception as error:
        cause = f"the hub cannot be read ({describe_error(error)})"
        cure = "Check the network, or download the files elsewhere and give their folder"
        raise UserError(f"--input {given}", cause, cure) from error
    else:
        return
    raise UserError(f"--input {given}", cause, cure) from None
