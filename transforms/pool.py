"""The pool of random documents: candidates from every range, one pool from the candidates."""

from collections.abc import Iterable, Iterator
from typing import BinaryIO
from uuid import uuid4

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from corpusmill import pool as pools
from corpusmill import ragged
from corpusmill.placement import TRAIN, VALIDATION, assign_splits
from transforms.elements import Candidates, NamedOutputs
from transforms.read import create_file, open_file
from transforms.tally import COUNTS, Count

POOL = "pool"


class KeepCandidates(beam.DoFn):
    """The documents of a batch that may enter the pool.

    Args:
        seed: the data set's seed.
        limit: largest priority (`corpusmill.pool.candidate_limit`).
    """

    def __init__(self, seed: int, limit: int) -> None:
        self._seed, self._limit = seed, limit

    def process(self, element: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Filter by the ids alone, before anything is tokenized."""
        priorities = pools.priorities(self._seed, element.column("document").to_numpy())
        kept = priorities <= np.uint64(self._limit)
        if kept.all():
            yield element
        elif kept.any():
            yield element.filter(pa.array(kept))


class _SpillCandidates(beam.DoFn):
    """Candidates to one file a bundle; the references go on."""

    def __init__(self, temp_folder: str) -> None:
        self._temp_folder = temp_folder

    def start_bundle(self) -> None:
        self._written: list[Candidates] = []
        self._path = FileSystems.join(self._temp_folder, f"candidates-{uuid4().hex}.arrow")
        self._stream: BinaryIO | None = None
        self._offset = 0

    def process(self, element: pa.RecordBatch) -> None:
        if self._stream is None:
            self._stream = create_file(self._path)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, element.schema) as writer:
            writer.write_batch(element)
        message = sink.getvalue()
        self._stream.write(message)
        first = str(element.column("document")[0].as_py())
        self._written.append(Candidates(first, self._path, self._offset, message.size))
        self._offset += message.size

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._stream is not None:
            self._stream.close()
        window = GlobalWindow()
        for candidates in self._written:
            yield WindowedValue((0, candidates), window.max_timestamp(), (window,))


class _WritePool(beam.DoFn):
    """All candidates to one pool, in two passes over their files."""

    def __init__(
        self, seed: int, pool_tokens: int, validation_share: float, token_dtype: str, folder: str
    ) -> None:
        self._seed, self._pool_tokens, self._share = seed, pool_tokens, validation_share
        self._token_dtype, self._folder = token_dtype, folder

    def process(self, element: tuple[int, Iterable[Candidates]]) -> Iterator[str]:
        path = FileSystems.join(self._folder, f"pool-{uuid4().hex}")
        FileSystems.mkdirs(path)
        # Batches never overlap, so that the order of their first ids is the order of all ids.
        candidates = sorted((c for c in element[1] if c.path), key=lambda c: int(c.first_document))
        shape, limit, given = self._measure(candidates)
        batches = (
            chosen
            for split in ((TRAIN, VALIDATION) if self._share else (TRAIN,))
            for batch in map(_load, candidates)
            if (chosen := self._keep(batch, limit, split)).num_rows
        )
        streams = [create_file(FileSystems.join(path, f"{name}.npy")) for name in pools.ARRAYS]
        pools.write_pool(batches, shape, streams)
        yield path
        yield TaggedOutput(COUNTS, ("pool.candidates", given))
        yield TaggedOutput(COUNTS, ("pool.documents", shape.documents))
        yield TaggedOutput(COUNTS, ("pool.tokens", shape.tokens))

    def _measure(self, candidates: list[Candidates]) -> tuple[pools.PoolShape, int, int]:
        sizes = [_sizes(_load(candidate)) for candidate in candidates]
        ids, sentences, tokens = (
            np.concatenate([size[part] for size in sizes]) if sizes else np.empty(0, np.uint64)
            for part in range(3)
        )
        priorities = pools.priorities(self._seed, ids)
        limit = pools.choose(priorities, ids, tokens, self._pool_tokens)
        kept = priorities <= np.uint64(limit) if limit >= 0 else np.zeros(len(ids), np.bool_)
        train = assign_splits(self._seed, ids[kept], self._share) == TRAIN
        shape = pools.PoolShape(
            int(kept.sum()),
            int(sentences[kept].sum()),
            int(tokens[kept].sum()),
            int(train.sum()),
            np.dtype(self._token_dtype),
        )
        return shape, limit, len(ids)

    def _keep(self, batch: pa.RecordBatch, limit: int, split: int) -> pa.RecordBatch:
        ids = batch.column("document").to_numpy()
        kept = pools.priorities(self._seed, ids) <= np.uint64(max(limit, 0))
        kept &= (assign_splits(self._seed, ids, self._share) == split) & (limit >= 0)
        return batch if kept.all() else batch.filter(pa.array(kept))


def _load(candidates: Candidates) -> pa.RecordBatch:
    with open_file(candidates.path) as stream:
        stream.seek(candidates.offset)
        return pa.ipc.open_stream(stream.read(candidates.length)).read_next_batch()


def _sizes(batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sentences, document_offsets = ragged.from_arrow(batch.column("sentences"))
    _, sentence_offsets = ragged.from_arrow(sentences)
    tokens = np.diff(sentence_offsets[document_offsets])
    return batch.column("document").to_numpy(), np.diff(document_offsets), tokens


class SamplePool(beam.PTransform):
    """Draw the pool from tokenized candidates: the collections POOL (one path) and COUNTS.

    Args:
        seed: the data set's seed.
        pool_tokens: the budget.
        validation_share: expected share of documents in the validation split.
        token_dtype: NumPy name of the type of a token id.
        temp_folder: where candidates and the pool lie; every worker must reach it.
    """

    def __init__(
        self,
        seed: int,
        pool_tokens: int,
        validation_share: float,
        token_dtype: str,
        temp_folder: str,
    ) -> None:
        super().__init__()
        self._seed, self._pool_tokens, self._share = seed, pool_tokens, validation_share
        self._token_dtype, self._temp_folder = token_dtype, temp_folder

    def expand(self, documents: beam.PCollection[pa.RecordBatch]) -> NamedOutputs:
        """Spill candidates, bring the references together, write one pool."""
        spilled = documents | "SpillCandidates" >> beam.ParDo(
            _SpillCandidates(self._temp_folder)
        ).with_output_types(tuple[int, Candidates])
        # A corpus without any candidate still needs a pool, if an empty one.
        nothing = documents.pipeline | "CreateNoCandidates" >> beam.Create(
            [(0, Candidates("0", "", 0, 0))]
        ).with_output_types(tuple[int, Candidates])
        write = _WritePool(
            self._seed, self._pool_tokens, self._share, self._token_dtype, self._temp_folder
        )
        return (
            (spilled, nothing)
            | "JoinCandidates" >> beam.Flatten()
            | "GatherCandidates" >> beam.GroupByKey()
            | "WritePool"
            >> beam.ParDo(write)
            .with_output_types(str, **{COUNTS: Count})
            .with_outputs(COUNTS, main=POOL)
        )

    def display_data(self) -> dict[str, str | int]:
        """The budget, and the seed as text: Beam shows no integer above 2**63."""
        return {"pool_tokens": self._pool_tokens, "seed": str(self._seed)}
