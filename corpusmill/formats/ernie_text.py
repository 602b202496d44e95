"""ERNIE's text: one example a line, in gzip, as the original's trainer reads it.

    token_ids;sentence_type_ids;position_ids;seg_labels;next_sentence_label

Source: README and reader/pretraining.py of PaddlePaddle/ERNIE. In the text the label is 1 where the
second segment follows the first; in the column it is 1 where it is of a random document, so that
the one is 1 - the other. The bytes carry no time and no name.
"""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column
from corpusmill.dataset.checksums import HashingWriter
from corpusmill.errors import UserError
from corpusmill.formats.ernie_text_kernels import parse_lines, write_lines, write_positions
from corpusmill.formats.options import OutputOptions

_NAMES = ("input_ids", "token_type_ids", "seg_labels", "next_sentence_label")

# Rows whose text lies in memory at a time, and bytes of text that are read at a time.
_ROWS = 512
_BLOCK_BYTES = 2**20
_MOST_LINE_BYTES = 2**24


def suffixes(_: OutputOptions) -> tuple[str, ...]:
    """One file a shard; the original's reader takes names that end in .gz alone."""
    return (".gz",)


def check(columns: tuple[Column, ...], options: OutputOptions) -> None:
    """Refuse what a line has no place for.

    Raises:
        UserError: other columns than ERNIE's without masks, or padded rows.
    """
    names = tuple(column.name for column in columns)
    if set(names) != set(_NAMES):
        masked = any(name.startswith("masked_lm") for name in names)
        cause = (
            "its trainer masks the sequences itself, so that a line has no place for masks"
            if masked and set(_NAMES) <= set(names)
            else f"a line holds {', '.join(_NAMES)}, and this data set has {', '.join(names)}"
        )
        cure = "Leave out --mask static" if masked and "seg_labels" in names else "Take parquet"
        raise UserError("--output-format ernie-text", cause, cure)
    if options.padding == "max_length":
        raise UserError(
            "--padding max_length",
            "the lines of ernie-text have no padding; its trainer pads each batch",
            "Leave it out",
        )


class ErnieTextWriter:
    """Writes one shard as a stream.

    Args:
        stream: where the bytes go; it is only written to.
        columns: the data set's, as `check` accepts them.
        level: of gzip, 1 to 9.
    """

    def __init__(
        self, stream: BinaryIO | HashingWriter, columns: tuple[Column, ...], level: int
    ) -> None:
        width = next(column.width for column in columns if column.name == "input_ids")
        self._positions = write_positions(width)
        # Without a name and with the time 0 the bytes are those of the rows alone.
        self._text = gzip.GzipFile("", "wb", level, cast(BinaryIO, stream), mtime=0)

    def write(self, group: pa.RecordBatch) -> None:
        """Write a batch of ragged rows."""
        for begin in range(0, group.num_rows, _ROWS):
            self._text.write(_lines_of(group.slice(begin, _ROWS), *self._positions))

    def close(self) -> None:
        """Write the end of the text; the stream stays open."""
        self._text.close()


def open_writer(
    streams: Sequence[BinaryIO | HashingWriter],
    columns: tuple[Column, ...],
    options: OutputOptions,
) -> ErnieTextWriter:
    """See `corpusmill.formats.shard_formats.ShardFormat`."""
    return ErnieTextWriter(streams[0], columns, cast(int, options.compression_level))


def _lines_of(rows: pa.RecordBatch, positions: np.ndarray, ends: np.ndarray) -> memoryview:
    lists = {name: ragged.from_arrow(rows.column(name)) for name in _NAMES[:3]}
    values = [flat[offsets[0] : offsets[-1]] for flat, offsets in lists.values()]
    offsets = lists["input_ids"][1]
    digits = len(str(values[0].max(initial=0)))
    labels = rows.column("next_sentence_label").to_numpy()
    return memoryview(write_lines(*values, offsets - offsets[0], labels, positions, ends, digits))


def read_shard(
    streams: Sequence[BinaryIO],
    columns: tuple[Column, ...],
    _: OutputOptions,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """See `corpusmill.formats.shard_formats.ShardFormat`.

    Raises:
        ValueError: a line, named by its number, is none of this format.
        OSError: the gzip is damaged.
    """
    line = 1
    try:
        for text in _whole_lines(streams[0]):
            rows = parse_lines(text, columns, line)
            line += rows.num_rows
            for begin in range(0, rows.num_rows, batch_rows):
                yield rows.slice(begin, batch_rows)
    except (EOFError, zlib.error) as error:
        raise OSError(str(error)) from None


def _whole_lines(stream: BinaryIO) -> Iterator[bytes]:
    rest = b""
    with gzip.GzipFile(fileobj=stream, mode="rb") as text:
        while block := text.read(_BLOCK_BYTES):
            lines, newline, begun = block.rpartition(b"\n")
            if newline:
                yield rest + lines + newline
                rest = begun
            else:
                rest += block
            if len(rest) > _MOST_LINE_BYTES:
                raise ValueError(f"a line is longer than {_MOST_LINE_BYTES:,} bytes")
    if rest:
        yield rest + b"\n"


# With these names the original's scripts look for them.
TRAIN_LIST, VALID_LIST, VOCABULARY = "train_filelist", "valid_filelist", "vocab.txt"


def list_train_files(manifest: Mapping[str, Any], _tokenizer_json: str) -> bytes | None:
    """The list of the train split's shards: "train-00000-of-00002.gz", a tab, "1.0"."""
    return _list_files(manifest, "train")


def list_validation_files(manifest: Mapping[str, Any], _tokenizer_json: str) -> bytes | None:
    """The list of the validation split's shards; None where there is no such split."""
    return _list_files(manifest, "validation")


def _list_files(manifest: Mapping[str, Any], split: str) -> bytes | None:
    if split not in manifest["splits"]:
        return None
    # A data set of another objective with these columns has them for the sake of words.
    share = manifest["objective"]["options"].get("mask_word_prob", 1.0)
    names = (shard["file"] for shard in manifest["splits"][split]["shards"])
    return "".join(f"{name}\t{share}\n" for name in names).encode()


def list_vocabulary(_manifest: Mapping[str, Any], tokenizer_json: str) -> bytes | None:
    """The tokens of a WordPiece tokenizer by their ids; None for any other one.

    The trainer takes [PAD], [CLS], [SEP] and [MASK] from it by these names.
    """
    settings = json.loads(tokenizer_json)
    if settings["model"].get("type") != "WordPiece":
        return None
    ids = {
        **settings["model"]["vocab"],
        **{of["content"]: of["id"] for of in settings.get("added_tokens", [])},
    }
    by_id = sorted(ids.items(), key=lambda item: item[1])
    return "".join(f"{token}\t{number}\n" for token, number in by_id).encode()
