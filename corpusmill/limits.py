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


@dataclass(frozen=True)
class Limits:
    """The thresholds of a run that are not constants of modules.

    Attributes:
        refusals: those of what is refused, and of what is kept of damaged files.
    """

    refusals: RefusalLimits = RefusalLimits()


LIMITS = Limits()
