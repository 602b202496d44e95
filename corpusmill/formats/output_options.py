"""How shards are written: the options that all file formats share."""

from dataclasses import dataclass
from typing import Annotated, Literal

from corpusmill.formats.shard_names import check_pattern
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
            check_pattern(self.shard_name)
