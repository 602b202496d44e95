"""What is looked at when a data set is opened, before any of its rows is read.

Nothing of a data set is ever executed. Names and numbers of its manifest are checked before they
become paths, types and sizes, as a data set may come from anywhere.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from corpusmill.arrays.columns import ANY_LENGTH
from corpusmill.dataset.manifest import MANIFEST, columns_of, listed_files, output_options_of
from corpusmill.dataset.shards import read_manifest
from corpusmill.dataset.storage import Folder
from corpusmill.errors import UserError
from corpusmill.formats.shard_formats import FORMATS
from corpusmill.reading.cache.unpacking import DamagedError, damaged, fetch_parts, shard_parts

Shards = tuple[Mapping[str, Any], ...]

_DTYPES = frozenset({"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"})
_COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# No place for a separator, a drive or a folder above.
_FILE = re.compile(r"[A-Za-z0-9_=+-][A-Za-z0-9._=+-]*")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def open_manifest(folder: Folder) -> dict[str, Any]:
    """The manifest of a data set that is complete, with nothing in it that could do harm.

    Raises:
        UserError: there is no data set, or not yet, or its manifest is damaged or of another
            version.
    """
    try:
        manifest = read_manifest(folder)
        for problem in _find_problems(manifest):
            raise ValueError(problem)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"no entry {error}" if isinstance(error, KeyError) else str(error)
        cause = f"an entry is missing, of a wrong kind or not allowed ({what})"
        cure = "Copy or build the data set again"
        raise UserError(f"{folder.url}/{MANIFEST}", cause, cure) from None
    return manifest


def _find_problems(manifest: Mapping[str, Any]) -> Iterator[str]:
    for column in manifest["columns"]:
        if not _COLUMN.fullmatch(column["name"]):
            yield f"the column {column['name']!r}"
        if column["dtype"] not in _DTYPES:
            yield f"the type {column['dtype']!r} of {column['name']}"
        if not (_is_number(column["width"], ANY_LENGTH) and _is_number(column["pad"], -2)):
            yield f"the width or the filling of {column['name']}"
    names = [column["name"] for column in manifest["columns"]]
    if len(set(names)) < len(names) or names[:1] != ["input_ids"]:
        yield f"the columns {', '.join(names)}"
    if not _is_number(manifest["tokenizer"]["vocab_size"], 1):
        yield "the tokenizer's vocab_size"
    if not _DIGEST.fullmatch(manifest["tokenizer"]["sha256"]):
        yield "the tokenizer's sha256"
    pad_id = manifest["tokenizer"]["special"]["pad_id"]
    if pad_id is not None and not _is_number(pad_id):
        yield "the tokenizer's pad_id"
    for name, split in manifest["splits"].items():
        yield from _find_problems_of_split(name, split)
    columns_of(manifest)
    yield from _find_unlisted(manifest)


def _find_problems_of_split(name: str, split: Mapping[str, Any]) -> Iterator[str]:
    for shard in split["shards"]:
        if not _FILE.fullmatch(shard["file"]):
            yield f"the name {shard['file']!r} of a shard"
        if not _DIGEST.fullmatch(shard["sha256"]):
            yield f"the sha256 of {shard['file']}"
        for of in ("rows", "tokens", "bytes"):
            if not _is_number(shard[of]):
                yield f"the {of} of {shard['file']}"
    if sum(shard["rows"] for shard in split["shards"]) != split["rows"]:
        yield f"the rows of {name}, which are not those of its shards"
    if not isinstance(split["distributions"]["length"], list):
        yield f"the lengths of {name}"


def _find_unlisted(manifest: Mapping[str, Any]) -> Iterator[str]:
    try:
        options = output_options_of(manifest)
    except UserError as error:
        yield str(error)
        return
    if options.output_format not in FORMATS:
        yield f"the format {options.output_format!r}"
        return
    listed = listed_files(manifest)
    for split in manifest["splits"].values():
        for shard in split["shards"]:
            for name in shard_parts(manifest, shard["file"]):
                entry = listed.get(name)
                if not (entry and _is_number(entry.bytes) and _DIGEST.fullmatch(entry.sha256)):
                    yield f"no entry of {name}"


def _is_number(value: object, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


def check_split(folder: Folder, manifest: Mapping[str, Any], split: str) -> None:
    """Refuse a split that is not there or has no rows."""
    splits = manifest["splits"]
    if split not in splits or not splits[split]["rows"]:
        has = ", ".join(name for name, of in splits.items() if of["rows"]) or "no example at all"
        raise UserError(f'split="{split}"', f"{folder.url} has {has}", "Give one that it has")


def check_length(manifest: Mapping[str, Any], url: str, longest: int, most: int) -> None:
    """Refuse rows that are longer than a model takes."""
    if longest <= most:
        return
    cause = f"the longest example of {url} has {longest} tokens"
    cure = "Give a model that takes them, or build with a smaller --max-seq-length"
    if manifest["columns"][0]["width"] == ANY_LENGTH:
        cure = "Its rows are whole documents: cut windows by corpusmill.reading.token_windows"
    raise UserError(f"max_length={most}", cause, cure)


def check_present(folder: Folder, manifest: Mapping[str, Any], shards: Shards) -> None:
    """Refuse a data set that lacks a file of a shard, or has one of another size."""
    present = folder.list()
    sizes = {entry["file"]: entry["bytes"] for entry in (*shards, *manifest["files"])}
    for shard in shards:
        for name in shard_parts(manifest, shard["file"]):
            if name not in present:
                raise damaged(folder, name, f"{MANIFEST} lists it, and it is missing")
            if name in sizes and present[name] != sizes[name]:
                cause = f"it has {present[name]:,} bytes, {MANIFEST} says {sizes[name]:,}"
                raise damaged(folder, name, cause)


def find_damaged(folder: Folder, manifest: Mapping[str, Any], shards: Shards) -> dict[str, str]:
    """Shards that are missing or have other bytes than were written, with why.

    Raises:
        UserError: all of them are, or a file is there and cannot be read now.
    """
    found = {}
    for shard in shards:
        try:
            fetch_parts(folder, manifest, shard["file"])
        except DamagedError as error:
            file = error.value.rpartition("/")[2]
            found[shard["file"]] = f"{'' if file == shard['file'] else f'{file}: '}{error.cause}"
    if len(found) == len(shards):
        first, cause = next(iter(found.items()))
        cause = f"all of its {len(shards)} shards are damaged, {first} first ({cause})"
        raise UserError(folder.url, cause, "Copy or build the data set again")
    return found
