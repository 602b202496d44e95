"""The one table of the file formats that shards can have, for writers and readers alike."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from corpusmill.arrays.columns import ANY_LENGTH, NO_PAD, Column
from corpusmill.dataset.checksums import HashingWriter
from corpusmill.errors import UserError
from corpusmill.formats import ernie_text, megatron, nanogpt, parquet
from corpusmill.formats import ernie_text as ernie_text_files
from corpusmill.formats.avro import shards as avro
from corpusmill.formats.avro.shards import load_avro
from corpusmill.formats.megatron import load_megatron
from corpusmill.formats.nanogpt import load_nanogpt
from corpusmill.formats.options import Compression, OutputOptions, Padding
from corpusmill.formats.parquet import load_parquet
from corpusmill.formats.tfrecord import shards as tfrecord
from corpusmill.formats.tfrecord.shards import load_tfrecord
from corpusmill.layout.length_bins import cut_lengths

Columns = tuple[Column, ...]

# From the manifest and the tokenizer.json to the bytes of a file; None where it is not needed.
FurtherFile = Callable[[Mapping[str, Any], str], bytes | None]

# The files that a shard consists of, in the order of their suffixes.
Sinks = Sequence[BinaryIO | HashingWriter]
Sources = Sequence[BinaryIO]

_LEVELS = {"zstd": (1, 22), "gzip": (6, 9), "deflate": (6, 9)}


class ShardWriter(Protocol):
    """Writes one shard as a stream."""

    def write(self, group: pa.RecordBatch) -> None:
        """Write rows, in the schema of the columns (`corpusmill.arrays.columns.arrow_schema`)."""

    def close(self) -> None:
        """Write what stands behind the last row; the streams stay open."""


@dataclass(frozen=True)
class ShardFormat:
    """One file format.

    Attributes:
        suffixes: of the files of a shard, from the options: the shard itself, and then its
            companions (".bin", ".idx").
        write: opens a writer on one stream a suffix, which is only written to, never sought.
        read: the rows of a shard in the schema of the columns, at most so many at a time; streams
            are seekable. ValueError or OSError where the shard is damaged.
        check: refuses columns that the format cannot hold, and options that it does not know, by a
            UserError.
        compressions: codecs, the default one first.
        padding: of rows, by default.
        joined: where all shards of a split are one file in the end, the name of that without its
            suffix, by split. Each of their files is then the one of the split when they stand one
            behind the other.
        free_names: whether its readers do without the suffix.
        load: how the card tells to load a data set, from its manifest; None where no common library
            does.
        hub: whether the hub's `load_dataset` reads it.
        level: of the codec, by default, where it is not the codec's own.
        further_files: names and contents of what a data set holds beside shards of this format.
    """

    suffixes: Callable[[OutputOptions], tuple[str, ...]]
    write: Callable[[Sinks, Columns, OutputOptions], ShardWriter]
    read: Callable[[Sources, Columns, OutputOptions, int], Iterator[pa.RecordBatch]]
    check: Callable[[Columns, OutputOptions], None]
    compressions: tuple[Compression, ...]
    padding: Padding
    joined: Mapping[str, str] = field(default_factory=dict)
    free_names: bool = False
    load: Callable[[Mapping[str, Any]], Iterator[str]] | None = None
    hub: bool = False
    level: int | None = None
    further_files: Mapping[str, FurtherFile] = field(default_factory=dict)


FORMATS: dict[str, ShardFormat] = {
    "parquet": ShardFormat(
        parquet.suffixes,
        parquet.open_writer,
        parquet.read_shard,
        parquet.check,
        ("zstd", "snappy", "gzip", "none"),
        "do_not_pad",
        load=load_parquet,
        hub=True,
    ),
    "tfrecord": ShardFormat(
        tfrecord.suffixes,
        tfrecord.open_writer,
        tfrecord.read_shard,
        tfrecord.check,
        ("none", "gzip"),
        # Google's trainers parse features of fixed length.
        "max_length",
        free_names=True,
        load=load_tfrecord,
    ),
    "avro": ShardFormat(
        avro.suffixes,
        avro.open_writer,
        avro.read_shard,
        avro.check,
        ("deflate", "zstd", "none"),
        "do_not_pad",
        load=load_avro,
    ),
    "megatron": ShardFormat(
        megatron.suffixes,
        megatron.open_writer,
        megatron.read_shard,
        megatron.check,
        ("none",),
        "do_not_pad",
        load=load_megatron,
    ),
    "nanogpt": ShardFormat(
        nanogpt.suffixes,
        nanogpt.open_writer,
        nanogpt.read_shard,
        nanogpt.check,
        ("none",),
        "do_not_pad",
        {"train": "train", "validation": "val"},
        load=load_nanogpt,
    ),
    "ernie-text": ShardFormat(
        ernie_text.suffixes,
        ernie_text.open_writer,
        ernie_text.read_shard,
        ernie_text.check,
        ("gzip",),
        "do_not_pad",
        # Four times as fast as 6, and 10 % larger.
        level=4,
        further_files={
            ernie_text_files.TRAIN_LIST: ernie_text_files.list_train_files,
            ernie_text_files.VALID_LIST: ernie_text_files.list_validation_files,
            ernie_text_files.VOCABULARY: ernie_text_files.list_vocabulary,
        },
    ),
}


def all_suffixes() -> list[str]:
    """Every suffix that a file of a shard can have."""
    found = {
        suffix
        for of in FORMATS.values()
        for compression in of.compressions
        for suffix in of.suffixes(OutputOptions(compression=compression))
    }
    return sorted(found)


def part_names(shard: str, suffixes: tuple[str, ...]) -> tuple[str, ...]:
    """The names of all files of a shard.

    Example:
        "train-00000-of-00002.bin" and (".bin", ".idx") give that name and
        "train-00000-of-00002.idx".
    """
    stem = shard.removesuffix(suffixes[0])
    return (shard, *(stem + suffix for suffix in suffixes[1:]))


def resolve(options: OutputOptions, columns: Columns) -> OutputOptions:
    """The options with the format's defaults in place of None.

    Args:
        options: as a user gives them.
        columns: what is to be written.

    Raises:
        UserError: the format lacks the codec or the level, cannot hold the columns, or has other
            names, or the rows cannot be parted by length.
    """
    of = FORMATS[options.output_format]
    compression = options.compression or of.compressions[0]
    if compression not in of.compressions:
        raise UserError(
            f"--compression {compression}",
            f"the format {options.output_format} has no such codec",
            f"Give one of {', '.join(of.compressions)}",
        )
    level = options.compression_level
    if compression not in _LEVELS:
        level = None
    else:
        default, most = _LEVELS[compression]
        level = level or of.level or default
        if level > most:
            raise UserError(
                f"--compression-level {level}",
                f"{compression} has no such level",
                f"Give 1 to {most}",
            )
    resolved = replace(
        options,
        compression=compression,
        compression_level=level,
        padding=options.padding or of.padding,
    )
    _check_names(of, resolved)
    if resolved.is_padded:
        _check_padding(columns)
    of.check(columns, resolved)
    if cut_lengths(columns, options.bin_size) and resolved.is_padded:
        raise UserError(
            f"--bin-size {options.bin_size}",
            f"rows that are padded to one width (the padding of {options.output_format} files here "
            "is max_length) are as long in every bin",
            "Add --padding do_not_pad, or leave it out",
        )
    return resolved


def _check_names(of: ShardFormat, options: OutputOptions) -> None:
    """A pattern of names must suit the format's readers, and tell files apart."""
    pattern, suffix = options.shard_name, of.suffixes(options)[0]
    if pattern is None:
        return
    if of.joined:
        raise UserError(
            f"--shard-name {pattern}",
            f"readers of {options.output_format} expect files of fixed names "
            f"({', '.join(name + suffix for name in of.joined.values())})",
            "Leave it out",
        )
    if not of.free_names and not pattern.endswith(suffix):
        raise UserError(
            f"--shard-name {pattern}",
            f"readers of {options.output_format} expect names that end with {suffix}",
            f"Append {suffix}",
        )
    if options.bin_size and "{split" not in pattern:
        raise UserError(
            f"--shard-name {pattern}",
            "the shards of all length bins would have the same names",
            "Add {split}, which names the bin, too, or leave --bin-size out",
        )


def _check_padding(columns: Columns) -> None:
    for column in columns:
        if column.width == ANY_LENGTH:
            cause = f"rows of {column.name} have no greatest length"
        elif column.width and column.pad == NO_PAD:
            cause = f"the tokenizer has no token of its own that could fill {column.name}"
        else:
            continue
        raise UserError("--padding max_length", cause, "Leave it out; readers fill their batches")
