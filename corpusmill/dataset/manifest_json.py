"""The manifest's bytes, and back: the JSON of `dataset.json`, whose entries are checked.

A data set may come from anywhere, and its readers trust its manifest: ids are places in arrays,
types and widths are sizes in memory, names are files. Types, bounds and names are declared where
the entries are (`corpusmill.dataset.manifest`); what one entry is to another is checked here, as
far as arrays and files depend on it.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import msgspec

from corpusmill.arrays.columns import check_columns
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.filters.functions import FilterOptions
from corpusmill.dataset.manifest import (
    CARD,
    MANIFEST,
    TOKENIZER,
    TOKENIZER_CONFIG,
    FileEntry,
    Manifest,
    Shard,
    TokenizerEntry,
)
from corpusmill.dataset.manifest_entries import CorpusEntry, Generation, Number
from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.plugins import MissingPackageError
from corpusmill.tokenization.tokenizer_file import ROLES, TokenizerOptions


def _check_bounds(manifest: Manifest) -> None:
    """Refuse a manifest by which something beside an array or outside the folder would be reached.

    Raises:
        ValueError: an id, a number of rows, a file or an option is not allowed.
        UserError: the options of the objective or of the output are not allowed.
    """
    if not 0 <= manifest.seed < 2**64:
        raise ValueError(f"the seed {manifest.seed}")
    _check_special_tokens(manifest.tokenizer)
    check_columns(manifest.columns, manifest.tokenizer.vocab_size)
    _check_options(manifest)
    for name, split in manifest.splits.items():
        if not name.isidentifier():
            raise ValueError(f"the split {name!r}")
        if sum(shard.rows for shard in split.shards) != split.rows:
            raise ValueError(f"the rows of {name}, which are not those of its shards")
    _check_files(manifest)


def _check_special_tokens(tokenizer: TokenizerEntry) -> None:
    special, size = tokenizer.special, tokenizer.vocab_size
    roles = {token for _, token in special.roles}
    roles |= {getattr(special, f"{role}_id") for role in (*ROLES, "bos")}
    roles |= {*(special.before or ()), *(special.after or ())}
    for token in sorted({*special.all_ids, *roles} - {None}):
        if not 0 <= token < size:
            raise ValueError(f"the special token {token}, with a vocabulary of {size}")
    if len({*special.all_ids}) == size:
        raise ValueError("the special tokens, beside which the vocabulary has no others")


def _check_options(manifest: Manifest) -> None:
    """Check all options, as the command line does, unless the package of one is not installed."""
    objective, corpus = manifest.objective, manifest.corpus
    _ = objective.bounds_of_text
    own = [source.options for source in corpus.sources if source.options]
    groups: list[tuple[type, Mapping[str, Any]]] = [
        (DocumentOptions, corpus.options),
        (FilterOptions, corpus.filtering.options if corpus.filtering else {}),
        (TokenizerOptions, manifest.tokenizer.options),
        *((DocumentOptions, {**corpus.options, **options}) for options in own),
    ]
    if objective.name in OBJECTIVES:
        groups.append((OBJECTIVES[objective.name], objective.options))
    for kind, options in groups:
        msgspec.convert(dict(options), kind)
        _check_known(options, kind)


def _check_known(entry: Mapping[str, Any], kind: type) -> None:
    """Refuse options that a dataclass does not have, as those of a newer version."""
    if unknown := entry.keys() - {field.name for field in fields(kind)}:
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}")


def _check_files(manifest: Manifest) -> None:
    output = manifest.output
    if output.format != output.options.output_format:
        raise ValueError(f"the format {output.format!r}")
    output.shard_format.resolve(output.options, manifest.columns)
    small = {CARD, TOKENIZER, TOKENIZER_CONFIG, *output.shard_format.companion_names}
    if others := sorted(manifest.copies.keys() - small):
        raise ValueError(f"the copy {others[0]}, which no data set has")


def _check_layout(manifest: Manifest, generation: Generation) -> None:
    """Check that the files and ids of a part of the data set are within its corpus and 64 bits."""
    layout, files = generation.layout, len(manifest.corpus.files)
    starts = [source.first_document for source in layout.sources]
    firsts = [generation.first_file_of(source) for source in range(len(starts))]
    ids = (layout.seed, *starts, *layout.firsts)
    if not all(0 <= number < 2**64 for number in ids) or generation.first_file > files:
        raise ValueError("a number of a layout, which has more than 64 bits")
    if not all(file < files for file in firsts):
        raise ValueError("the first file of a source, which the corpus does not have")


FORMAT, FORMAT_VERSION = "corpusmill", 2
# The manifest holds the digest of its own bytes, with zeros in the digest's place.
_DIGEST = re.compile(
    rb'(\A\{\s*"format": "corpusmill",\s*"format_version": \d+,\s*"sha256": ")[0-9a-f]{64}'
)
_ZEROS = b"0" * 64

# The entries that are left out where there is nothing to say.
_OPTIONAL = (
    "corpus.filtering.near_duplicates",
    "tokenizer.words", "tokenizer.special.roles", "tokenizer.options.role_tokens",
    "objective.package", "objective.facts", "objective.preset", "output.package", "corpus.package",
    "corpus.filtering", "output.order", "corpus.sources",
    "provenance", "removals", "first_reject", "near_pairs",
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
            entry = entry.get(place) or {}
        if not entry.get(name):
            entry.pop(name, None)
    special = entries["tokenizer"]["special"]
    for name in ("bos_id", "before", "after"):  # an id may be 0, and () says something
        if special.get(name) is None:
            special.pop(name, None)
    if manifest.provenance:
        own = entries["provenance"]
        own["generations"] = _leave_out_unknown(own["generations"])
    for name in {"files", "sources"} & entries["corpus"].keys():
        entries["corpus"][name] = _leave_out_unknown(entries["corpus"][name])
    for split in entries["splits"].values():
        split["shards"] = _leave_out_unknown(split["shards"])
        split["distributions"] = {
            name: _write_counts(counts) for name, counts in split["distributions"].items()
        }
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "sha256": _ZEROS.decode(),
        **entries,
    }


def _leave_out_unknown(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in entry.items() if value is not None} for entry in entries
    ]


def encode(manifest: Manifest) -> bytes:
    """The manifest's bytes: JSON that a person can read."""
    return seal((json.dumps(to_json(manifest), indent=1, ensure_ascii=False) + "\n").encode())


def seal(content: bytes) -> bytes:
    """The manifest's bytes with their digest, by which a damaged manifest is as visible as a shard.

    Args:
        content: the bytes, with any digest.
    """
    blank = _DIGEST.sub(rb"\g<1>" + _ZEROS, content, count=1)
    digest = hashlib.sha256(blank).hexdigest().encode()
    return _DIGEST.sub(rb"\g<1>" + digest, blank, count=1)


def is_sealed(content: bytes) -> bool:
    """Whether a manifest's bytes have the digest that they state, if they state one."""
    return seal(content) == content


class DamagedManifestError(UserError):
    """The bytes of a manifest are not those that were written."""


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
        DamagedManifestError: it is not as it was written.
        UserError: it is not a manifest, is of another format version, states no digest of its own,
            or has an entry that is missing, of a wrong type or not allowed.
    """
    name = f"{place}/{MANIFEST}"
    if not is_sealed(content):
        cause = f"its {len(content):,} bytes do not have the sha256 that they state"
        cure = "Copy the data set again, or build it in another folder"
        raise DamagedManifestError(name, cause, cure)
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
    if not _DIGEST.match(content):
        cause = "it does not state the sha256 of its own bytes"
        raise UserError(name, cause, "Copy or build the data set again")
    try:
        large = msgspec.json.decode(content, type=_LargeEntries)
        manifest = from_json({**entries, **msgspec.structs.asdict(large)})
        # What is added to a data set begins after files that its own manifest does not have.
        for generation in manifest.provenance.generations if manifest.provenance else ():
            _check_layout(manifest, generation)
        return manifest
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
    read: dict[str, Any] = {}
    for name, split in msgspec.convert(entries["splits"], dict[str, _SplitEntry]).items():
        counts = {kind: _read_counts(values) for kind, values in split.distributions.items()}
        read[name] = {**msgspec.structs.asdict(split), "distributions": counts}
    manifest = msgspec.convert({**entries, "splits": read}, Manifest)
    _check_bounds(manifest)
    _check_known(entries["output"]["options"], OutputOptions)
    return manifest
