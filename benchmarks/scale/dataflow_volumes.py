"""What a job moves for a corpus of any size: elements, bytes and requests, by its own arithmetic.

The ratios come from the manifest of a run of the same objective and options on a part of the
corpus; the numbers of tasks, shards, merges and messages from the code that cuts them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from corpusmill.arrays.columns import smallest_integer
from corpusmill.layout.placement import Layout
from corpusmill.objectives.objective import Objective
from corpusmill.tokenization.encoding import tokenized_schema
from corpusmill.tokenization.words.word_marks import marked_dtype
from pipeline.options import DatasetOptions
from pipeline.preparation.assembly import lay_out
from transforms.plan import FILE_BYTES
from transforms.shuffle import BUFFER_BYTES, plan_routes

# A segment, its key and its path as bytes between stages; rows and counts are as small.
REFERENCE_BYTES = 160

# What one request reads where a file is read from one end to the other, and what one lists.
READ_BYTES, LISTED = 4 * 2**20, 1000

# What a task reads, on every engine but the local one.
RANGE_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Ratios:
    """What a byte of text becomes, measured.

    Attributes:
        objective: name of it.
        repeats: how many times each document is built.
        token_dtype: of stored ids.
        documents: a byte of text.
        sentences: a byte of text.
        tokens: a byte of text.
        output: bytes of shards a byte of text, all repeats together.
        pool_tokens: most tokens of the pool; 0 without one.
    """

    objective: str
    repeats: int
    token_dtype: str
    documents: float
    sentences: float
    tokens: float
    output: float
    pool_tokens: int

    @property
    def token_bytes(self) -> int:
        """Of a stored id."""
        return int(pa.type_for_alias(self.token_dtype).bit_width) // 8

    @property
    def stored(self) -> float:
        """Bytes of documents as token ids a byte of text, without what messages begin with."""
        # An id and a place for each document, a place for each sentence.
        return 12 * self.documents + 4 * self.sentences + self.token_bytes * self.tokens


def read_ratios(manifest: Mapping[str, Any]) -> Ratios:
    """The ratios of a run.

    Args:
        manifest: of its data set.
    """
    counts, objective = manifest["counts"], manifest["objective"]
    size = counts["read.bytes"]
    tokenizer = manifest["tokenizer"]
    choose = marked_dtype if "words" in tokenizer else _plain_dtype
    output = sum(of["bytes"] for split in manifest["splits"].values() for of in split["shards"])
    return Ratios(
        objective["name"],
        objective["repeats"],
        choose(tokenizer["vocab_size"]).name,
        counts["tokenize.documents"] / size,
        max(counts["read.sentences"], counts["tokenize.documents"]) / size,
        counts["tokenize.tokens"] / size,
        output / size,
        objective["options"].get("pool_tokens", 0) if "pool.tokens" in counts else 0,
    )


def _plain_dtype(vocab_size: int) -> np.dtype:
    return smallest_integer(max(vocab_size - 1, np.iinfo(np.int16).max))


@dataclass(frozen=True)
class Volumes:
    """What a job moves.

    Attributes:
        tasks: that read.
        shards: that are written.
        copies: how often each document travels or is read.
        read: bytes of text.
        stored: bytes of documents as token ids, once.
        temporary: bytes written to temporary files, shards and pool among them.
        fetched: bytes read from them.
        written: bytes of shards.
        elements: that pass through the engine's shuffle.
        shuffled: their bytes, once.
        small_reads: requests that workers wait for one after the other.
        puts: requests that write, copy or list.
        gets: requests that read or ask.
    """

    tasks: int
    shards: int
    copies: int
    read: int
    stored: int
    temporary: int
    fetched: int
    written: int
    elements: int
    shuffled: int
    small_reads: int
    puts: int
    gets: int


def overhead_of_messages(token_dtype: str) -> int:
    """What an Arrow message of documents has beside them."""
    nothing: pa.RecordBatch = pa.RecordBatch.from_pylist([], tokenized_schema(token_dtype))
    return int(nothing.serialize().size)


def estimate(
    ratios: Ratios,
    corpus_bytes: int,
    files: int = 1,
    shards: int | None = None,
    tasks: int | None = None,
) -> Volumes:
    """What a job moves.

    Args:
        ratios: of a run of the same objective.
        corpus_bytes: of text.
        files: of the corpus.
        shards: of the data set; by default as many as the job makes.
        tasks: that read; by default as many as the job cuts.
    """
    tasks = tasks or math.ceil((corpus_bytes + files * FILE_BYTES) / RANGE_BYTES)
    of_repeats = cast("Objective", SimpleNamespace(repeats=ratios.repeats))
    layout = lay_out(DatasetOptions(("-",), "-", "-", shards), of_repeats, corpus_bytes)
    moved = _shuffle(ratios, corpus_bytes, tasks, layout)
    written = round(ratios.output * corpus_bytes)
    candidates = _candidate_bytes(ratios, corpus_bytes)
    # Each task and shard looks for its entry in the journal, writes it, and asks for its files.
    units = tasks + moved.merges + layout.shards
    created = moved.files + (tasks if candidates else 0) + layout.shards + units
    return Volumes(
        tasks=tasks,
        shards=layout.shards,
        copies=len(layout.shards_of(0, ratios.repeats)),
        read=corpus_bytes,
        stored=round(ratios.stored * corpus_bytes),
        temporary=moved.written + 2 * candidates + written,
        fetched=moved.read + candidates,
        written=written,
        elements=moved.elements + tasks + layout.shards,
        shuffled=moved.shuffled + (tasks + layout.shards) * REFERENCE_BYTES,
        small_reads=moved.reads + (tasks if candidates else 0),
        # The commit copies shards to their names and lists what it removes.
        puts=created + layout.shards + math.ceil(created / LISTED),
        gets=math.ceil(corpus_bytes / READ_BYTES) + files + 2 * units + created + moved.reads,
    )


@dataclass(frozen=True)
class _Moved:
    """What the shuffle takes."""

    files: int = 0
    merges: int = 0
    written: int = 0
    read: int = 0
    reads: int = 0
    elements: int = 0
    shuffled: int = 0


def _shuffle(ratios: Ratios, corpus_bytes: int, tasks: int, layout: Layout) -> _Moved:
    stored = ratios.stored * corpus_bytes
    routes = plan_routes(layout, 0.0, ratios.repeats, tasks, round(stored))
    head = overhead_of_messages(ratios.token_dtype)
    files = tasks * math.ceil(stored / tasks / BUFFER_BYTES)
    documents = ratios.documents * corpus_bytes
    segments = _segments(files, min(routes.groups, layout.shards), documents)
    copies = len(layout.shards_of(0, ratios.repeats))
    first = round(stored + segments * head)
    if not routes.two_levels:
        references = segments * copies
        return _Moved(
            files=files,
            written=first,
            read=first * copies,
            reads=references,
            elements=references,
            shuffled=references * REFERENCE_BYTES,
        )
    merges = math.ceil(tasks / routes.tasks_a_merge) * routes.groups
    merged_files = merges * math.ceil(stored / merges / BUFFER_BYTES)
    merged = _segments(merged_files, layout.shards / routes.groups, documents)
    second = round(stored + merged * head)
    references = segments + merged * copies
    return _Moved(
        files=files + merged_files,
        merges=merges,
        written=first + second,
        read=first + second * copies,
        reads=references,
        elements=references,
        shuffled=references * REFERENCE_BYTES,
    )


def _segments(buffers: int, buckets: float, documents: float) -> int:
    """Parts of buffers that have documents, which fall into buckets at random."""
    parts = buffers * buckets
    return max(1, round(parts * -math.expm1(-documents / parts)))


def _candidate_bytes(ratios: Ratios, corpus_bytes: int) -> int:
    tokens = min(ratios.pool_tokens, round(ratios.tokens * corpus_bytes))
    return tokens * ratios.token_bytes
