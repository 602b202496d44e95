"""The checks on opening a data set, before any of its rows is read."""

from collections.abc import Sequence
from typing import Any

from corpusmill.arrays.columns import ANY_LENGTH
from corpusmill.dataset.manifest import MANIFEST, Manifest, Shard
from corpusmill.dataset.storage import Folder, UrlFolder
from corpusmill.errors import UserError
from corpusmill.reading.cache.unpacking import DamagedError, damaged, fetch_parts

# A list of this many files takes one request to an object store. Of a larger data set each file is
# looked for when it is needed.
_MOST_LISTED = 1000


def open_folder(url: str, storage_options: dict[str, Any]) -> UrlFolder:
    """Return the folder at a URL. A path is made absolute, as the program may change folders."""
    folder = UrlFolder(url, storage_options)
    local = folder.local_path("")
    return folder if local is None else UrlFolder(str(local.absolute()))


def check_split(folder: Folder, manifest: Manifest, split: str) -> None:
    """Refuse a split that does not exist or has no rows."""
    if split not in manifest.splits or not manifest.splits[split].rows:
        filled = [name for name, entry in manifest.splits.items() if entry.rows]
        cause = f"{folder.url} has {', '.join(filled) or 'no examples'}"
        raise UserError(f'split="{split}"', cause, "Give one of these")


def check_length(manifest: Manifest, url: str, longest: int, max_length: int) -> None:
    """Refuse rows that are longer than a model allows."""
    if longest <= max_length:
        return
    cause = f"the longest example of {url} has {longest} tokens"
    cure = "Use a model with a larger limit, or build with a smaller --max-seq-length"
    if manifest.columns[0].width == ANY_LENGTH:
        cure = "Its rows are whole documents: cut windows with corpusmill.reading.token_windows"
    raise UserError(f"max_length={max_length}", cause, cure)


def check_present(folder: Folder, manifest: Manifest, shards: Sequence[Shard]) -> None:
    """Refuse a data set that lacks a file of a shard, or has one with another size.

    Of more than 1,000 files, none is looked for.
    """
    entries = manifest.entries
    if len(shards) * len(manifest.suffixes) > _MOST_LISTED:
        return
    present = folder.list()
    for shard in shards:
        for name in manifest.parts(shard.file):
            if name not in present:
                raise damaged(folder, name, f"{MANIFEST} lists it, but it is missing")
            if present[name] != entries[name].bytes:
                expected = f"{MANIFEST} says {entries[name].bytes:,}"
                raise damaged(folder, name, f"it has {present[name]:,} bytes, {expected}")


def find_damaged(folder: Folder, manifest: Manifest, shards: Sequence[Shard]) -> dict[str, str]:
    """Return the shards that are missing or differ from what was written, each with the cause.

    Raises:
        UserError: all of them are damaged, or a file exists but cannot be read now.
    """
    causes = {}
    for shard in shards:
        try:
            fetch_parts(folder, manifest, shard.file)
        except DamagedError as error:
            file = error.value.rpartition("/")[2]
            causes[shard.file] = f"{'' if file == shard.file else f'{file}: '}{error.cause}"
    if len(causes) == len(shards):
        first, cause = next(iter(causes.items()))
        cause = f"all of its {len(shards)} shards are damaged, such as {first} ({cause})"
        raise UserError(folder.url, cause, "Copy or build the data set again")
    return causes
