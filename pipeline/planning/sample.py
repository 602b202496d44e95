"""A small sample of the corpus, which the job's own stage reads and tokenizes, counted and timed.

It is read in this process. A first batch loads the compiled kernels, or compiles them, and is not
timed. Times are processor times, which other programs affect little.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from corpusmill.corpus.filters.duplicates import hash_documents
from corpusmill.objectives.documents import unpack_documents
from corpusmill.objectives.random_documents import Pool
from pipeline.graph import Job, plan_preparation
from pipeline.planning.sample_parts import SamplePart, choose_parts
from pipeline.preparation.inputs import InputFile
from transforms.elements import Task
from transforms.prepare import TaskDoFn
from transforms.recovery.workplace import Workplace
from transforms.shuffle import BUFFER_BYTES
from transforms.spill import Spill
from transforms.tally import COUNTS

# What is read to measure how long it takes, where the text of the sample is not wanted.
TIMED_BYTES = 4 * 10**6


@dataclass(frozen=True)
class Sample:
    """What was read and tokenized.

    Attributes:
        documents: the batches of tokenized documents, in the order of the corpus.
        stored_bytes: bytes of the input's files that they stand for.
        read_seconds: processor time to read and tokenize them.
        spill_seconds: processor time to write them to temporary files once.
    """

    documents: list[pa.RecordBatch]
    stored_bytes: float = 0.0
    read_seconds: float = 0.0
    spill_seconds: float = 0.0

    def to_pool(self) -> Pool:
        """Return the documents as a sample of which examples are built, all for one split."""
        index, tokens = unpack_documents(pa.concat_batches(self.documents))
        ends = np.array([0, len(index.ids), len(index.ids)])
        return Pool(index.ids, index.offsets, index.sentence_offsets, tokens, ends)


def read_sample(job: Job, files: Sequence[InputFile], num_bytes: int) -> Sample:
    """Read and tokenize a sample of about `num_bytes` bytes.

    Args:
        job: of the corpus, or of a part of it.
        files: its files.
        num_bytes: size of the sample.
    """
    if not any(file.bytes for file in files):
        return Sample([])
    with TemporaryDirectory(prefix="corpusmill-") as folder:
        # All text counts, however often its source is taken.
        job = replace(job, sources=(), place=Workplace(folder))
        choose = partial(choose_parts, files, job.documents, num_bytes, folder)
        sample = _read_parts(job, choose())
        # The parts may lie between the blocks of the files.
        return sample if sample.documents else _read_parts(job, choose(in_ranges=False))


def _read_parts(job: Job, parts: Sequence[SamplePart]) -> Sample:
    reader = _PartReader(plan_preparation(job, 0))
    _spill(job, islice(reader.read(parts, job.filters.drop_duplicates), 1))
    began, reader.stored_bytes = time.process_time(), 0.0
    documents = list(reader.read(parts, job.filters.drop_duplicates))
    read = time.process_time()
    _spill(job, documents)
    return Sample(documents, reader.stored_bytes, read - began, time.process_time() - read)


class _PartReader(TaskDoFn):
    """Reads and tokenizes parts of a corpus as tasks of the job.

    Attributes:
        stored_bytes: bytes of the input's files that the parts stand for, which were read.
    """

    stored_bytes = 0.0

    def read(self, parts: Sequence[SamplePart], hashes: bool) -> Iterator[pa.RecordBatch]:
        """Yield the tokenized documents of parts, hashed as where duplicates are dropped."""
        for number, part in enumerate(parts):
            task, text_bytes, is_stopped = Task(number, "", 0, 0), 0, False
            for text, documents in self.prepare(task, [part.range]):
                if hashes:
                    hash_documents(text, 0)
                if documents.num_rows:
                    yield documents
                text_bytes += text.nbytes
                is_stopped = part.text_bytes is not None and text_bytes >= part.text_bytes
                if is_stopped:
                    break
            counts = Counter(dict(count for tag, count in self.finish(task) if tag == COUNTS))
            self.stored_bytes += _count_stored(part, counts, is_stopped)


def _count_stored(part: SamplePart, counts: Counter[str], is_stopped: bool) -> float:
    """Return the bytes of the input that a part stands for."""
    if part.stored_bytes is not None:
        return part.stored_bytes
    read, length = counts["read.bytes"], (part.range.end or 0) - part.range.start
    # Until it is stopped a reader has counted a block that it has not read to its end.
    return min(read, counts["tokenize.text_bytes"], length) if is_stopped else read


def _spill(job: Job, batches: Iterable[pa.RecordBatch]) -> None:
    spill = Spill(job.place.temp_folder, BUFFER_BYTES)
    for documents in batches:
        spill.add(documents, job.routes.buckets(documents))
    spill.write()
