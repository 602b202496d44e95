"""How shards are written: the options that all file formats share."""

from dataclasses import dataclass
from typing import Literal

from corpusmill.errors import check_option
from corpusmill.formats.shard_names import check_pattern

Padding = Literal["max_length", "do_not_pad"]
Compression = Literal["zstd", "snappy", "gzip", "deflate", "none"]


@dataclass(frozen=True)
class OutputOptions:
    """How shards are written."""

    output_format: Literal["parquet", "tfrecord", "avro", "megatron", "nanogpt", "ernie-text"] = (
        "parquet"
    )
    """The file format of the shards: "tfrecord" as Google's trainers read it; "megatron" is
    Megatron-LM's .bin and .idx, "nanogpt" its train.bin and val.bin, both for `gpt --mode stream`
    alone; "ernie-text" is the gzip text of ERNIE's own trainer, for `ernie` alone."""
    padding: Padding | None = None
    """"max_length" fills every list to its full width, with "do_not_pad" rows keep their own
    length; by default what the trainers that read the format expect."""
    compression: Compression | None = None
    """Codec; by default the format's own."""
    compression_level: int | None = None
    """Level of the codec: 1 to 22 for zstd (1 by default; above 3 little is gained on token ids), 1
    to 9 for gzip and deflate (6 by default, 4 for ernie-text)."""
    bin_size: int | None = None
    """Write the examples of each range of so many lengths into shards of their own: 64 parts those
    of 1 to 64 tokens from those of 65 to 128, and so on, so that batches of one bin pad little. By
    default lengths are mixed."""

    shard_name: str | None = None
    """Pattern of the shards' names, with {shard}, {shards} and {split} in it; {shard:05d} has five
    digits. By default "{split}-{shard:05d}-of-{shards:05d}" and the format's suffix; Google's
    ELECTRA reads "pretrain_data.tfrecord-{shard}-of-{shards}"."""

    @property
    def is_padded(self) -> bool:
        """Whether rows are padded, once nothing is left to the format."""
        return self.padding == "max_length"

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a level that no codec has, or a pattern that names no shards.
        """
        if self.shard_name is not None:
            check_pattern(self.shard_name)
        level, size = self.compression_level, self.bin_size
        levels = "1 to 22 for zstd, 1 to 9 for gzip and deflate"
        check_option("compression-level", level, level is None or 1 <= level <= 22, levels)
        check_option("bin-size", size, size is None or size >= 1, "1 or more")
