"""The stages that measure a corpus in one pass.

    plan ─ read ─┬─ tokenize ─┬─ measure tokens ─┐
                 │            └─ sample ─────────┼─ collect: build the sample, scale it
                 └─ measure text ────────────────┘

All stages but the last are fused. Only temporary files and the numbers are written.
"""

from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np

from corpusmill.corpus.filters.duplicates import ROW_BYTES
from corpusmill.inspection.corpus_measures import measure_tokens
from corpusmill.objectives.random_documents import BYTES_OF_SIZES, candidate_limit
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from pipeline.graph import Job, plan_pool, plan_preparation, plan_tasks
from transforms.build import SORT_BYTES
from transforms.candidates import CANDIDATES
from transforms.measure import LARGEST, CollectNumbers, CollectOptions, MeasureDocuments
from transforms.pool import POOL, WritePool
from transforms.read import REJECTS
from transforms.storage.file_systems import join_path
from transforms.tally import COUNTS, SKETCHES

_NUMBERS = "numbers.json"


def numbers_path(job: Job) -> str:
    """The path of the file that the last stage writes."""
    return join_path(job.place.temp_folder, _NUMBERS)


def measure_job(
    pipeline: beam.Pipeline, job: Job, tokenizer: TokenizerFile, sample_tokens: int
) -> None:
    """Add the stages to a pipeline.

    Args:
        pipeline: a new one.
        job: as for a build.
        tokenizer: the job's tokenizer.
        sample_tokens: the size of the sample.
    """
    measure = partial(
        measure_tokens,
        special=tokenizer.special,
        vocab_size=tokenizer.vocab_size,
        marked=bool(job.objective.words),
        cut=bool(job.tokenizing.cuts),
    )
    tasks, counts = plan_tasks(pipeline, job)
    measured = tasks | "MeasureDocuments" >> MeasureDocuments(
        plan_preparation(job, sample_tokens), measure
    )
    drawn = measured[CANDIDATES] | "WritePool" >> WritePool(plan_pool(job, sample_tokens))
    options = CollectOptions(
        job.objective,
        job.output_options,
        job.layout,
        job.commit.expected,
        numbers_path(job),
    )
    counts += [measured[COUNTS], drawn[COUNTS]]
    _ = drawn[POOL] | "CollectNumbers" >> CollectNumbers(
        options, counts, measured[LARGEST], measured[REJECTS], (measured[SKETCHES],)
    )


def estimate_temporary_bytes(numbers: dict[str, Any], job: Job, workers: int) -> int:
    """Estimate the bytes of a build's temporary files, without those of its shards.

    Args:
        numbers: the numbers of the corpus.
        job: the build.
        workers: how many shards are sorted at once.
    """
    counts = numbers["counts"]
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
    levels = 1 + len(job.routes.merges)
    shuffled: int = document_bytes * levels
    if job.filters.drop_duplicates:
        shuffled += ROW_BYTES * counts.get("duplicates.documents", 0) * levels
    return shuffled + pool_bytes + _sorted_bytes(numbers["build"], workers)


def _sorted_bytes(build: dict[str, Any], workers: int) -> int:
    """Sum the bytes of the shards that are too large to be sorted in memory."""
    return sum(
        min(workers, split["shards"]) * split["built_bytes"]["value"] // split["shards"]
        for split in build["splits"].values()
        if split["built_bytes"]["value"] > SORT_BYTES * split["shards"]
    )
