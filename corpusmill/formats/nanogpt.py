"""nanoGPT's token files: train.bin and val.bin, uint16 tokens without separators.

Source: data/openwebtext/prepare.py of karpathy/nanoGPT, which maps the file into memory and cuts
examples at random places. The file does not say where documents end, and a text may contain the
end-of-text token. So a companion file says it: .lengths, the number of tokens of each document,
int32. All numbers are little-endian. The concatenation of two files of a kind is a file of that
kind.
"""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa

from corpusmill.arrays.columns import LONGEST_ROW
from corpusmill.errors import UserError
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.shard_format import Columns, ShardWriter, Sinks, Sources
from corpusmill.formats.token_files import TokenFileFormat, check_end, read_tokens, write_tokens

_TOKEN, _LENGTH = "<u2", "<i4"


class NanogptFormat(TokenFileFormat):
    """One file of 16-bit tokens per split."""

    name = "nanogpt"
    file_suffixes = (".bin", ".lengths")
    joined = {"train": "train", "validation": "val"}  # noqa: RUF012 - never changed

    def check(self, columns: Columns, options: OutputOptions) -> None:
        """Refuse rows that are not a stream of 16-bit tokens.

        Raises:
            UserError: likewise, or the vocabulary has more than 65,536 tokens.
        """
        super().check(columns, options)
        if np.dtype(columns[0].dtype).itemsize > 2:
            raise UserError(
                "--output-format nanogpt",
                "its tokens have 16 bits, and the vocabulary has more than 65,536",
                "Use a smaller tokenizer, or another format",
            )

    def open_writer(self, sinks: Sinks, columns: Columns, options: OutputOptions) -> ShardWriter:
        """Open a writer, which writes to both sinks at once."""
        return _Writer(sinks, columns)

    def read(
        self,
        sources: Sources,
        columns: Columns,
        options: OutputOptions,
        batch_rows: int,
        longest: int = LONGEST_ROW,
    ) -> Iterator[pa.RecordBatch]:
        """Read the documents."""
        tokens, companion = sources
        size = np.dtype(_LENGTH).itemsize
        while content := companion.read(batch_rows * size):
            if len(content) % size:
                raise ValueError("its .lengths ends within a number")
            lengths = np.frombuffer(content, _LENGTH).astype(np.int64)
            yield from read_tokens(tokens, lengths, _TOKEN, columns[0], longest)
        check_end(tokens, ".bin")

    def explain_loading(
        self, columns: Columns, options: OutputOptions, split: str, files: Sequence[str]
    ) -> Iterator[str]:
        """Load by NumPy, as nanoGPT does."""
        lengths = PurePosixPath(files[0]).with_suffix(".lengths")
        yield from ("nanoGPT reads this folder as `data/<dataset>`.", "", "```python")
        yield from ("import numpy as np", "")
        yield f'tokens = np.memmap("{files[0]}", dtype=np.uint16, mode="r")'
        yield f'lengths = np.fromfile("{lengths}", dtype=np.int32)  # of the documents'
        yield from ("```", "")


class _Writer:
    def __init__(self, sinks: Sinks, columns: Columns) -> None:
        self._tokens, self._lengths = sinks
        self._column = columns[0].name

    def write(self, rows: pa.RecordBatch) -> None:
        lengths = write_tokens(self._tokens, rows.column(self._column), _TOKEN)
        self._lengths.write(lengths.astype(_LENGTH).tobytes())

    def close(self) -> None:
        pass
