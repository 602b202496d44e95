"""ERNIE's text: one example per line, in gzip, as the original's trainer reads it.

    token_ids;sentence_type_ids;position_ids;seg_labels;next_sentence_label

Source: README and reader/pretraining.py of PaddlePaddle/ERNIE. In the text the label is 1 if the
second segment follows the first; in the column it is 1 if that segment is from a random document.
So each is 1 minus the other. The bytes contain neither a time nor a name.
"""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, cast

import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import LONGEST_ROW
from corpusmill.errors import UserError
from corpusmill.formats.ernie_text_kernels import parse_lines, write_lines, write_positions
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.shard_format import Columns, ShardFormat, ShardWriter, Sink, Sinks, Sources

_NAMES = ("input_ids", "token_type_ids", "seg_labels", "next_sentence_label")

# How many rows become text at a time, and how many bytes of text are read at a time.
_ROWS = 512
_BLOCK_BYTES = 2**20
_MAX_LINE_BYTES = 2**24
# The four numbers of a token, at most: 10 digits, 1, 10, and 2, with what separates them.
_TOKEN_BYTES = 11 + 2 + 11 + 3

# The original's scripts look for files of these names.
_FILE_LISTS = {"train": "train_filelist", "validation": "valid_filelist"}
_VOCABULARY = "vocab.txt"


class ErnieTextFormat(ShardFormat):
    """Lines of ERNIE's columns without masks."""

    name = "ernie-text"
    file_suffixes = (".gz",)
    compressions = ("gzip",)
    # Four times as fast as 6, and 10 % larger.
    level = 4
    companion_names = (*_FILE_LISTS.values(), _VOCABULARY)

    def check(self, columns: Columns, options: OutputOptions) -> None:
        """Refuse what a line has no field for.

        Raises:
            UserError: the columns are not ERNIE's without masks, or rows are padded.
        """
        names = tuple(column.name for column in columns)
        if set(names) != set(_NAMES):
            masked = any(name.startswith("masked_lm") for name in names)
            cause = (
                "its trainer masks the sequences itself, so that a line has no field for masks"
                if masked and set(_NAMES) <= set(names)
                else f"a line holds {', '.join(_NAMES)}, and this data set has {', '.join(names)}"
            )
            cure = "Leave out --mask static" if masked and "seg_labels" in names else "Take parquet"
            raise UserError("--output-format ernie-text", cause, cure)
        if options.is_padded:
            raise UserError(
                "--padding max_length",
                "the lines of ernie-text have no padding; its trainer pads each batch",
                "Leave it out",
            )

    def open_writer(self, sinks: Sinks, columns: Columns, options: OutputOptions) -> ShardWriter:
        """Open a writer of lines."""
        return _Writer(sinks[0], columns, cast(int, options.compression_level))

    def read(
        self,
        sources: Sources,
        columns: Columns,
        options: OutputOptions,
        batch_rows: int,
        longest: int = LONGEST_ROW,
    ) -> Iterator[pa.RecordBatch]:
        """Parse the lines.

        Raises:
            ValueError: a line, named by its number, is malformed.
            OSError: the gzip is damaged.
        """
        line = 1
        try:
            for text in _whole_lines(sources[0], min(_MAX_LINE_BYTES, longest * _TOKEN_BYTES + 4)):
                rows = parse_lines(text, columns, line)
                line += rows.num_rows
                for begin in range(0, rows.num_rows, batch_rows):
                    yield rows.slice(begin, batch_rows)
        except (EOFError, zlib.error) as error:
            raise OSError(str(error)) from None

    def companion_files(
        self,
        files: Mapping[str, Sequence[str]],
        tokenizer_json: str,
        objective_options: Mapping[str, Any],
    ) -> dict[str, bytes]:
        """Return the lists of files and the vocabulary with which the original's trainer starts.

        A list's line is "train-00000-of-00002.gz", a tab, and the share of examples in which words
        are masked, "1.0".
        """
        # Other objectives with these columns always mask words.
        share = objective_options.get("mask_word_prob", 1.0)
        companions = {
            name: "".join(f"{file}\t{share}\n" for file in files[split]).encode()
            for split, name in _FILE_LISTS.items()
            if split in files
        }
        vocabulary = _vocabulary(json.loads(tokenizer_json))
        return companions if vocabulary is None else {**companions, _VOCABULARY: vocabulary}


class _Writer:
    def __init__(self, sink: Sink, columns: Columns, level: int) -> None:
        width = next(column.width for column in columns if column.name == "input_ids")
        self._positions = write_positions(width)
        # Without a name and with the time 0 the bytes depend on the rows alone.
        self._text = gzip.GzipFile("", "wb", level, cast(BinaryIO, sink), mtime=0)

    def write(self, rows: pa.RecordBatch) -> None:
        for begin in range(0, rows.num_rows, _ROWS):
            self._text.write(self._lines(rows.slice(begin, _ROWS)))

    def close(self) -> None:
        self._text.close()

    def _lines(self, rows: pa.RecordBatch) -> memoryview:
        lists = [ragged.from_arrow(rows.column(name)) for name in _NAMES[:3]]
        values = [flat[offsets[0] : offsets[-1]] for flat, offsets in lists]
        offsets = lists[0][1]
        digits = len(str(values[0].max(initial=0)))
        labels = rows.column("next_sentence_label").to_numpy()
        lines = write_lines(*values, offsets - offsets[0], labels, *self._positions, digits)
        return memoryview(lines)


def _whole_lines(stream: BinaryIO, max_bytes: int) -> Iterator[bytes]:
    rest = b""
    with gzip.GzipFile(fileobj=stream, mode="rb") as text:
        while block := text.read(_BLOCK_BYTES):
            lines, newline, start = block.rpartition(b"\n")
            if newline:
                yield rest + lines + newline
                rest = start
            else:
                rest += block
            if len(rest) > max_bytes:
                raise ValueError(f"a line is longer than {max_bytes:,} bytes")
    if rest:
        yield rest + b"\n"


def _vocabulary(tokenizer: Mapping[str, Any]) -> bytes | None:
    """Return the tokens of a WordPiece tokenizer by their ids; None for any other tokenizer.

    The trainer looks for [PAD], [CLS], [SEP] and [MASK] by these names.
    """
    if tokenizer["model"].get("type") != "WordPiece":
        return None
    added = {token["content"]: token["id"] for token in tokenizer.get("added_tokens", [])}
    ids = {**tokenizer["model"]["vocab"], **added}
    by_id = sorted(ids.items(), key=lambda item: item[1])
    return "".join(f"{token}\t{number}\n" for token, number in by_id).encode()
