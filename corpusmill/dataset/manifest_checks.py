"""The checks of a manifest's entries beside one another; their types are checked when it is read.

A data set may come from anywhere, and its readers trust its manifest: ids are places in arrays,
types and widths are sizes in memory, names are files.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

import msgspec
import numpy as np

from corpusmill.arrays.columns import ANY_LENGTH, INTEGERS, NO_PAD, Column, Role, column_of
from corpusmill.dataset.manifest import TOKENIZER, Manifest, ObjectiveEntry, Shard, Split
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.tokenization.special_tokens import ROLES

# No row has more tokens, and no class more values.
_MOST_TOKENS, _MOST_CLASSES = 2**28, 2**16
# A data set may have several columns of these roles.
_REPEATED = {Role.TOKEN_VALUES, Role.CLASS, Role.VALUE}


def check_manifest(manifest: Manifest) -> None:
    """Refuse a manifest whose entries contradict one another.

    Raises:
        ValueError: they do.
        UserError: the options of the objective or of the output are not allowed.
    """
    _check_special_tokens(manifest)
    _check_objective(manifest.objective)
    check_columns(manifest.columns, manifest.tokenizer.vocab_size)
    for name, split in manifest.splits.items():
        _check_split(name, split)
    _check_files(manifest)
    _check_sources(manifest)


def check_known(entry: Mapping[str, Any], kind: type) -> None:
    """Refuse an entry with a name that a dataclass does not have.

    Raises:
        ValueError: it has one.
    """
    if unknown := entry.keys() - {field.name for field in fields(kind)}:
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}")


def _check_special_tokens(manifest: Manifest) -> None:
    tokenizer = manifest.tokenizer
    special, size = tokenizer.special, tokenizer.vocab_size
    named = [name for name, _ in special.roles]
    if _has_repeated(named):
        raise ValueError(f"the roles of special tokens {', '.join(named)}")
    roles = {token for _, token in special.roles}
    roles |= {getattr(special, f"{role}_id") for role in ROLES}
    for token in sorted({*special.all_ids, *roles} - {None}):
        if not 0 <= token < size:
            raise ValueError(f"the special token {token}, with a vocabulary of {size}")
    if not roles - {None} <= {*special.all_ids}:
        raise ValueError("the special tokens, which are not all in all_ids")
    if len({*special.all_ids}) == size:
        raise ValueError("the special tokens, beside which the vocabulary has no others")
    if tokenizer.file != TOKENIZER:
        raise ValueError(f"the tokenizer's file {tokenizer.file!r}")


def _check_objective(entry: ObjectiveEntry) -> None:
    """Check the options of an objective, unless its package is not installed."""
    if entry.name in OBJECTIVES:
        kind = OBJECTIVES[entry.name]
        msgspec.convert(dict(entry.options), kind)
        check_known(entry.options, kind)


def check_columns(columns: Sequence[Column], vocab_size: int) -> None:
    """Refuse columns that could not be verified, read or shown.

    Raises:
        ValueError: a column has a name, a type, a width or values that its role does not allow, or
            columns contradict one another.
    """
    for column in columns:
        _check_column(column)
        if column.role in {Role.TOKEN_IDS, Role.PREDICTED_IDS, Role.TARGET_IDS}:
            _check_holds(column, vocab_size - 1)
        if column.role.aligned_with:
            other = column_of(columns, column.role.aligned_with)
            if other is None or other.width != column.width:
                raise ValueError(f"the width of {column.name}, which is not that of other columns")
    names = [column.name for column in columns]
    roles = [column.role for column in columns if column.role not in _REPEATED]
    if (
        not columns
        or columns[0].role is not Role.TOKEN_IDS
        or _has_repeated(names)
        or _has_repeated(roles)
        or (Role.POSITIONS in roles) != (Role.PREDICTED_IDS in roles)
    ):
        raise ValueError(f"the columns {', '.join(names)}")


def _has_repeated(values: Collection[str]) -> bool:
    return len(set(values)) < len(values)


def _check_column(column: Column) -> None:
    name = column.name
    if not (name.isascii() and name.isidentifier() and name[0] != "_"):
        raise ValueError(f"the column {name!r}")
    if column.dtype not in INTEGERS:
        raise ValueError(f"the type {column.dtype!r} of {name}")
    if not ANY_LENGTH <= column.width <= _MOST_TOKENS:
        raise ValueError(f"the width of {name}")
    if column.role in {Role.WINDOW, Role.FIRST_LENGTH, Role.SPANS}:
        raise ValueError(f"the role {column.role} of {name}, which is never stored")
    if column.role is not Role.VALUE and (column.role is Role.CLASS) == bool(column.width):
        raise ValueError(f"the role {column.role} of {name}, with its width")
    bounds = (column.smallest, column.smallest if column.largest is None else column.largest)
    padding = () if column.pad == NO_PAD or not column.width else (column.pad,)
    _check_holds(column, *bounds, *padding)
    if bounds[0] > bounds[1]:
        raise ValueError(f"the smallest value of {name}, which is above its largest")
    if column.role is Role.CLASS:
        is_class = bounds[0] == 0 and column.largest is not None and bounds[1] < _MOST_CLASSES
        if not is_class or len(column.value_names) > bounds[1] + 1:
            raise ValueError(f"the values of {name}")
    texts = (column.meaning, column.title, column.feature, *column.value_names)
    if not all(text.isprintable() for text in texts):
        raise ValueError(f"a text of {name}")


def _check_holds(column: Column, *values: int) -> None:
    limits = np.iinfo(column.dtype)
    for value in values:
        if not limits.min <= value <= limits.max:
            raise ValueError(f"the type {column.dtype} of {column.name}, which lacks {value}")


def _check_split(name: str, split: Split) -> None:
    if not name.isidentifier():
        raise ValueError(f"the split {name!r}")
    if not split.shards:
        raise ValueError(f"the shards of {name}, of which there are none")
    for what in ("rows", "tokens"):
        if sum(getattr(shard, what) for shard in split.shards) != getattr(split, what):
            raise ValueError(f"the {what} of {name}, which are not those of its shards")
    if split.rows and "length" not in split.distributions:
        raise ValueError(f"the lengths of {name}")
    for kind, counts in split.distributions.items():
        if sum(counts.values()) != split.rows:
            raise ValueError(f"the distribution {kind} of {name}, which counts other rows")
    lengths = split.distributions.get("length", {})
    if sum(length * number for length, number in lengths.items()) != split.tokens:
        raise ValueError(f"the lengths of {name}, which add up to other tokens")
    for shard in split.shards:
        _check_bin(shard)


def _check_sources(manifest: Manifest) -> None:
    names = [source.name for source in manifest.corpus.sources]
    if _has_repeated(names):
        raise ValueError(f"the sources {', '.join(names)}")
    for split in manifest.splits.values():
        for shard in split.shards:
            if shard.source not in names and (names or shard.source is not None):
                raise ValueError(f"the source of {shard.file}")


def _check_bin(shard: Shard) -> None:
    number, smallest, largest = shard.bin, shard.min_length, shard.max_length
    if number is smallest is largest is None:
        return
    if number is None or smallest is None or largest is None or smallest > largest:
        raise ValueError(f"the length bin of {shard.file}")


def _check_files(manifest: Manifest) -> None:
    """Every file of every shard must be listed."""
    output, entries = manifest.output, manifest.entries
    if output.format != output.options.output_format:
        raise ValueError(f"the format {output.format!r}")
    shard_format = output.shard_format
    if None in {output.options.padding, output.options.compression}:
        raise ValueError("the padding or the compression, which is not known")
    shard_format.resolve(output.options, manifest.columns)
    shards = [shard.file for split in manifest.splits.values() for shard in split.shards]
    if len(entries) != len(manifest.files) + len(shards):
        raise ValueError("two entries of one file")
    if len(manifest.suffixes) == 1:  # each shard is its own only file
        return
    for part in (part for shard in shards for part in manifest.parts(shard)):
        if part not in entries:
            raise ValueError(f"no entry of {part}")
