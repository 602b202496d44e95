"""The manifest's bytes, and back: the JSON of `dataset.json`, with every entry checked."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from corpusmill.dataset.corpus_entry import CorpusEntry, Number
from corpusmill.dataset.manifest import MANIFEST, FileEntry, Manifest, Shard
from corpusmill.dataset.manifest_checks import check_known, check_manifest
from corpusmill.errors import UserError
from corpusmill.formats.options import OutputOptions
from corpusmill.plugins import MissingPackageError

FORMAT, FORMAT_VERSION = "corpusmill", 1

# The entries that are left out where there is nothing to say.
_OPTIONAL = (
    "tokenizer.words", "tokenizer.special.roles", "tokenizer.options.role_tokens",
    "objective.package", "objective.facts", "objective.preset", "output.package", "corpus.package",
    "corpus.filtering", "output.order", "corpus.sources",
    "provenance", "removals",
)  # fmt: skip

# A distribution with more values is written as a table of those that occur.
_LONGEST_LIST = 65536
# No row has more tokens.
_LARGEST_VALUE = 2**28
# What entries of wrong kinds may raise until each has been checked.
_REFUSALS = (
    LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError, UserError,
)  # fmt: skip


class _SplitEntry(msgspec.Struct):
    """A split as JSON has it, whose distributions are read by `_read_counts`."""

    rows: Number
    tokens: Number
    shards: tuple[Shard, ...]
    distributions: dict[str, Any]


class _LargeEntries(msgspec.Struct):
    """The entries with thousands of files, which are read straight from JSON."""

    splits: dict[str, _SplitEntry]
    corpus: CorpusEntry
    files: tuple[FileEntry, ...]


def to_json(manifest: Manifest) -> dict[str, Any]:
    """The manifest's entries as JSON has them.

    A distribution becomes a list of counts by value, or {"value": count} if there are values above
    65,535, few of which occur.
    """
    entries: dict[str, Any] = msgspec.to_builtins(manifest)
    padded = manifest.output.options.is_padded
    for entry, column in zip(entries["columns"], manifest.columns, strict=True):
        entry["type"] = str(column.arrow_field(padded).type)
    for path in _OPTIONAL:
        *places, name = path.split(".")
        entry = entries
        for place in places:
            entry = entry[place]
        if not entry.get(name):
            entry.pop(name, None)
    if manifest.provenance:
        own = entries["provenance"]
        own["generations"] = _leave_out_unknown(own["generations"])
    entries["corpus"]["files"] = _leave_out_unknown(entries["corpus"]["files"])
    for split in entries["splits"].values():
        split["shards"] = _leave_out_unknown(split["shards"])
        split["distributions"] = {
            name: _write_counts(counts) for name, counts in split["distributions"].items()
        }
    return {"format": FORMAT, "format_version": FORMAT_VERSION, **entries}


def _leave_out_unknown(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in entry.items() if value is not None} for entry in entries
    ]


def encode(manifest: Manifest) -> bytes:
    """The manifest's bytes: JSON that a person can read."""
    return (json.dumps(to_json(manifest), indent=1, ensure_ascii=False) + "\n").encode()


def seal(content: bytes) -> bytes:
    """The content of `_SUCCESS`, which makes a damaged manifest as visible as a damaged shard."""
    return f"{hashlib.sha256(content).hexdigest()}\n".encode()


def _write_counts(counts: dict[int, int]) -> list[int] | dict[str, int]:
    values = range(1 + max(counts, default=-1))
    if len(values) <= _LONGEST_LIST:
        return [counts.get(value, 0) for value in values]
    return {str(value): number for value, number in counts.items()}


def _read_counts(counts: Any) -> Any:
    """The counts of the values that occur; other kinds of entries are refused later."""
    if isinstance(counts, list):
        counts = dict(enumerate(counts))
    if not isinstance(counts, dict):
        return counts
    numbers = {int(value): number for value, number in counts.items() if number != 0}
    smallest, largest = min(numbers, default=0), max(numbers, default=0)
    if smallest < 0 or largest > _LARGEST_VALUE:
        raise ValueError(f"a distribution goes from {smallest} to {largest}")
    return dict(sorted(numbers.items()))


def decode(content: bytes, place: str) -> Manifest:
    """A manifest from its bytes, with every entry checked; a data set may come from anywhere.

    Args:
        content: of dataset.json.
        place: the data set's folder, for messages.

    Raises:
        UserError: it is not a manifest, is of another format version, or has an entry that is
            missing, of a wrong type or not allowed.
    """
    name = f"{place}/{MANIFEST}"
    try:
        # Unlike `json`, it refuses NaN and halves of characters, which nothing can print.
        raw = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        small = raw.keys() - set(_LargeEntries.__struct_fields__)
        entries = {key: msgspec.json.decode(raw[key]) for key in small}
    except msgspec.ValidationError:
        entries = {}  # it is JSON, but not an object
    except (ValueError, RecursionError) as error:
        raise UserError(name, f"it is not JSON ({error})", "Build the data set again") from None
    _check_version(entries, name)
    try:
        large = msgspec.json.decode(content, type=_LargeEntries)
        return from_json({**entries, **msgspec.structs.asdict(large)})
    except MissingPackageError as error:
        raise MissingPackageError(f"{place}: {error.value}", error.cause, error.cure) from None
    except _REFUSALS as error:
        problem = f"no entry {error}" if isinstance(error, KeyError) else str(error)
        cause = f"an entry is missing, of a wrong kind or not allowed ({problem})"
        raise UserError(name, cause, "Copy or build the data set again") from None


def _check_version(entries: Mapping[str, Any], name: str) -> None:
    if entries.get("format") != FORMAT:
        cause = "it is not a manifest of corpusmill"
        raise UserError(name, cause, "Give the folder that a build wrote")
    version = entries.get("format_version")
    if version == FORMAT_VERSION:
        return
    has = f"format version {version}" if version else "no format version"
    cause = f"it has {has}; this reads version {FORMAT_VERSION}"
    newer = isinstance(version, int) and version > FORMAT_VERSION
    older_cure = "Use the version of corpusmill that wrote it, or build it again"
    raise UserError(name, cause, "Update corpusmill" if newer else older_cure)


def from_json(entries: Mapping[str, Any]) -> Manifest:
    """A manifest from its entries; the opposite of `to_json`.

    Args:
        entries: as JSON has them; those of `_LargeEntries` may have their types already.

    Raises:
        ValueError: an entry is of a wrong type or not allowed (KeyError and others, where entries
            are of wrong kinds).
    """
    splits = msgspec.convert(entries["splits"], dict[str, _SplitEntry])
    read = {name: _read_distributions(split) for name, split in splits.items()}
    manifest = msgspec.convert({**entries, "splits": read}, Manifest)
    if not 0 <= manifest.seed < 2**64:
        raise ValueError(f"the seed {manifest.seed}")
    check_manifest(manifest)
    padded = manifest.output.options.is_padded
    types = [column["type"] for column in entries["columns"]]
    expected = [str(column.arrow_field(padded).type) for column in manifest.columns]
    if types != expected:
        raise ValueError(f"the columns' types {types}, which are not {expected}")
    check_known(entries["output"]["options"], OutputOptions)
    return manifest


def _read_distributions(split: _SplitEntry) -> dict[str, Any]:
    distributions = {name: _read_counts(counts) for name, counts in split.distributions.items()}
    return {**msgspec.structs.asdict(split), "distributions": distributions}
