"""A small sample of the corpus, which the job's own stage reads and tokenizes, counted and timed.

It is read in this process. A first batch loads the compiled kernels, or compiles them, and is not
timed. Times are processor times, which other programs affect little.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from corpusmill.corpus.decompression import DamagedStreamError, open_decompressed
from corpusmill.corpus.document_options import CorpusReading
from corpusmill.corpus.filters.duplicates import ROW_BYTES, hash_documents
from corpusmill.corpus.input_formats import piece_bits, reads_in_ranges
from corpusmill.objectives.random_documents import BYTES_OF_SIZES, Pool, candidate_limit
from corpusmill.objectives.tokenized_documents import unpack_documents
from pipeline.graph import Job, plan_preparation
from pipeline.recipe.inputs import InputFile
from transforms.corpus.listed import open_listed
from transforms.corpus.prepare import TaskDoFn
from transforms.elements import PlannedRange, Task
from transforms.recovery import Workplace
from transforms.shuffle.spill import Spill
from transforms.tally import COUNTS

# So many places of a corpus are read, at even distances.
_PLACES = 8
# Files of these formats can be cut after a line.
_OF_LINES = {"text", "lines", "json-lines"}
_BLOCK_BYTES = 2**20


class SamplePart(NamedTuple):
    """A part of a file.

    Attributes:
        range: the part.
        share: how many bytes of the input each byte stands for that is counted as read.
        text_bytes: after so many bytes of text its reading stops; None for a part that is read to
            its end.
        in_blocks: whether the bytes of a block are counted before its rows are read.
    """

    range: PlannedRange
    share: float = 1.0
    text_bytes: int | None = None
    in_blocks: bool = False


def choose_parts(
    files: Sequence[InputFile], documents: CorpusReading, num_bytes: int, folder: str,
    in_ranges: bool = True,
) -> list[SamplePart]:  # fmt: skip
    """Choose parts of a corpus, at even distances, of about so many bytes together.

    A file that cannot be read in ranges is read from its start; of one whose format has lines, the
    first lines are copied.

    Args:
        files: the corpus.
        documents: how it is read, with a format.
        num_bytes: size of the sample.
        folder: for copies.
        in_ranges: whether parts may begin within files that can be read in ranges.
    """
    # Files keep their numbers, of which ids of documents are made.
    full = [(number, file) for number, file in enumerate(files) if file.bytes]
    if in_ranges and all(
        file.splittable and reads_in_ranges(documents.of_file(number)) for number, file in full
    ):
        return list(_cut(full, num_bytes))
    chosen = full[:: -(-len(full) // _PLACES)]
    share = -(-num_bytes // len(chosen))
    return [
        _copy(file, number, share, folder)
        if documents.of_file(number).input_format in _OF_LINES
        else _read_whole(file, number, share, piece_bits(documents.of_file(number)) > 0)
        for number, file in chosen
    ]


def _read_whole(
    file: InputFile, number: int, text_bytes: int, in_blocks: bool = False
) -> SamplePart:
    share = 1.0
    if file.content.compression:
        content, stored = _read_start(file, text_bytes)
        share = stored / max(1, len(content))
    return SamplePart(file.planned._replace(file_index=number), share, text_bytes, in_blocks)


def _cut(files: Sequence[tuple[int, InputFile]], num_bytes: int) -> Iterator[SamplePart]:
    """Yield the first bytes of each of equal stretches of the corpus, or all of a small one."""
    ends = list(accumulate(file.bytes for _, file in files))
    share, places = min(1.0, num_bytes / ends[-1]), 1 if num_bytes >= ends[-1] else _PLACES
    for begin, after in pairwise(ends[-1] * place // places for place in range(places + 1)):
        stop = min(after, begin + max(1, int((after - begin) * share)))
        for (number, file), end in zip(files, ends, strict=True):
            start = end - file.bytes
            first, last = max(begin, start) - start, min(stop, end) - start
            if first < last:
                planned = file.planned._replace(file_index=number, start=first, end=last)
                yield SamplePart(planned)


def _copy(file: InputFile, number: int, num_bytes: int, folder: str) -> SamplePart:
    """Copy the first lines of a file, decompressed."""
    content, stored = _read_start(file, num_bytes)
    share = stored / max(1, len(content))
    if len(content) >= num_bytes:
        content = content[: content.rfind(b"\n", 0, num_bytes) + 1]
        if not content:  # the first line is longer
            return SamplePart(file.planned._replace(file_index=number), share, num_bytes)
    path = Path(folder) / f"copy-{number}"
    path.write_bytes(content)
    return SamplePart(PlannedRange(str(path), file.name, number, 0, len(content)), share)


def _read_start(file: InputFile, num_bytes: int) -> tuple[bytes, int]:
    """Return at least `num_bytes` of a file's text, or all, and how many stored bytes hold them."""
    content = b""
    with open_listed(file.planned) as raw:
        with suppress(DamagedStreamError):
            stream = open_decompressed(raw, file.path)
            while len(content) < num_bytes and (block := stream.read(_BLOCK_BYTES)):
                content += block
        return content, file.bytes if len(content) < num_bytes else raw.tell()


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
        job = replace(job, sources=(), place=Workplace(folder, sizes=job.place.sizes))
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


def _count_stored(part: SamplePart, counts: Counter[str], is_stopped: bool) -> int:
    """Return the bytes of the input that a part stands for."""
    read = counts["read.bytes"]
    if is_stopped and part.in_blocks:
        read = min(read, counts["tokenize.text_bytes"])
    return min(round(read * part.share), part.range.bytes or read)


def _spill(job: Job, batches: Iterable[pa.RecordBatch]) -> None:
    spill = Spill(job.place.temp_folder, job.place.sizes.buffer_bytes)
    for documents in batches:
        spill.add(documents, job.routes.buckets(documents))
    spill.write()


def add_work(
    build: dict[str, Any], counts: Mapping[str, int], job: Job, sample: Sample, corpus_bytes: int,
    workers: int,
) -> None:  # fmt: skip
    """Add the bytes of temporary files, and the processor time to read and shuffle, to an estimate.

    Args:
        build: what `corpusmill.inspection.build_estimate.estimate_build` returned.
        counts: of the corpus: "measure.documents", "measure.sentences", "measure.tokens", and
            "duplicates.documents" where duplicates are dropped.
        job: the build.
        sample: a part of the corpus that was read in this process.
        corpus_bytes: size of the corpus' files.
        workers: how many shards are sorted at once.
    """
    build["temporary_bytes"] = _estimate_temporary_bytes(build, counts, job, workers)
    times = corpus_bytes / max(1.0, sample.stored_bytes)
    # Each level of merges reads and writes the documents as the first level of files does.
    seconds = sample.read_seconds + sample.spill_seconds * _count_levels(job)
    build["processor_seconds"]["prepare"] = seconds * times


def _count_levels(job: Job) -> int:
    return 1 + len(job.routes.merges)


def _count_documents(counts: Mapping[str, int]) -> Iterator[int]:
    """Yield the numbers of documents, sentences and tokens."""
    return (counts.get(f"measure.{name}", 0) for name in ("documents", "sentences", "tokens"))


def measure_documents(counts: Mapping[str, int], job: Job) -> int:
    """Return the size of all documents as token ids in temporary files; for `counts`, `add_work`.

    These are their ids, Arrow's offsets of documents and sentences, and the tokens.
    """
    documents, sentences, tokens = _count_documents(counts)
    width = np.dtype(job.tokenizing.token_dtype).itemsize
    return documents * (8 + 4) + sentences * 4 + tokens * width


def share_candidates(job: Job) -> float:
    """Return the share of the documents that may enter the pool; 0 without one."""
    tokens = job.objective.pool_tokens
    return (candidate_limit(tokens, job.corpus_bytes) + 1) / 2**64 if tokens else 0.0


def measure_pool(counts: Mapping[str, int], job: Job) -> float:
    """Return the size of the pool; 0 without one; for `counts`, see `add_work`."""
    documents, sentences, tokens = _count_documents(counts)
    kept = min(1.0, job.objective.pool_tokens / max(1, tokens))
    return kept * (measure_documents(counts, job) + documents * 4 + sentences * 4)


def _estimate_temporary_bytes(
    build: Mapping[str, Any], counts: Mapping[str, int], job: Job, workers: int
) -> int:
    """Estimate the bytes of a build's temporary files, without those of its shards."""
    documents, _, _ = _count_documents(counts)
    document_bytes = measure_documents(counts, job)
    pool_bytes = round(share_candidates(job) * (document_bytes + documents * BYTES_OF_SIZES))
    pool_bytes += round(measure_pool(counts, job))
    shuffled: int = document_bytes * _count_levels(job)
    if job.filters.drop_duplicates:
        shuffled += ROW_BYTES * counts.get("duplicates.documents", 0) * _count_levels(job)
    return shuffled + pool_bytes + _sorted_bytes(build, workers, job.place.sizes.sort_bytes)


def _sorted_bytes(build: Mapping[str, Any], workers: int, sort_bytes: int) -> int:
    """Sum the bytes of the shards that are too large to be sorted in memory."""
    left = workers
    total = 0
    sizes = [
        (split["built_bytes"]["value"] // split["shards"], split["shards"])
        for split in build["splits"].values()
    ]
    for size, shards in sorted(sizes, reverse=True):
        at_once = min(left, shards) if size > sort_bytes else 0
        left -= at_once
        total += at_once * size
    return total
