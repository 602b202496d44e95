"""The table of all file formats of shards, each imported when it is needed."""

from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_format import Columns, ShardFormat
from corpusmill.plugins import Plugins


def _adapt(value: object) -> ShardFormat | None:
    if isinstance(value, type) and issubclass(value, ShardFormat):
        value = value()
    return value if isinstance(value, ShardFormat) else None


FORMATS: Plugins[ShardFormat] = Plugins(
    "corpusmill.output_formats",
    "output_format",
    {
        "parquet": "corpusmill.formats.parquet.parquet_format:ParquetFormat",
        "tfrecord": "corpusmill.formats.tfrecord.tfrecord_format:TFRecordFormat",
        "avro": "corpusmill.formats.avro:AvroFormat",
        "megatron": "corpusmill.formats.token_files:MegatronFormat",
        "nanogpt": "corpusmill.formats.token_files:NanogptFormat",
        "ernie-text": "corpusmill.formats.ernie_text:ErnieTextFormat",
    },
    _adapt,
    "a subclass of corpusmill.extending.ShardFormat",
)


def all_suffixes(shard_format: ShardFormat) -> set[str]:
    """Return every suffix that a file of a shard can have in a format."""
    return {
        suffix
        for compression in shard_format.compressions
        for suffix in shard_format.suffixes(OutputOptions(compression=compression))
    }


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
