"""What a build takes besides the bytes of its shards, for `plan` and for `inspect-corpus` alike."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from corpusmill.corpus.filters.duplicates import ROW_BYTES
from corpusmill.objectives.random_documents import BYTES_OF_SIZES, candidate_limit
from pipeline.graph import Job
from pipeline.planning.sample import Sample
from transforms.build.examples import SORT_BYTES


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


def _estimate_temporary_bytes(
    build: Mapping[str, Any], counts: Mapping[str, int], job: Job, workers: int
) -> int:
    """Estimate the bytes of a build's temporary files, without those of its shards."""
    documents, sentences, tokens = (
        counts.get(f"measure.{name}", 0) for name in ("documents", "sentences", "tokens")
    )
    width = np.dtype(job.tokenizing.token_dtype).itemsize
    # Ids, and Arrow's offsets of documents and sentences.
    document_bytes = documents * (8 + 4) + sentences * 4 + tokens * width
    pool_bytes = 0
    if pool_tokens := job.objective.pool_tokens:
        candidates = (candidate_limit(pool_tokens, job.corpus_bytes) + 1) / 2**64
        kept = min(1.0, pool_tokens / max(1, tokens))
        pool_bytes = round(candidates * (document_bytes + documents * BYTES_OF_SIZES))
        pool_bytes += round(kept * (document_bytes + documents * 4 + sentences * 4))
    shuffled: int = document_bytes * _count_levels(job)
    if job.filters.drop_duplicates:
        shuffled += ROW_BYTES * counts.get("duplicates.documents", 0) * _count_levels(job)
    return shuffled + pool_bytes + _sorted_bytes(build, workers)


def _sorted_bytes(build: Mapping[str, Any], workers: int) -> int:
    """Sum the bytes of the shards that are too large to be sorted in memory."""
    return sum(
        min(workers, split["shards"]) * split["built_bytes"]["value"] // split["shards"]
        for split in build["splits"].values()
        if split["built_bytes"]["value"] > SORT_BYTES * split["shards"]
    )
