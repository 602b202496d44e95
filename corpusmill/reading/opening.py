"""What is looked at when a data set is opened, before any of its rows is read.

Nothing of a data set is ever executed. Names and numbers of its manifest are checked before they
become paths, types and sizes, as a data set may come from anywhere.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from corpusmill.columns import ANY_LENGTH
from corpusmill.faults import UserError
from corpusmill.formats.table import FORMATS
from corpusmill.manifest import (
    MANIFEST,
    TOKENIZER,
    columns_of,
    listed_files,
    output_options_of,
)
from corpusmill.reading.unpacking import DamagedError, damaged, fetch_parts, shard_parts
from corpusmill.shards import read_manifest
from corpusmill.storage import Folder

Shards = tuple[Mapping[str, Any], ...]

_DTYPES = frozenset({"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"})
_COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# No place for a separator, a drive or a folder above.
_FILE = re.compile(r"[A-Za-z0-9_=+-][A-Za-z0-9._=+-]*")
_DIGEST = re.compile(r"[0-9a-f]{64}")

_ROLES = ("cls", "sep", "mask", "pad", "unk", "eos")


class Vocabulary(Protocol):
    """What a tokenizer is known by, as those of `transformers` and `tokenizers` say it."""

    def get_vocab(self) -> dict[str, int]:
        """Each token's id, added tokens included."""


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


def check_tokenizer(
    folder: Folder, manifest: Mapping[str, Any], tokenizer: str | Path | Vocabulary
) -> None:
    """Refuse a tokenizer that gives tokens other ids than the data's.

    Args:
        folder: of the data set.
        manifest: its manifest.
        tokenizer: a tokenizer.json, a folder that has one, or a tokenizer of `transformers` or
            `tokenizers`. It may have further tokens.

    Raises:
        UserError: it is none, or another one.
    """
    if isinstance(tokenizer, str | Path):
        value, content = f"tokenizer={tokenizer}", _read_tokenizer(Path(tokenizer))
        if hashlib.sha256(content).hexdigest() == manifest["tokenizer"]["sha256"]:
            return
        given = _vocabulary_of(content, value)
    else:
        value = f"tokenizer={type(tokenizer).__name__}"
        if not hasattr(tokenizer, "get_vocab"):
            cause = "it has no get_vocab(), by which tokenizers are compared"
            raise UserError(value, cause, "Give a tokenizer of transformers, or a tokenizer.json")
        given = tokenizer.get_vocab()
    difference = _compare(_read_own_vocabulary(folder, manifest), given)
    difference = difference or _compare_special(manifest["tokenizer"]["special"], tokenizer)
    if difference:
        cause = f"the data was made with another tokenizer: {difference}"
        raise UserError(value, cause, f"Give the {TOKENIZER} of {folder.url}")


def _read_tokenizer(path: Path) -> bytes:
    try:
        return (path / TOKENIZER if path.is_dir() else path).read_bytes()
    except OSError as error:
        cause = f"it cannot be read ({error.strerror})"
        raise UserError(f"tokenizer={path}", cause, f"Give a {TOKENIZER}") from None


def _read_own_vocabulary(folder: Folder, manifest: Mapping[str, Any]) -> dict[str, int]:
    try:
        content = folder.read(TOKENIZER)
    except OSError as error:
        raise damaged(folder, TOKENIZER, f"it cannot be read ({error})") from None
    if hashlib.sha256(content).hexdigest() != manifest["tokenizer"]["sha256"]:
        raise damaged(folder, TOKENIZER, f"its bytes are not those that {MANIFEST} vouches for")
    return _vocabulary_of(content, f"{folder.url}/{TOKENIZER}")


def _vocabulary_of(content: bytes, value: str) -> dict[str, int]:
    from tokenizers import Tokenizer  # noqa: PLC0415  takes a while, and few need it

    try:
        found: dict[str, int] = Tokenizer.from_str(content.decode()).get_vocab()
    except Exception as error:  # the library raises plain Exception
        cause = f"it is no {TOKENIZER} ({error})"
        raise UserError(value, cause, f"Give the {TOKENIZER} of the data set") from None
    return found


def _compare(own: Mapping[str, int], given: Mapping[str, int]) -> str:
    """How two vocabularies differ, as a clause; empty where each token of `own` has its id."""
    for token, number in sorted(own.items(), key=lambda item: item[1]):
        if given.get(token) != number:
            there = f"is {given[token]} in it" if token in given else "is not in it"
            return f"{token!r}, which is {number} in the data, {there}"
    return ""


def _compare_special(special: Mapping[str, Any], tokenizer: object) -> str:
    for role in _ROLES:
        own, given = special.get(f"{role}_id"), getattr(tokenizer, f"{role}_token_id", None)
        if own is not None and given is not None and own != given:
            return f"its {role}_token_id is {given}, the data's {own}"
    return ""


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
