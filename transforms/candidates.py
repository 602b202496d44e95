"""Candidates for the pool of random documents: each task writes its own, and a tree joins them."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.layout.sorting import JOINED_BYTES, join_small
from corpusmill.objectives import random_documents as pools
from transforms.checksums import compute_checksum, read_intact
from transforms.elements import Candidates
from transforms.storage.files import create_file, new_path
from transforms.storage.parallel import map_ahead
from transforms.tally import Tally

CANDIDATES = "candidates"

# Size from which candidates are written. In a large corpus a task has few, which make one reference
# together.
CANDIDATE_BYTES = 2**20


class _CandidateWriter:
    """Writes batches of documents to a new file, created with the first of them.

    Args:
        folder: folder of the file.
    """

    def __init__(self, folder: str) -> None:
        self._path = new_path(folder, "candidates", ".arrow")
        self._stream: BinaryIO | None = None
        self._offset = 0

    def write(self, documents: pa.RecordBatch, number: int = 0) -> Candidates:
        """Write a batch, and return the reference to it.

        Args:
            documents: the batch.
            number: number of the unit of work.
        """
        if self._stream is None:
            self._stream = create_file(self._path)
        sizes = pools.measure_documents(documents)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, documents.schema) as writer:
            writer.write_batch(documents)
        messages = (sizes.tobytes(), sink.getvalue().to_pybytes())
        checks = [
            check for message in messages for check in (len(message), compute_checksum(message))
        ]
        begin, first = self._offset, str(sizes[0, 0])
        for message in messages:
            self._stream.write(message)
            self._offset += len(message)
        reference = Candidates(first, documents.num_rows, self._path, begin, *checks)
        return reference._replace(number=number)

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()


class CandidateFile:
    """A file of documents that may enter the pool, created with the first of them.

    The documents must follow each other in the corpus: batches of candidates never overlap.

    Args:
        seed: seed of the data set.
        limit: largest priority of a candidate
            (`corpusmill.objectives.random_documents.candidate_limit`).
        temp_folder: folder of the file.
        tally: counts of the task.
    """

    def __init__(self, seed: int, limit: int, temp_folder: str, tally: Tally) -> None:
        self._seed, self._limit, self._tally = seed, limit, tally
        self._waiting: list[pa.RecordBatch] = []
        self._writer = _CandidateWriter(temp_folder)
        self._written: list[Candidates] = []

    def add(self, documents: pa.RecordBatch) -> None:
        """Keep the candidates of a batch, without facts of the documents."""
        documents = documents.select(["document", "sentences"])
        candidates = pools.keep_candidates(self._seed, documents, self._limit)
        if not candidates.num_rows:
            return
        self._tally.add("candidates.documents", candidates.num_rows)
        self._waiting.append(candidates)
        if sum(batch.nbytes for batch in self._waiting) >= CANDIDATE_BYTES:
            self._write()

    def _write(self) -> None:
        self._written.append(self._writer.write(pa.concat_batches(self._waiting)))
        self._waiting = []

    def close(self, number: int = 0) -> list[Candidates]:
        """Write the remaining candidates, and return the references to all of them.

        Args:
            number: number of the task.
        """
        if self._waiting:
            self._write()
        self._writer.close()
        return [candidates._replace(number=number) for candidates in self._written]


def order_candidates(candidates: Sequence[Candidates]) -> list[Candidates]:
    """Return references in the order of the corpus.

    Batches never overlap, so that the order of their first ids is the order of all ids.
    """
    return sorted(candidates, key=lambda one: int(one.first_document))


def join_candidates(
    number: int, candidates: Sequence[Candidates], folder: str
) -> Iterator[Candidates]:
    """Join the candidates of neighboring tasks to batches of some megabytes, in a new file.

    Args:
        number: number of the unit of work.
        candidates: references to them.
        folder: folder of the file.
    """
    writer = _CandidateWriter(folder)
    ordered = order_candidates(candidates)
    for documents in join_small(map_ahead(load_candidates, ordered), JOINED_BYTES):
        yield writer.write(documents, number)
    writer.close()


def read_sizes(candidates: Candidates) -> npt.NDArray[np.uint64]:
    """Read the sizes of candidates, uint64[documents, 3].

    Raises:
        DamagedFileError: their file is damaged.
    """
    # In another process Beam's type of an element has its fields alone.
    sizes, _ = Candidates(*candidates).parts
    return np.frombuffer(read_intact(sizes), np.uint64).reshape(-1, 3)


def load_candidates(candidates: Candidates) -> pa.RecordBatch:
    """Read candidates.

    Raises:
        DamagedFileError: their file is damaged.
    """
    _, stream = Candidates(*candidates).parts
    return pa.ipc.open_stream(read_intact(stream)).read_next_batch()
