"""How shards are written, the options that all file formats share; and the names of shards.

A name is a pattern with {split}, {shard} and {shards}. Google's ELECTRA reads files named
"pretrain_data.tfrecord-{shard}-of-{shards}", numbered from 0 and without leading zeros.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from string import Formatter
from typing import Annotated, Literal

from corpusmill.errors import UserError, option
from corpusmill.settings.constraints import CheckedOptions, Range

Padding = Literal["max_length", "do_not_pad"]
Compression = Literal["zstd", "snappy", "gzip", "deflate", "none"]


@dataclass(frozen=True)
class OutputOptions(CheckedOptions):
    """How shards are written."""

    output_format: str = "parquet"
    """The file format of the shards: "tfrecord" as Google's trainers read it; "megatron"
    (Megatron-LM's .bin and .idx) and "nanogpt" (its train.bin and val.bin), both for `gpt --mode
    stream` only; "mds" as MosaicML's streaming reads it; "ernie-text", the gzip text of ERNIE's own
    trainer, for `ernie` only. Installed packages may add formats."""
    padding: Padding | None = None
    """"max_length" pads every list to its full width; with "do_not_pad" rows keep their own
    lengths. The default is what the trainers that read the format expect."""
    compression: Compression | None = None
    """Codec; the default depends on the format."""
    compression_level: Annotated[int | None, Range(1, 22)] = None
    """Level of the codec: 1 to 22 for zstd (default 1; levels above 3 gain little on token ids), 1
    to 9 for gzip and deflate (default 6; 4 for ernie-text)."""
    shard_name: str | None = None
    """Pattern of the shards' names, with {shard}, {shards} and {split}; {shard:05d} has five
    digits. The default is "{split}-{shard:05d}-of-{shards:05d}" and the format's suffix; Google's
    ELECTRA reads "pretrain_data.tfrecord-{shard}-of-{shards}"."""

    @property
    def is_padded(self) -> bool:
        """Whether rows are padded; meaningful once the padding is not None."""
        return self.padding == "max_length"

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: no codec has the level, or the pattern does not name shards.
        """
        super().__post_init__()
        if self.shard_name is not None:
            for cause, cure in _find_faults(self.shard_name):
                raise UserError(f"{_FLAG} {self.shard_name}", cause, cure)


# The pattern of the names of shards by default.
DEFAULT_NAME = "{split}-{shard:05d}-of-{shards:05d}"

_FLAG = option("shard_name")
_PLAIN = re.compile(r"[A-Za-z0-9._=+-]*")
_NUMBER = re.compile("(0[1-9])?d?")
_FORMATS = {"split": re.compile(""), "shard": _NUMBER, "shards": _NUMBER}


def _find_faults(pattern: str) -> Iterator[tuple[str, str]]:
    """Yield cause and cure of each fault."""
    try:
        parts = list(Formatter().parse(pattern))
    except ValueError as error:
        yield str(error), "Write {split}, {shard}, {shards}"
        return
    for plain, field, form, conversion in parts:
        if field is not None and (
            field not in _FORMATS or conversion or not _FORMATS[field].fullmatch(form or "")
        ):
            cause = f"{{{field}}} is not one of {{split}}, {{shard}}, {{shards}}"
            if field in _FORMATS:
                cause = f"{{{field}}} has an unsupported format"
            yield cause, "Write {split}, {shard}, {shards}, or {shard:05d} for five digits"
        if not _PLAIN.fullmatch(plain):
            cause = f"{plain!r} has a character that names of shards must not have"
            yield cause, "Use letters, digits and . _ - + ="
    if "shard" not in _fields(pattern):
        yield "all shards would have the same name", "Add {shard}"
    if pattern.startswith((".", "_")):
        yield f"files whose names begin with {pattern[0]} are hidden", "Begin otherwise"


def _fields(pattern: str) -> set[str | None]:
    return {field for _, field, _, _ in Formatter().parse(pattern)}


def tells_parts_apart(pattern: str | None) -> bool:
    """Return whether shards of several splits, sources or generations get names of their own.

    Args:
        pattern: of the names; None for the default.
    """
    return pattern is None or "split" in _fields(pattern)


def check_parts(pattern: str | None, validation: bool, sources: bool) -> None:
    """Refuse a pattern that gives two parts of a data set the same names.

    Args:
        pattern: of the names; None for the default.
        validation: whether there is a validation split.
        sources: whether there are sources with names.

    Raises:
        UserError: there are such parts, and the pattern lacks {split}.
    """
    if tells_parts_apart(pattern) or not (validation or sources):
        return
    parts, others = "train and validation", f"{option('validation_share')}"
    if sources:
        parts, others = "all sources", "the names of sources"
    cause = f"the shards of {parts} would have the same names"
    raise UserError(f"{_FLAG} {pattern}", cause, f"Add {{split}}, or leave {others} out")
