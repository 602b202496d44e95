"""The manifest `dataset.json`: what a data set is, what it was made from, and what it must contain.

It holds no time, host or path of the run, so that the same input, options and seed give the same
manifest.

    {"format": "corpusmill", "format_version": 2, "objective": {"name": "bert", "options": {...}},
     "seed": 1, "tokenizer": {...}, "columns": [...], "corpus": {...},
     "counts": {"read.documents": 9, ...},
     "splits": {"train": {"rows": 7, "tokens": 900, "distributions": {"length": [...], ...},
     "shards": [{"file": "train-00000-of-00001.parquet", "rows": 7, "tokens": 900, "bytes": 5021,
     "sha256": "..."}]}},
     "files": [{"file": "tokenizer.json", "bytes": 12, "sha256": "..."}, ...]}
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from corpusmill.arrays.columns import Column
from corpusmill.errors import UserError
from corpusmill.formats import shard_names
from corpusmill.formats.options import OutputOptions
from corpusmill.tokenization.special_tokens import SpecialTokens

MANIFEST, SUCCESS, CARD, TOKENIZER, REJECTS = (
    "dataset.json",
    "_SUCCESS",
    "README.md",
    "tokenizer.json",
    "rejects/rejects.jsonl",
)
FORMAT, FORMAT_VERSION = "corpusmill", 2

_LONGEST_LIST = 65536

# More than any row has tokens; what a manifest from anywhere says must not fill the memory.
_LARGEST_VALUE = 2**28


@dataclass(frozen=True)
class FileEntry:
    """A file of the data set and what its bytes must be.

    Attributes:
        file: name relative to the data set's folder.
        bytes: its size.
        sha256: hexadecimal digest of its bytes.
    """

    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class ShardEntry(FileEntry):
    """A shard and what it must contain.

    Attributes:
        rows: number of examples.
        tokens: sum of their lengths.
        bin: number of its range of lengths; this and the next two are None where lengths are mixed.
        min_length: tokens of the shortest example that the bin may hold.
        max_length: tokens of the longest one.
    """

    rows: int
    tokens: int
    bin: int | None = None
    min_length: int | None = None
    max_length: int | None = None

    def describe(self) -> dict[str, Any]:
        """The manifest's entry of the shard."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def shard_name(split: str, number: int, of: int, suffix: str, pattern: str | None = None) -> str:
    """The final name of a shard: train-00003-of-00008.parquet.

    Args:
        split: "train" or "validation".
        number: of the shard in its split, from 0.
        of: shards of the split.
        suffix: of the file.
        pattern: of the whole name; None for the usual one.
    """
    return shard_names.fill(pattern or shard_names.DEFAULT + suffix, split, number, of)


def bin_name(split: str, length_bin: int, of: int) -> str:
    """What the names of a bin's shards begin with, in place of the split's: train-bin-02-of-08."""
    return f"{split}-bin-{length_bin:02d}-of-{of:02d}"


def encode(manifest: Mapping[str, Any]) -> bytes:
    """The manifest's bytes: JSON that a person can read, keys in the order given.

    A distribution of values above 65,535, of which few occur, is written as {"value": number}.
    """
    splits = {
        name: {**split, "distributions": _map_values(_shorten, split["distributions"])}
        for name, split in manifest["splits"].items()
    }
    whole = {**manifest, "splits": splits}
    return (json.dumps(whole, indent=1, ensure_ascii=False) + "\n").encode()


def _map_values(change: Callable[[Any], Any], of: Mapping[str, Any]) -> dict[str, Any]:
    return {name: change(value) for name, value in of.items()}


def _shorten(counts: list[int]) -> list[int] | dict[str, int]:
    if len(counts) <= _LONGEST_LIST:
        return counts
    return {str(value): number for value, number in enumerate(counts) if number}


def _lengthen(counts: list[int] | dict[str, int]) -> list[int]:
    if isinstance(counts, list):
        return counts
    longest = max(map(int, counts))
    if longest > _LARGEST_VALUE:
        raise ValueError(f"a distribution goes up to {longest}")
    numbers = [0] * (1 + longest)
    for value, number in counts.items():
        numbers[int(value)] = number
    return numbers


def decode(content: bytes, place: str) -> dict[str, Any]:
    """A manifest from its bytes.

    Args:
        content: of dataset.json.
        place: the data set's folder, for messages.

    Raises:
        UserError: no manifest, or of another format version.
    """
    try:
        manifest = json.loads(content)
    except ValueError as error:
        raise UserError(
            f"{place}/{MANIFEST}", f"it is not JSON ({error})", "Build the data set again"
        ) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise UserError(
            f"{place}/{MANIFEST}",
            "it is no corpusmill manifest",
            "Give the folder that a build wrote",
        )
    if (found := manifest.get("format_version")) != FORMAT_VERSION:
        newer = isinstance(found, int) and found > FORMAT_VERSION
        raise UserError(
            f"{place}/{MANIFEST}",
            f"it has {f'format version {found}' if found else 'no format version'}; this reads "
            f"{FORMAT_VERSION}",
            "Update corpusmill"
            if newer
            else "Use the version of corpusmill that wrote it, or build it again",
        )
    for split in manifest["splits"].values():
        split["distributions"] = _map_values(_lengthen, split["distributions"])
    return manifest


def describe_columns(columns: Iterable[Column], padded: bool) -> list[dict[str, Any]]:
    """The manifest's entry of each column."""
    return [{**asdict(of), "type": str(of.arrow_field(padded).type)} for of in columns]


def columns_of(manifest: Mapping[str, Any]) -> tuple[Column, ...]:
    """The columns of the shards."""
    names = [field.name for field in fields(Column)]
    return tuple(Column(**{name: of[name] for name in names}) for of in manifest["columns"])


def output_options_of(manifest: Mapping[str, Any]) -> OutputOptions:
    """How the shards were written."""
    return OutputOptions(**manifest["output"]["options"])


def special_tokens_of(manifest: Mapping[str, Any]) -> SpecialTokens:
    """The special ids that a manifest lists."""
    special = dict(manifest["tokenizer"]["special"])
    return SpecialTokens(**{**special, "all_ids": tuple(special["all_ids"])})


def listed_files(manifest: Mapping[str, Any]) -> dict[str, FileEntry]:
    """Every file that the manifest vouches for, by name; shards as ShardEntry."""
    entries: list[FileEntry] = [FileEntry(**entry) for entry in manifest["files"]]
    for split in manifest["splits"].values():
        entries += [ShardEntry(**shard) for shard in split["shards"]]
    return {entry.file: entry for entry in entries}
