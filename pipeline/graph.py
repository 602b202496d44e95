"""The whole pipeline on one screen.

    plan tasks ─ prepare documents ─┬─ gather shards ──────────────────► build shards ─ commit
                 (read, tokenize,   └─ write pool ─ its path (a side input) ─┘
                  spill)

With --drop-duplicates each task first gets a list of the documents that it leaves out
(`transforms.corpus.duplicates`), and with --drop-near-duplicates another one
(`transforms.corpus.near_duplicates`); with --append it gets another one, of those that the data set
holds (`transforms.corpus.known_texts`). The corpus is tokenized once; documents travel to the
shards as token ids, and a shard builds all of its examples itself.

Other stages measure a corpus in one pass:

    plan ─ read ─┬─ tokenize ─┬─ measure tokens ─┐
                 │            └─ sample ─────────┼─ collect: build the sample, scale it
                 └─ measure text ────────────────┘

All of these but the last are fused. Only temporary files and the numbers are written.
"""

from dataclasses import dataclass, field, replace
from functools import partial

import apache_beam as beam

from corpusmill.corpus.document_options import CorpusReading
from corpusmill.corpus.filters.functions import FilterOptions
from corpusmill.corpus.filters.near_duplicates import KEY_BYTES
from corpusmill.dataset.manifest import Manifest
from corpusmill.formats.output_options import OutputOptions
from corpusmill.inspection.corpus_measures import classify_tokens, measure_tokens
from corpusmill.layout.placement import Layout
from corpusmill.objectives.objective import Objective
from corpusmill.objectives.random_documents import candidate_limit
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from transforms.build import SHARDS, BuildShards, ShardOptions
from transforms.commit.commit import CommitDataset
from transforms.commit.contents import CommitOptions, Decision
from transforms.corpus.duplicates import (
    TASKS,
    Comparison,
    FindDuplicates,
    Screening,
    StoredPassages,
)
from transforms.corpus.known_texts import FindKnown, Held, Search
from transforms.corpus.measure import LARGEST, CollectNumbers, CollectOptions, MeasureDocuments
from transforms.corpus.near_duplicates import TABLE, FindNearDuplicates, NearSearch
from transforms.corpus.plan import Plan, PlanTasks
from transforms.corpus.pool import CANDIDATES, POOL, PoolOptions, WritePool
from transforms.corpus.prepare import SEGMENTS, Preparation, PrepareDocuments, Tokenizing
from transforms.corpus.read import READ_RANGES, REJECTS
from transforms.elements import NEAR, Task, WrittenFile
from transforms.recovery import Workplace
from transforms.shard_files import FileNames
from transforms.shuffle.segments import GatherShards, Routes
from transforms.storage.file_systems import join_path
from transforms.tally import COUNTS, SKETCHES, Count


@dataclass(frozen=True)
class CorpusJob:
    """What is read, and which documents are left out. Workers can open every path in it.

    Attributes:
        plan: the ranges to read.
        documents: the rules of documents.
        filters: which documents are left out.
        passages: the passages that they must not overlap with; None for none.
        corpus_bytes: the size of the input's text.
        place: where the run works.
        held: the documents that the data set holds already; None if they do not matter.
    """

    plan: Plan
    documents: CorpusReading
    filters: FilterOptions
    passages: StoredPassages | None
    corpus_bytes: int
    place: Workplace
    held: Held | None = field(default=None, kw_only=True)

    def search_near(self, comparison: Comparison) -> NearSearch:
        """Return how near-duplicates are found, and where the table of them is."""
        table = join_path(self.place.temp_folder, "near-duplicates.parquet")
        return NearSearch(comparison, self.filters, table)


@dataclass(frozen=True)
class Job(CorpusJob):
    """All that the graph of a build is made from.

    Attributes:
        objective: what is built.
        range_bytes: the longest range.
        routes: how documents reach their shards.
        sources: names of the sources, in the order of the layout's; empty where there is but one.
        output_options: how shards are written, with every option resolved.
        tokenizing: how text becomes ids.
        header: the manifest without its results.
        commit: what the commit writes and expects.
        names: how the files of the data set are named.
    """

    objective: Objective
    range_bytes: int
    routes: Routes
    output_options: OutputOptions
    tokenizing: Tokenizing
    header: Manifest
    commit: CommitOptions
    names: FileNames
    sources: tuple[str, ...] = ()

    def search_near(self, comparison: Comparison) -> NearSearch:
        """Return how near-duplicates are found, with a table that is a file of the data set."""
        # Each stage holds the layout, and the first documents of shards are many.
        layout, search = replace(self.layout, firsts=()), super().search_near(comparison)
        search = replace(search, layout=layout, sources=self.sources)
        if not self.place.output:
            return search
        return replace(search, table=self.place.final_path(self.names.name(0, NEAR)))

    @property
    def layout(self) -> Layout:
        """How the data set is spread over shards."""
        return self.routes.layout


def build_dataset(pipeline: beam.Pipeline, job: Job) -> None:
    """Add the job's stages to a pipeline."""
    pool_tokens = job.objective.pool_tokens
    tasks, counts, tables = plan_tasks(pipeline, job)
    prepare = PrepareDocuments(plan_preparation(job, pool_tokens))
    prepared = tasks | "PrepareDocuments" >> prepare
    counts.append(prepared[COUNTS])
    pool = None
    if pool_tokens:
        drawn = prepared[CANDIDATES] | "WritePool" >> WritePool(plan_pool(job, pool_tokens))
        pool = drawn[POOL]
        counts.append(drawn[COUNTS])
    schema = job.tokenizing.schema
    gather = GatherShards(job.routes, job.place, schema)
    shards = prepared[SEGMENTS] | "GatherShards" >> gather
    options = ShardOptions(
        job.objective,
        job.output_options,
        job.layout,
        job.names,
        schema,
        job.place,
        None if job.header.provenance is None else job.documents.keep_fields,
        job.tokenizing.grouping,
    )
    built = shards | "BuildShards" >> BuildShards(options, pool)
    counts.append(built[COUNTS])
    sketches = (prepared[SKETCHES], built[SKETCHES])
    written = built[SHARDS]
    if tables:
        written = (written, *tables) | "JoinTables" >> beam.Flatten()
    _ = written | "CommitDataset" >> CommitDataset(
        Decision(job.commit, job.names), counts, prepared[REJECTS], prepared[READ_RANGES], sketches
    )


def plan_tasks(
    pipeline: beam.Pipeline, job: CorpusJob
) -> tuple[
    beam.PCollection[Task], list[beam.PCollection[Count]], list[beam.PCollection[WrittenFile]]
]:
    """Add the stages that list the tasks, with the documents in each that are left out.

    Returns:
        The tasks, and the counts of these stages and their files of the data set.
    """
    tasks, counts = pipeline | "PlanTasks" >> PlanTasks(job.plan, job.place), []
    tables = list[beam.PCollection[WrittenFile]]()
    comparison = compare_documents(job)
    if job.filters.drop_duplicates:
        found = tasks | "FindDuplicates" >> FindDuplicates(comparison)
        tasks, counts = found[TASKS], [found[COUNTS]]
    if near := compare_likeness(job):
        found = tasks | "FindNearDuplicates" >> FindNearDuplicates(near)
        tasks, counts, tables = found[TASKS], [*counts, found[COUNTS]], [found[TABLE]]
    if job.held:
        own = replace(comparison, column="digest", kind="known-", others=job.held.plan.tasks)
        search = Search(own, Screening(job.filters, job.passages), job.held)
        found = tasks | "FindKnown" >> FindKnown(search)
        tasks, counts = found[TASKS], [*counts, found[COUNTS]]
    return tasks, counts, tables


def compare_documents(job: CorpusJob) -> Comparison:
    """Return how equal documents are found."""
    return Comparison(
        job.documents, job.filters.filter, job.plan.tasks, job.corpus_bytes, job.place
    )


def compare_likeness(job: CorpusJob) -> NearSearch | None:
    """Return how near-duplicates are found; None where they are kept."""
    options = job.filters.near_duplicates
    if not options:
        return None
    size = KEY_BYTES * int(options["near_duplicate_bands"])
    comparison = replace(compare_documents(job), column="key", kind="near-", row_bytes=size)
    return job.search_near(comparison)


def plan_preparation(job: Job, pool_tokens: int) -> Preparation:
    """Return how tasks are prepared, with candidates for a pool unless it has no tokens."""
    limit = candidate_limit(pool_tokens, job.corpus_bytes) if pool_tokens else None
    return Preparation(
        job.documents,
        job.tokenizing,
        job.routes,
        limit,
        job.place,
        Screening(job.filters, job.passages),
        sources=job.sources,
        drops_known=job.held is not None,
    )


def plan_pool(job: Job, tokens: int) -> PoolOptions:
    """Return the options of a pool of at most `tokens` tokens."""
    return PoolOptions(
        job.layout.seed,
        tokens,
        job.routes.validation_share,
        job.tokenizing.token_dtype,
        job.place,
        job.plan.tasks,
    )


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
        unknown=tokenizer.special.unk_id,
        marked=bool(job.objective.words),
        cut=bool(job.tokenizing.cuts),
        kinds=classify_tokens(tokenizer.json, tokenizer.vocab_size),
    )
    tasks, counts, _ = plan_tasks(pipeline, job)
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
