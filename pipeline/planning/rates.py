"""Rates: the counted and timed work of a sample, in proportion to its size."""

import json
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from apache_beam.coders import registry

from corpusmill.dataset.manifest import Shard
from pipeline.graph import Job
from pipeline.planning.sample_run import SampleRun
from transforms.elements import Segment


@dataclass(frozen=True)
class Rates:
    """What a byte of the corpus, a token or an example takes.

    The corpus is measured in bytes of its files as they are stored.

    Attributes:
        text: bytes of text, per byte of the corpus.
        stored: bytes of tokenized documents in memory, per byte of the corpus.
        documents: tokenized documents, per byte of the corpus.
        tokens: tokens, per byte of the corpus.
        examples: examples, per token and repeat.
        rows: written rows, per example.
        sorted: bytes of an example while it is sorted.
        written: bytes of an example in its shard.
        row_tokens: tokens in written rows, per example.
        message: bytes of a segment besides its documents.
        reference: bytes of a reference to a segment as it is shuffled.
        task_counts: elements with counts per task.
        shard_counts: elements with counts per shard.
        shard_entry: bytes of a shard's entry in the manifest.
        process: bytes of memory of a process before it works.
        prepare_seconds: processor seconds to read, tokenize and spill, per byte of the corpus.
        hash_seconds: to read and hash documents, per byte of the corpus.
        merge_seconds: to merge tokenized documents, per byte of them.
        pool_seconds: to write the pool, per byte of it.
        build_seconds: to build, sort and write, per example.
    """

    text: float
    stored: float
    documents: float
    tokens: float
    examples: float
    rows: float
    sorted: float
    written: float
    row_tokens: float
    message: float
    reference: float
    task_counts: float
    shard_counts: float
    shard_entry: float
    process: float
    prepare_seconds: float
    hash_seconds: float
    merge_seconds: float
    pool_seconds: float
    build_seconds: float


def compute_rates(run: SampleRun, job: Job) -> Rates:
    """Return the rates of a sample that a job's stages have built."""
    counts, seconds = run.counts, run.seconds
    stored, tokens = max(1.0, run.stored_bytes), counts["tokenize.tokens"]
    examples = max(1, counts["build.examples"])
    empty = pa.RecordBatch.from_pylist([], job.tokenizing.schema)
    entry = Shard("train-00000-of-99999.parquet", 10**9, "0" * 64, 10**6, 10**9)
    return Rates(
        text=counts["tokenize.text_bytes"] / stored,
        stored=run.document_bytes / stored,
        documents=counts["tokenize.documents"] / stored,
        tokens=tokens / stored,
        examples=examples / max(1, tokens * job.objective.repeats),
        rows=counts["write.rows"] / examples,
        sorted=run.built_bytes / examples,
        written=sum(file.bytes for file in run.files) / examples,
        row_tokens=sum(file.tokens for file in run.files) / examples,
        message=empty.serialize().size,
        reference=_encoded_bytes(run.segments),
        task_counts=run.task_counts,
        shard_counts=run.shard_counts,
        shard_entry=len(json.dumps(msgspec.structs.asdict(entry), indent=1)),
        process=run.process_bytes,
        prepare_seconds=seconds["prepare"] / stored,
        hash_seconds=seconds.get("hash", 0.0) / stored,
        merge_seconds=seconds["merge"] / max(1, run.document_bytes),
        pool_seconds=seconds.get("pool", 0.0) / max(1, run.pool_bytes),
        build_seconds=seconds["build"] / examples,
    )


def _encoded_bytes(segments: list[Segment]) -> float:
    """Return the mean size of a reference to a segment as it is shuffled, with its key."""
    coder = registry.get_coder(Segment)
    sizes = [4 + len(coder.encode(segment)) for segment in segments]
    return sum(sizes) / max(1, len(sizes))
