"""The pool of random documents: candidates from every range, one pool from the candidates."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO
from uuid import uuid4

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.windowed_value import WindowedValue

from corpusmill.layout.placement import TRAIN, VALIDATION, assign_splits
from corpusmill.objectives import random_documents as pools
from corpusmill.objectives.random_documents import ARRAYS, Pool, open_pool
from transforms.elements import Candidates, NamedOutputs, in_global_window
from transforms.recovery.journal import Journal, Output
from transforms.storage.files import create_file, open_file, read_part
from transforms.storage.parallel import map_ahead
from transforms.tally import COUNTS, Count, Tally

POOL, CANDIDATES = "pool", "candidates"


class CandidateFile:
    """Documents that may enter the pool, in a file that is made for the first of them.

    Args:
        seed: the data set's seed.
        limit: largest priority of a candidate
            (`corpusmill.objectives.random_documents.candidate_limit`). temp_folder: where the file
            lies. tally: of the stage "candidates". gather_bytes: kept documents wait for so many
            more, where all that are added follow each other in the corpus; 0 where others may lie
            between batches.
    """

    def __init__(
        self, seed: int, limit: int, temp_folder: str, tally: Tally, gather_bytes: int = 0
    ) -> None:
        self._seed, self._limit, self._tally = seed, limit, tally
        self._gather_bytes = gather_bytes
        self._waiting: list[pa.RecordBatch] = []
        self._path = FileSystems.join(temp_folder, f"candidates-{uuid4().hex}.arrow")
        self._stream: BinaryIO | None = None
        self._written: list[Candidates] = []
        self._offset = 0

    def add(self, documents: pa.RecordBatch) -> None:
        """Keep those of a batch that may enter."""
        candidates = pools.keep_candidates(self._seed, documents, self._limit)
        if not candidates.num_rows:
            return
        self._tally.add("documents", candidates.num_rows)
        self._waiting.append(candidates)
        if sum(batch.nbytes for batch in self._waiting) >= self._gather_bytes:
            self._write()

    def _write(self) -> None:
        if not self._waiting:
            return
        if self._stream is None:
            self._stream = create_file(self._path)
        candidates = pa.concat_batches(self._waiting)
        self._waiting = []
        sizes = pools.measure_documents(candidates)
        sink = pa.BufferOutputStream()
        sink.write(sizes)
        with pa.ipc.new_stream(sink, candidates.schema) as writer:
            writer.write_batch(candidates)
        message = sink.getvalue()
        self._stream.write(message)
        first, number = str(sizes[0, 0]), candidates.num_rows
        self._written.append(Candidates(first, number, self._path, self._offset, message.size))
        self._offset += message.size

    def close(self) -> list[Candidates]:
        """All that was kept, a batch each."""
        self._write()
        if self._stream is not None:
            self._stream.close()
        return self._written


class _SpillCandidates(beam.DoFn):
    """The documents that may enter the pool to one file a bundle; the references go on."""

    def __init__(self, seed: int, limit: int, temp_folder: str) -> None:
        self._seed, self._limit, self._temp_folder = seed, limit, temp_folder

    def setup(self) -> None:
        self._tally = Tally("candidates")

    def start_bundle(self) -> None:
        self._tally.start()
        self._file = CandidateFile(self._seed, self._limit, self._temp_folder, self._tally)

    def process(self, element: pa.RecordBatch) -> None:
        self._file.add(element)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        yield from in_global_window(self._file.close())
        yield from self._tally.finish()


class _WritePool(beam.DoFn):
    """All candidates to one pool."""

    def __init__(
        self, seed: int, pool_tokens: int, validation_share: float, token_dtype: str, folder: str
    ) -> None:
        self._seed, self._pool_tokens, self._share = seed, pool_tokens, validation_share
        self._token_dtype, self._folder = token_dtype, folder

    def process(self, element: tuple[int, Iterable[Candidates]]) -> Iterator[str]:
        outputs, _ = Journal(self._folder).once(POOL, lambda: self._write(element[1]), _files_of)
        for tag, value in outputs:
            yield TaggedOutput(tag, value) if tag else value

    def _write(self, given: Iterable[Candidates]) -> Iterator[Output]:
        path = FileSystems.join(self._folder, f"pool-{uuid4().hex}")
        FileSystems.mkdirs(path)
        # Batches never overlap, so that the order of their first ids is the order of all ids.
        candidates = sorted((c for c in given if c.path), key=lambda c: int(c.first_document))
        shape, limit, number = self._measure(candidates)
        batches = (
            chosen
            for split in ((TRAIN, VALIDATION) if self._share else (TRAIN,))
            for batch in map_ahead(_load, candidates)
            if (chosen := self._keep(batch, limit, split)).num_rows
        )
        streams = [create_file(file) for file in files_of_pool(path)]
        pools.write_pool(batches, shape, streams)
        yield "", path
        yield COUNTS, ("pool.candidates", number)
        yield COUNTS, ("pool.documents", shape.documents)
        yield COUNTS, ("pool.tokens", shape.tokens)

    def _measure(self, candidates: list[Candidates]) -> tuple[pools.PoolShape, int, int]:
        sizes = list(map_ahead(_read_sizes, candidates))
        ids, sentences, tokens = np.concatenate([np.empty((0, 3), np.uint64), *sizes]).T
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


def _read_sizes(candidates: Candidates) -> np.ndarray:
    sizes = _read(candidates, 0, candidates.documents * pools.BYTES_OF_SIZES)
    return np.frombuffer(sizes, np.uint64).reshape(-1, 3)


def _load(candidates: Candidates) -> pa.RecordBatch:
    begin = candidates.documents * pools.BYTES_OF_SIZES
    stream = _read(candidates, begin, candidates.length - begin)
    return pa.ipc.open_stream(stream).read_next_batch()


def _read(candidates: Candidates, begin: int, length: int) -> bytes:
    return read_part(candidates.path, candidates.offset + begin, length)


def files_of_pool(path: str) -> list[str]:
    """The files of a pool, in the order of `corpusmill.objectives.random_documents.ARRAYS`."""
    return [str(FileSystems.join(path, f"{name}.npy")) for name in ARRAYS]


def _files_of(outputs: Iterable[Output]) -> list[str]:
    return [file for tag, path in outputs if not tag for file in files_of_pool(path)]


def map_pool(path: str) -> Pool:
    """Map a pool; one that does not lie on this machine is copied here first."""
    if Path(path).is_dir():
        return open_pool(path)
    with TemporaryDirectory(prefix="corpusmill-pool-") as folder:
        for name in ARRAYS:
            with (
                open_file(FileSystems.join(path, f"{name}.npy")) as source,
                (Path(folder) / f"{name}.npy").open("wb") as target,
            ):
                shutil.copyfileobj(source, target, 2**20)
        # The mapping outlives the file's name.
        return open_pool(folder)


class WritePool(beam.PTransform):
    """Draw the pool from its candidates: the collections POOL (one path) and COUNTS.

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

    def expand(self, candidates: beam.PCollection[Candidates]) -> NamedOutputs:
        """Bring the references together and write one pool."""
        # A corpus without any candidate still needs a pool, if an empty one.
        nothing = candidates.pipeline | "CreateNoCandidates" >> beam.Create(
            [Candidates("0", 0, "", 0, 0)]
        ).with_output_types(Candidates)
        write = _WritePool(
            self._seed, self._pool_tokens, self._share, self._token_dtype, self._temp_folder
        )
        return (
            (candidates, nothing)
            | "JoinCandidates" >> beam.Flatten()
            | "KeyCandidates" >> beam.Map(_to_one_key)
            | "GatherCandidates" >> beam.GroupByKey()
            | "WritePool"
            >> beam.ParDo(write)
            .with_output_types(str, **{COUNTS: Count})
            .with_outputs(COUNTS, main=POOL)
        )

    def display_data(self) -> dict[str, str | int]:
        """The budget, and the seed as text: Beam shows no integer above 2**63."""
        return {"pool_tokens": self._pool_tokens, "seed": str(self._seed)}


def _to_one_key(candidates: Candidates) -> tuple[int, Candidates]:
    return 0, candidates


class SamplePool(beam.PTransform):
    """Draw the pool from tokenized documents: the collections POOL (one path) and COUNTS.

    Args:
        limit: largest priority of a candidate
            (`corpusmill.objectives.random_documents.candidate_limit`). write: how the pool is drawn
            from the candidates. seed: the data set's seed. temp_folder: where candidates lie; every
            worker must reach it.
    """

    def __init__(self, limit: int, write: WritePool, seed: int, temp_folder: str) -> None:
        super().__init__()
        self._limit, self._write, self._seed, self._temp_folder = limit, write, seed, temp_folder

    def expand(self, documents: beam.PCollection[pa.RecordBatch]) -> NamedOutputs:
        """Spill candidates in the stage of the documents, and write one pool."""
        spill = _SpillCandidates(self._seed, self._limit, self._temp_folder)
        spilled = documents | "SpillCandidates" >> beam.ParDo(spill).with_output_types(
            Candidates, **{COUNTS: Count}
        ).with_outputs(COUNTS, main=CANDIDATES)
        written = spilled[CANDIDATES] | "WritePool" >> self._write
        counts = (spilled[COUNTS], written[COUNTS]) | "JoinCounts" >> beam.Flatten()
        return {POOL: written[POOL], COUNTS: counts}
