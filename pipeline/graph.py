"""The whole pipeline on one screen.

    plan ─ read ─ keep candidates ─ tokenize ─ sample pool
                                                   │ path of the pool (a side input)
    plan ─ read ─ tokenize ─ build ◄───────────────┘
                               └─ shuffle ─ write ─ commit

Read, tokenize, build and the first half of the shuffle are one fused stage.
"""

from dataclasses import dataclass

import apache_beam as beam

from corpusmill.documents import DocumentOptions
from corpusmill.formats.parquet import ParquetOptions
from corpusmill.objective import Objective
from corpusmill.pool import candidate_limit
from corpusmill.spill import Layout, transit_schema
from transforms.build import EXAMPLES, BuildExamples
from transforms.commit import CommitDataset, CommitOptions
from transforms.elements import FileRange
from transforms.plan import PlanRanges
from transforms.pool import POOL, KeepCandidates, SamplePool
from transforms.read import DOCUMENTS, REJECTS, ReadDocuments
from transforms.shuffle import ShuffleByEngine, ShuffleByFiles
from transforms.tally import COUNTS, Count
from transforms.tokenize import TOKENS, TokenizeDocuments
from transforms.write import SHARDS, WriteShards


@dataclass(frozen=True)
class Job:
    """All that the graph is made from; every path is one that workers can open.

    Attributes:
        objective: what is built.
        ranges: the plan.
        documents: the corpus' rules.
        corpus_bytes: size of the input.
        layout: how examples are spread over shards.
        validation_share: expected share of documents in the validation split.
        shuffle: "files" or "engine".
        parquet: the file format's options.
        tokenizer_path: a complete tokenizer.json.
        token_dtype: NumPy name of the type of a token id.
        temp_folder: where files wait for the commit.
        commit: names and expectations.
    """

    objective: Objective
    ranges: tuple[FileRange, ...]
    documents: DocumentOptions
    corpus_bytes: int
    layout: Layout
    validation_share: float
    shuffle: str
    parquet: ParquetOptions
    tokenizer_path: str
    token_dtype: str
    temp_folder: str
    commit: CommitOptions


def build_dataset(pipeline: beam.Pipeline, job: Job) -> None:
    """Add the job's stages to a pipeline."""
    counts: list[beam.PCollection[Count]] = []
    pool = None
    if job.objective.pool_tokens:
        pool, counts = _sample_pool(pipeline, job)

    # A plan of its own: of one plan, both reads would be fused into the pool's stage, and all
    # documents would wait there, in the runner's memory, for the pool.
    ranges = pipeline | "PlanRanges" >> PlanRanges(job.ranges)
    read = ranges | "ReadDocuments" >> ReadDocuments(job.documents, job.temp_folder)
    tokenized = read[DOCUMENTS] | "TokenizeDocuments" >> TokenizeDocuments(
        job.tokenizer_path, job.token_dtype
    )
    built = tokenized[TOKENS] | "BuildExamples" >> BuildExamples(
        job.objective, job.layout.seed, job.validation_share, pool
    )
    shards = built[EXAMPLES] | "ShuffleExamples" >> _shuffle(job)
    written = shards | "WriteShards" >> WriteShards(
        job.objective, job.parquet, job.layout, job.temp_folder
    )
    counts += [read[COUNTS], tokenized[COUNTS], built[COUNTS], written[COUNTS]]
    _ = written[SHARDS] | "CommitDataset" >> CommitDataset(
        job.commit, job.layout, counts, read[REJECTS]
    )


def _sample_pool(
    pipeline: beam.Pipeline, job: Job
) -> tuple[beam.PCollection[str], list[beam.PCollection[Count]]]:
    seed, budget = job.layout.seed, job.objective.pool_tokens
    keep = KeepCandidates(seed, candidate_limit(budget, job.corpus_bytes))
    ranges = pipeline | "PlanPoolRanges" >> PlanRanges(job.ranges)
    read = ranges | "ReadPoolDocuments" >> ReadDocuments(
        job.documents, job.temp_folder, stage="pool_read"
    )
    kept = read[DOCUMENTS] | "KeepCandidates" >> beam.ParDo(keep)
    tokenized = kept | "TokenizeCandidates" >> TokenizeDocuments(
        job.tokenizer_path, job.token_dtype, stage="candidates"
    )
    sampled = tokenized[TOKENS] | "SamplePool" >> SamplePool(
        seed, budget, job.validation_share, job.token_dtype, job.temp_folder
    )
    return sampled[POOL], [read[COUNTS], tokenized[COUNTS], sampled[COUNTS]]


def _shuffle(job: Job) -> beam.PTransform:
    if job.shuffle == "engine":
        return ShuffleByEngine(job.layout, job.validation_share)
    return ShuffleByFiles(
        job.layout, job.validation_share, job.temp_folder, transit_schema(job.objective)
    )
