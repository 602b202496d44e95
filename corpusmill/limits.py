"""The thresholds of a run: each size at which the code takes another way, as a value.

A threshold travels with the run, so that a test crosses it with kilobytes, and whoever knows an
engine or a machine better can set it (`--limits`). docs/contributing/thresholds.md lists all of
them: what changes beyond each one, and which test crosses it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from corpusmill.errors import UserError, option, suggest


class _Group:
    """The thresholds of some rooms. Each is an integer from the least value that works.

    Attributes:
        least: the least value of each threshold that cannot be 1.
    """

    least: Mapping[str, int] = {}

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least = self.least.get(name, 1)
            if not (isinstance(value, int) and least <= value <= 2**62):
                cause = f"it must be an integer of {least} to {2**62}"
                raise UserError(option("limits", f"{name}={value}"), cause, "Give such a number")


@dataclass(frozen=True)
class StageLimits(_Group):
    """The thresholds of the job's stages. No byte of a data set depends on them."""

    fan_in: int = 1000
    """The most files that one task takes; of more, neighbors are first joined in a tree."""
    buffer_bytes: int = 32 * 2**20
    """The rows that a task holds before it writes them to a file, ordered by bucket."""
    smallest_segment_bytes: int = 256 * 2**10
    """Buckets of a full buffer that would be smaller are joined, and merged files divide them."""
    merge_bytes: int = 2**30
    """The rows that one call of the last level of merges takes in; it reads and writes them twice,
    within two minutes."""
    most_references: int = 2**16
    """The most references to segments that one key may have; of more, files are merged first."""
    joined_bytes: int = 8 * 2**20
    """The rows of one bucket that become one segment."""
    reserved_bytes: int = 2**28
    """The memory that a column of a shard's rows reserves before it grows by doubling."""
    sort_bytes: int = 336 * 2**20
    """The rows of a shard that are sorted in memory; more go through files."""
    sort_file_bytes: int = 96 * 2**20
    """The rows of such a file, where it is foreseen that a shard does not fit into memory."""
    candidate_bytes: int = 2**20
    """The candidates for the pool that a task writes at once."""
    hash_bucket_bytes: int = 32 * 2**20
    """The hashes that are compared at once; more make more buckets, or parts of a bucket."""
    filter_bits: int = 2**26
    """The bits of the filter of new digests; without it where half of them would be set."""
    partition_bytes: int = 16 * 2**20
    """The text whose words make a partition when words are counted."""
    most_partitions: int = 1024
    """The most partitions of words."""
    added_bytes: int = 96 * 2**20
    """The words of a partition that are added up at once; more are added up in parts."""
    small_batch_bytes: int = 2**19
    """Batches of text below this size are joined before they are tokenized."""
    small_file_bytes: int = 2**20
    """A file up to this size is read ahead as a whole, from a store with one request."""
    looked_at_files: int = 1000
    """So many input files in stores are looked at before any work, and a tenth as many that bzip2
    has compressed, which takes as long; all others where they are read."""
    looked_at_bytes: int = 64 * 2**20
    """Files from this size on are all looked at, as several tasks may read them."""
    most_fetched_bytes: int = 2**20
    """What is fetched from elsewhere of what a table's reader left out, for its checksum alone."""
    copied_bytes: int = 2**20
    """How much of a file that an edit checks is in memory at once."""

    least = {"fan_in": 2, "most_references": 2}  # noqa: RUF012  a constant of the class


@dataclass(frozen=True)
class RefusalLimits(_Group):
    """The thresholds of what is refused, and of what is kept of damaged files."""

    told_rejects: int = 100
    """The first rejects of each file and reason have lines of their own, with details."""
    reject_window: int = 2**20
    """The bytes of a file, or rows of a table, whose other rejects share a line."""
    block_bytes: int = 2**30
    """The most bytes that are decoded at once, compressed or not; a larger block is refused."""
    avro_block_bytes: int = 2**26
    """The most bytes of a block of Avro, which is copied several times while it is decoded."""
    any_text_bytes: int = 2**26
    """The text that a block may hold, however few bytes are stored of it."""
    most_texts: int = 4
    """The texts of the largest size that a block of any format may hold."""
    most_times: int = 1000
    """How many times its stored bytes a block may hold. Text of people gives 2 to 10 times, and
    nothing but one text that is repeated gives more."""
    nested_bytes: int = 2**25
    """The values of other types than text that are decoded at once; they become objects of Python,
    which take ten times their bytes."""
    dictionary_bytes: int = 2**28
    """The values of a larger dictionary are measured before each row gets a copy of one; the copies
    may not have more bytes than this either."""
    page_bytes: int = 2**29
    """The most bytes of a page of Parquet, which is held up to three times while it becomes rows.
    Most writers end a page near a megabyte, but some only after a thousand rows of any length."""
    small_chunk_bytes: int = 2**22
    """Of a chunk of Parquet up to this size, the headers of all pages are read first; of a larger
    one, only where its footer leaves room for a page that is too large."""
    decoded_bytes: int = 2**20
    """The rows of a block that are decoded at once, about; complete steps of a damaged block are
    kept."""
    decoded_rows: int = 8192
    """The most rows that are decoded at once, which bounds the objects of Python made of them."""
    dictionary_rows: int = 128
    """The rows of a chunk of Parquet with a dictionary that are decoded at once, as each may hold a
    value as large as the whole dictionary."""
    repeated_bytes: int = 2**28
    """They are fewer where as many copies of the dictionary would have more bytes than this."""
    few_repeated_bytes: int = 2**25
    """They are more while the copies together have no more bytes than this: a small dictionary, or
    one of nulls alone, may serve millions of rows."""
    avro_header_bytes: int = 2**23
    """The bytes in which the header of an Avro file is looked for, an eighth of them first."""
    parquet_header_bytes: int = 2**24
    """The bytes in which the header of a page of Parquet is looked for, a kilobyte first."""
    arrow_header_bytes: int = 2**28
    """The most bytes of the header of a message of Arrow."""
    compressed_step: int = 2**14
    """The bytes of a compressed file that are read at a time."""
    text_step: int = 2**15
    """The text that is decompressed at a time: little, as damage costs the text of a step."""
    arrow_step: int = 2**12
    """Likewise, where Arrow decompresses."""

    # An eighth of a header of Avro begins as Avro does.
    least = {  # noqa: RUF012
        "told_rejects": 0, "most_texts": 0, "most_times": 0, "avro_header_bytes": 32,
        "parquet_header_bytes": 2**10,
    }  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """All thresholds of a run.

    Attributes:
        stages: those of the job's stages.
        refusals: those of what is refused, and of what is kept of damaged files.

    Example:
        Limits(stages=StageLimits(fan_in=3)) joins four files in two steps.
    """

    stages: StageLimits = StageLimits()
    refusals: RefusalLimits = RefusalLimits()

    def with_values(self, given: Iterable[str]) -> Self:
        """Return the thresholds with some other values.

        Args:
            given: NAME=NUMBER for each of these, where the name has that of its group before it.

        Raises:
            UserError: there is no such threshold, or it cannot have the value.

        Example:
            ["stages.fan_in=3"]
        """
        known = list(self.values())
        changed = self
        for text in given:
            name, _, value = text.partition("=")
            if name not in known:
                cure = f"{suggest(name, known)}docs/contributing/thresholds.md lists all of them"
                raise UserError(option("limits", text), "there is no such threshold", cure)
            if not value.isdecimal():
                cure = f"Give an integer, as in {name}={self.values()[name]}"
                raise UserError(option("limits", text), "it gives no number", cure)
            group, _, field = name.partition(".")
            part: Any = replace(getattr(changed, group), **{field: int(value)})
            changed = replace(changed, **{group: part})
        return changed

    def values(self) -> dict[str, int]:
        """Return {"group.name": value} for each threshold, in the order of their table."""
        groups = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            f"{group}.{each.name}": getattr(part, each.name)
            for group, part in groups.items()
            for each in fields(part)
        }


LIMITS = Limits()
