"""The steps of a build, one after another on one core, each beside a pass that does nothing else.

    python -m benchmarks.kernels.build_steps [--objective bert] [--bytes 54000000] [--rounds 3]

The steps are those of the job for a shard of the whole text, without Beam and temporary files.
Megabytes are those that a step reads or makes, whichever are more, and stand beside what this
machine does with as many where nothing else is done: a copy from memory to memory, zstd of a page
again and again, one pass of SHA-256 and writes of a block to a file. The shares are those of a
build with the objective's number of repeats, for which text is read and tokenized once.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.builds import FOLDER, MEGABYTE, make_corpus, make_tokenizer
from benchmarks.console import make_parser, print_table
from benchmarks.job.floor import Plan, _encoded, encode_part, make_plan, write_whole_pool
from benchmarks.measure import take_turns, time_call
from corpusmill.arrays.columns import tokens_of
from corpusmill.arrays.distinct import hash_rows
from corpusmill.arrays.ragged import RowBuffer, from_arrow
from corpusmill.commands.command_line import parse
from corpusmill.formats.parquet import PagesWriter
from corpusmill.formats.shard_formats import GROUP_ROWS
from corpusmill.layout.sorting import add_keys, keyed_schema, sort_rows
from corpusmill.objectives import random_documents as pools
from corpusmill.objectives.objective import Repeat
from corpusmill.provenance.spans_table import SpansWriter
from pipeline.command_line import JOB

_BLOCK = np.ones(2**26, np.uint8)
_FIRST, _COPY = "read, tokenize", "limit of all others"
_LEAST_PAGE_BYTES = 2**12  # what is smaller describes pages


class Step(NamedTuple):
    """A measured step.

    Attributes:
        seconds: of the processor.
        bytes: that it read or made.
    """

    seconds: float
    bytes: int


class _Pieces(list[bytes]):
    """A sink that keeps what is written."""

    closed = False

    def write(self, data: bytes) -> int:
        self.append(bytes(data))
        return len(data)


class Steps:
    """Takes the steps of one pass over a text, one after another.

    Args:
        plan: the build.
        text_bytes: the size of its text.

    Attributes:
        measured: the steps so far.
    """

    def __init__(self, plan: Plan, text_bytes: int) -> None:
        self._plan, self._text_bytes = plan, text_bytes
        self._objective, self._folder = plan.objective, Path(plan.folder)
        self.measured: dict[str, Step] = {}

    def take(self) -> None:
        """Take all steps."""
        groups = self._build_and_sort()
        size = sum(group.nbytes for group in groups)
        objective, tokens = self._objective, tokens_of(self._objective.columns).name
        self._time(
            "hash rows",
            lambda: [hash_rows(*from_arrow(rows.column(tokens))) for rows in groups],
            size,
        )
        self._time(
            "count tokens",
            lambda: chain(*(objective.measure(rows).values() for rows in groups)),
            size,
        )
        rows = self._time("finish rows", lambda: (objective.finish(g, False) for g in groups), size)
        self._time("provenance: spans", lambda: self._record(groups))
        pages = self._time(
            "encode Parquet", lambda: self._encode(rows), sum(r.nbytes for r in rows)
        )
        self._pack([page for page in pages if len(page) >= _LEAST_PAGE_BYTES])

    def _time(self, name: str, work: Callable[[], Iterable[Any]], read: int = 0) -> list[Any]:
        made, seconds = time_call(lambda: list(work()))
        size = sum(getattr(piece, "nbytes", 0) or len(piece) for piece in made)
        self.measured[name] = Step(seconds, max(read, size))
        return made

    def _build_and_sort(self) -> list[pa.RecordBatch]:
        objective, seed = self._objective, self._plan.seed
        documents = self._time(_FIRST, lambda: _read(self._plan), self._text_bytes)
        pool = None
        if objective.pool_tokens:
            write_whole_pool(documents, self._folder)
            pool = pools.open_pool(str(self._folder))

        def build(batch: pa.RecordBatch) -> pa.RecordBatch:
            splits = np.zeros(batch.num_rows, np.uint8)
            return objective.build(batch, Repeat(0, pool, splits, seed))

        built = self._time("build, mask", lambda: map(build, documents))
        buffer = RowBuffer(keyed_schema(objective.built_columns), 2**28)

        def sort() -> Iterator[pa.RecordBatch]:
            buffer.clear()
            for batch in built:
                buffer.add(add_keys(batch, seed))
            return sort_rows([buffer.rows()], GROUP_ROWS)

        list(sort())  # the memory of the buffer is used again for each shard
        return self._time("sort", sort)

    def _record(self, groups: Sequence[pa.RecordBatch]) -> _Pieces:
        pieces = _Pieces()
        writer = SpansWriter(pieces)
        for group in groups:
            writer.add(group)
        writer.close()
        return pieces

    def _encode(self, groups: Sequence[pa.RecordBatch]) -> _Pieces:
        pieces = _Pieces()
        options = replace(self._plan.output, compression="none")
        writer = PagesWriter(pieces, self._objective.columns, options)
        for group in groups:
            writer.write(group)
        writer.close()
        return pieces

    def _pack(self, pages: Sequence[bytes]) -> None:
        codec, digest = pa.Codec("zstd", compression_level=1), hashlib.sha256()
        size = sum(map(len, pages))
        packed = self._time("zstd", lambda: (codec.compress(p, asbytes=True) for p in pages), size)
        size = sum(map(len, packed))
        self._time("SHA-256", lambda: filter(None, map(digest.update, packed)), size)
        with TemporaryFile(buffering=0, dir=self._folder) as file:
            self._time("write files", lambda: (b"" for p in packed if not file.write(p)), size)
        self.measured |= _measure_limits(codec, max(pages, key=len), self._folder)


def _read(plan: Plan) -> list[pa.RecordBatch]:
    """Read and tokenize the text; the plain loop keeps it in its process for the next step."""
    _encoded.clear()
    encode_part(plan, 0, 1)
    return list(_encoded)


def measure_steps(plan: Plan, text_bytes: int) -> dict[str, Step]:
    """Measure all steps, and what they are compared with."""
    steps = Steps(plan, text_bytes)
    steps.take()
    return steps.measured


def _measure_limits(codec: pa.Codec, page: bytes, folder: Path) -> dict[str, Step]:
    """Measure the passes that do nothing else, by `_LIMITS` and for a copy."""
    times, block = len(_BLOCK) // len(page), _BLOCK.tobytes()
    with TemporaryFile(buffering=0, dir=folder) as file:
        calls: dict[str, Callable[[], object]] = {
            _COPY: _BLOCK.copy,
            "limit of zstd": lambda: [codec.compress(page, asbytes=True) for _ in range(times)],
            "limit of SHA-256": lambda: hashlib.sha256(block),
            "limit of write files": lambda: file.write(block),
        }
        return {name: Step(time_call(call)[1], len(_BLOCK)) for name, call in calls.items()}


def main() -> None:
    """Measure and print the table."""
    parser = make_parser(__doc__, folder=FOLDER, objective="bert", bytes=54 * MEGABYTE, rounds=3)
    arguments = parser.parse_args()
    corpus = make_corpus(arguments.folder, arguments.bytes)
    tokenizer = make_tokenizer(arguments.folder, corpus, arguments.objective)
    with TemporaryDirectory(dir=arguments.folder) as folder:
        files = ("--input", corpus, "--tokenizer", tokenizer, "--output", folder, "--seed", "1")
        plan = make_plan(parse([arguments.objective, *map(str, files)], JOB)[1])
        repeats = plan.objective.repeats
        calls = {"": lambda: measure_steps(plan, arguments.bytes)}
        measured = take_turns(calls, arguments.rounds + 1)[""][1:]  # the first compiles
    rates = {
        name: median(steps[name].bytes / steps[name].seconds / MEGABYTE for steps in measured)
        for name in measured[0]
    }
    names = [name for name in rates if not name.startswith("limit")]
    seconds = {
        name: median(steps[name].seconds for steps in measured) * (1 if name == _FIRST else repeats)
        for name in names
    }
    total = sum(seconds.values())
    print_table(
        (f"{arguments.objective}, {arguments.bytes / MEGABYTE:,.0f} MB, {repeats} repeats",
         "processor seconds", "share", "MB", "MB/s", "nothing else, MB/s"),
        (
            (name, f"{seconds[name]:,.2f}", f"{100 * seconds[name] / total:.0f} %",
             f"{rates[name] * seconds[name]:,.0f}", f"{rates[name]:,.0f}",
             f"{rates.get(f'limit of {name}', rates[_COPY]):,.0f}")
            for name in names
        ),
    )  # fmt: skip


if __name__ == "__main__":
    main()
