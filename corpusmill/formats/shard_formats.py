"""The file formats of shards: the abstract class of all of them, and their table.

Each format is imported when it is needed.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO, ClassVar, NamedTuple, Protocol

import pyarrow as pa

from corpusmill.arrays.columns import ANY_LENGTH, LONGEST_ROW, NO_PAD, Column
from corpusmill.errors import UserError, option
from corpusmill.formats.output_options import Compression, OutputOptions, Padding
from corpusmill.knobs import knob
from corpusmill.plugins import Plugins

Columns = tuple[Column, ...]

# The codecs that have levels: default and highest level.
_LEVELS = {"zstd": (1, 22), "gzip": (6, 9), "deflate": (6, 9)}


class Sink(Protocol):
    """A stream that is only written to, never read or sought."""

    @property
    def closed(self) -> bool:
        """Whether the stream is closed; Arrow asks."""

    def write(self, data: bytes, /) -> object:
        """Write bytes after those written before."""


Sinks = Sequence[Sink]
Sources = Sequence[BinaryIO]


class WrittenShard(Protocol):
    """A shard of a data set that is complete, as its manifest lists it."""

    @property
    def file(self) -> str:
        """Its name."""

    @property
    def bytes(self) -> int:
        """The size of that file."""

    @property
    def sha256(self) -> str:
        """The digest of that file, in hexadecimal."""

    @property
    def rows(self) -> int:
        """How many it has."""

    @property
    def tokens(self) -> int:
        """How many its rows have together."""


class DataSetContents(NamedTuple):
    """What a data set is made of.

    Attributes:
        shards: of each split, in their order.
        columns: of every shard.
        tokenizer_json: content of the tokenizer's file.
        objective_options: by name.
        has_sources: whether there are named sources, each of which has shards of its own.
    """

    shards: Mapping[str, Sequence[WrittenShard]]
    columns: Columns
    tokenizer_json: str
    objective_options: Mapping[str, Any]
    has_sources: bool = False


class ShardWriter(Protocol):
    """Writes the rows of one shard to its sinks."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows whose schema is `corpusmill.arrays.columns.arrow_schema` of the columns."""

    def close(self) -> None:
        """Write what follows the last row; the sinks stay open."""


class Group(Protocol):
    """Rows of a shard that were encoded together."""

    @property
    def rows(self) -> int:
        """Their number."""

    def read(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read them, as `ShardFormat.read` reads all rows of the shard."""

    def fits(self, writer: ShardWriter) -> bool:
        """Whether a writer takes them as they stand."""

    def copy_to(self, writer: ShardWriter) -> None:
        """Write them as they stand, to a writer that they fit.

        Raises:
            ValueError: the shard is damaged.
            OSError: likewise.
        """


GROUP_ROWS = knob("group_rows", 8192)
"""The rows that are encoded together, unless a format has a number of its own."""
GROUP_TOKENS = knob("group_tokens", 2**24)
"""A group of long rows ends early, with the row that makes it reach this many tokens."""
READ_TOKENS = knob("read_tokens", 2**22, test=100)
"""The tokens of a stream that are read at once, or one long row."""


class ShardFormat(ABC):
    """A file format: examples to bytes, and back.

    Attributes:
        name: value of `--output-format`.
        file_suffixes: of a shard's files; see `suffixes`.
        compressions: its codecs, the default first.
        padding: of rows, by default.
        joined: name without suffix of each split's one file, by split, if the format has one file
            per split. The concatenation of the shards' files must then be the split's file.
        free_names: whether readers of the format accept names without its suffix.
        level: default level of the codec, if it differs from the codec's own.
        has_groups: whether `list_groups` lists groups, each of which is read without the others.
        companion_names: names of all files that `companion_files` may return.
    """

    name: ClassVar[str]
    file_suffixes: ClassVar[tuple[str, ...]]
    compressions: ClassVar[tuple[Compression, ...]] = ("none",)
    padding: ClassVar[Padding] = "do_not_pad"
    joined: ClassVar[Mapping[str, str]] = {}
    free_names: ClassVar[bool] = False
    level: ClassVar[int | None] = None
    has_groups: ClassVar[bool] = False
    companion_names: ClassVar[tuple[str, ...]] = ()

    @property
    def group_rows(self) -> int:
        """The most rows that are written at once, which decides the bytes of groups.

        A format may have a number of its own, as `group_rows = 1000`.
        """
        return GROUP_ROWS

    def suffixes(self, options: OutputOptions) -> tuple[str, ...]:
        """Return the suffixes of a shard's files; the first is that of the shard's own name."""
        return self.file_suffixes

    @abstractmethod
    def open_writer(self, sinks: Sinks, columns: Columns, options: OutputOptions) -> ShardWriter:
        """Open a writer of one shard.

        Args:
            sinks: one per suffix.
            columns: of the data set.
            options: as `resolve` returns them.
        """

    @abstractmethod
    def read(
        self,
        sources: Sources,
        columns: Columns,
        options: OutputOptions,
        batch_rows: int,
        longest: int = LONGEST_ROW,
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of a shard, in the schema of the columns.

        A few bytes of a compressed file may claim any number of values. What cannot be such rows is
        refused before it is decoded.

        Args:
            sources: seekable streams, one per suffix.
            columns: of the data set.
            options: as `resolve` returned them to the writer.
            batch_rows: the most rows of a batch.
            longest: the most tokens of a row. Shorter rows may be read though they have a few more.

        Raises:
            ValueError: the shard is damaged.
            OSError: likewise.
        """

    def list_groups(
        self,
        sources: Sources,
        columns: Columns,
        options: OutputOptions,
        longest: int = LONGEST_ROW,
    ) -> Sequence[Group]:
        """List the groups of a shard's rows, in order; none where rows cannot be copied in groups.

        Args:
            sources: as `read` takes them, as long as the groups are in use.
            columns: likewise.
            options: likewise.
            longest: likewise.

        Raises:
            ValueError: the shard is damaged.
            OSError: likewise.
        """
        return ()

    def check(self, columns: Columns, options: OutputOptions) -> None:  # noqa: B027 - most hold all
        """Refuse columns and options that the format does not support.

        Raises:
            UserError: it does not support them.
        """

    def explain_loading(
        self, columns: Columns, options: OutputOptions, split: str, files: Sequence[str]
    ) -> Iterator[str]:
        """Yield lines of Markdown that tell how to load a data set with a common library.

        Args:
            columns: of the data set.
            options: as `resolve` returned them to the writer.
            split: name of the first split.
            files: names of that split's shards.
        """
        yield from ()

    def companion_files(self, contents: DataSetContents) -> dict[str, bytes]:
        """Return names and contents of the files that a data set of this format needs besides."""
        return {}

    def resolve(self, options: OutputOptions, columns: Columns) -> OutputOptions:
        """Replace each None among the options by the format's default.

        Args:
            options: from the user.
            columns: of the data set.

        Raises:
            UserError: the format does not support the codec, the level, the columns or the names.
        """
        compression = options.compression or self.compressions[0]
        if compression not in self.compressions:
            raise UserError(
                option("compression", compression),
                f"{self.name} files cannot be compressed with this codec",
                f"Give one of {', '.join(self.compressions)}",
            )
        resolved = replace(
            options,
            compression=compression,
            compression_level=self._choose_level(compression, options.compression_level),
            padding=options.padding or self.padding,
        )
        self._check_names(resolved)
        if resolved.is_padded:
            _check_padding(columns)
        self.check(columns, resolved)
        return resolved

    def _choose_level(self, compression: Compression, level: int | None) -> int | None:
        if compression not in _LEVELS:
            return None
        default, highest = _LEVELS[compression]
        level = level or self.level or default
        if level > highest:
            raise UserError(
                option("compression_level", level),
                f"the highest level of {compression} is {highest}",
                f"Give 1 to {highest}",
            )
        return level

    def _check_names(self, options: OutputOptions) -> None:
        """Refuse a pattern that the format's readers do not accept."""
        pattern, suffix = options.shard_name, self.suffixes(options)[0]
        if pattern is None:
            return
        if self.joined:
            cause = (
                f"readers of {self.name} expect files of fixed names "
                f"({', '.join(name + suffix for name in self.joined.values())})"
            )
            raise UserError(option("shard_name", pattern), cause, "Leave it out")
        if not self.free_names and not pattern.endswith(suffix):
            cause = f"readers of {self.name} expect names that end with {suffix}"
            raise UserError(option("shard_name", pattern), cause, f"Append {suffix}")


def _check_padding(columns: Columns) -> None:
    for column in columns:
        if column.width == ANY_LENGTH:
            cause = f"rows of {column.name} have no maximum length"
        elif column.width and column.pad == NO_PAD:
            cause = f"the tokenizer has no padding token to fill {column.name} with"
        else:
            continue
        raise UserError(
            option("padding", "max_length"), cause, "Leave it out; readers pad their batches"
        )


def _adapt(value: object) -> ShardFormat | None:
    if isinstance(value, type) and issubclass(value, ShardFormat):
        value = value()
    return value if isinstance(value, ShardFormat) else None


FORMATS: Plugins[ShardFormat] = Plugins(
    "corpusmill.output_formats",
    "output_format",
    {
        "parquet": "corpusmill.formats.parquet:ParquetFormat",
        "tfrecord": "corpusmill.formats.tfrecord:TFRecordFormat",
        "avro": "corpusmill.formats.avro:AvroFormat",
        "megatron": "corpusmill.formats.token_files:MegatronFormat",
        "nanogpt": "corpusmill.formats.token_files:NanogptFormat",
        "mds": "corpusmill.formats.mds:MdsFormat",
        "ernie-text": "corpusmill.formats.ernie_text:ErnieTextFormat",
    },
    _adapt,
    "a subclass of corpusmill.extending.ShardFormat",
)


def explain_files(split: str) -> Iterator[str]:
    """Yield lines of Python that list the shards of a split, from the manifest beside them."""
    yield 'manifest = json.loads(Path("dataset.json").read_text())'
    yield f'files = [shard["file"] for shard in manifest["splits"]["{split}"]["shards"]]'


def part_names(shard: str, suffixes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of all files of a shard.

    Example:
        "train-00000-of-00002.bin" and (".bin", ".idx") give that name and
        "train-00000-of-00002.idx".
    """
    stem = shard.removesuffix(suffixes[0])
    return (shard, *(stem + suffix for suffix in suffixes[1:]))


def resolve(options: OutputOptions, columns: Columns) -> OutputOptions:
    """Replace each None among the options by the default of their format.

    Raises:
        UserError: the format does not support the options or the columns.
    """
    return FORMATS[options.output_format].resolve(options, columns)
