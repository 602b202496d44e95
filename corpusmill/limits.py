"""What is refused, and what is kept of damaged files: thresholds that are still values of a run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RefusalLimits:
    """The thresholds of what is refused, and of what is kept of damaged files."""

    told_rejects: int = 100
    """The first rejects of each file and reason have lines of their own, with details."""
    reject_window: int = 2**20
    """The bytes of a file, or rows of a table, whose other rejects share a line."""
    block_bytes: int = 2**30
    """The bytes of a row above which a row group of Parquet is refused, on average."""
    nested_bytes: int = 2**25
    """The values of other types than text that are decoded at once; they become objects of Python,
    which take ten times their bytes."""
    decoded_bytes: int = 2**20
    """The rows of a block that are decoded at once, about; complete steps of a damaged block are
    kept."""
    decoded_rows: int = 8192
    """The most rows that are decoded at once, which bounds the objects of Python made of them."""
    dictionary_rows: int = 128
    """The rows of a row group with a dictionary that are decoded at once, as each may hold a value
    as large as the whole dictionary; more while the group is small."""
    compressed_step: int = 2**14
    """The bytes of a compressed file that are read at a time."""
    text_step: int = 2**15
    """The text that is decompressed at a time: little, as damage costs the text of a step."""
    arrow_step: int = 2**12
    """Likewise, where Arrow decompresses."""


@dataclass(frozen=True)
class Limits:
    """The thresholds of a run that are not constants of modules.

    Attributes:
        refusals: those of what is refused, and of what is kept of damaged files.
    """

    refusals: RefusalLimits = RefusalLimits()


LIMITS = Limits()
