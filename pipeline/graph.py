"""The whole pipeline on one screen.

    plan ─ read ─ tokenize ─┬─ shuffle ─────────────────────────► build shards ─ commit
                            └─ sample pool ─ its path (a side input) ─┘

Read, tokenize, and what spills documents for the shuffle and for the pool are one fused stage. The
corpus is read and tokenized once; documents travel to the shards as token ids, and a shard builds
all of its examples itself.
"""

from dataclasses import dataclass

import apache_beam as beam

from corpusmill.corpus.options import DocumentOptions
from corpusmill.formats.options import OutputOptions
from corpusmill.objectives.objective import Objective
from corpusmill.placement import Layout
from corpusmill.pool import candidate_limit
from corpusmill.tokenization.encoding import tokenized_schema
from transforms.build import SHARDS, BuildShards
from transforms.commit import CommitDataset, CommitOptions
from transforms.elements import FileRange
from transforms.plan import PlanRanges
from transforms.pool import POOL, SamplePool
from transforms.read import DOCUMENTS, REJECTS, ReadDocuments
from transforms.shuffle import ShuffleByEngine, ShuffleByFiles
from transforms.tally import COUNTS
from transforms.tokenize import TOKENS, TokenizeDocuments


@dataclass(frozen=True)
class Job:
    """All that the graph is made from; every path is one that workers can open.

    Attributes:
        objective: what is built.
        ranges: the plan.
        documents: the corpus' rules.
        corpus_bytes: size of the input.
        layout: how the data set is spread over shards.
        validation_share: expected share of documents in the validation split.
        shuffle: "files" or "engine".
        output_options: how shards are written, with nothing left to the format.
        tokenizer_path: a complete tokenizer.json.
        token_dtype: NumPy name of the type of a token id, marked where the objective has a rule of
            words.
        memoize: whether ids of words may be remembered.
        special_tokens_in_text: whether special tokens that stand in the text become their ids.
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
    output_options: OutputOptions
    tokenizer_path: str
    token_dtype: str
    memoize: bool
    special_tokens_in_text: bool
    temp_folder: str
    commit: CommitOptions


def build_dataset(pipeline: beam.Pipeline, job: Job) -> None:
    """Add the job's stages to a pipeline."""
    ranges = pipeline | "PlanRanges" >> PlanRanges(job.ranges)
    read = ranges | "ReadDocuments" >> ReadDocuments(job.documents, job.temp_folder)
    tokenized = read[DOCUMENTS] | "TokenizeDocuments" >> TokenizeDocuments(
        job.tokenizer_path,
        job.token_dtype,
        job.memoize,
        job.special_tokens_in_text,
        job.objective.words,
    )
    counts = [read[COUNTS], tokenized[COUNTS]]
    pool = None
    if job.objective.pool_tokens:
        sampled = tokenized[TOKENS] | "SamplePool" >> _sample_pool(job)
        pool = sampled[POOL]
        counts.append(sampled[COUNTS])
    shards = tokenized[TOKENS] | "ShuffleDocuments" >> _shuffle(job)
    built = shards | "BuildShards" >> BuildShards(
        job.objective,
        job.output_options,
        job.layout,
        tokenized_schema(job.token_dtype),
        job.temp_folder,
        pool,
    )
    counts.append(built[COUNTS])
    _ = built[SHARDS] | "CommitDataset" >> CommitDataset(
        job.commit, job.layout, counts, read[REJECTS]
    )


def _sample_pool(job: Job) -> SamplePool:
    budget = job.objective.pool_tokens
    limit = candidate_limit(budget, job.corpus_bytes)
    return SamplePool(
        job.layout.seed, budget, limit, job.validation_share, job.token_dtype, job.temp_folder
    )


def _shuffle(job: Job) -> beam.PTransform:
    place = (job.layout, job.validation_share, job.objective.repeats)
    if job.shuffle == "engine":
        return ShuffleByEngine(*place)
    return ShuffleByFiles(*place, job.temp_folder, tokenized_schema(job.token_dtype))
