"""Beam transforms around the library's kernels: unpack, call, count, yield.

Everything here is imported when it is first used. These names are stable; the modules that they
come from are not.

For pipelines of one's own, with what tests of them need:

    ReadDocuments       files -> DOCUMENTS, Arrow batches of text, and REJECTS, `RejectedRecord`
    TokenizeDocuments   batches of text -> batches of token ids
    local_pipeline, collect, text_batch

The stages of a build, in their order. A stage takes its options as one value, and most of them a
`Workplace`, where the run works. What passes between stages are small named tuples that refer to
files, and each stage also gives COUNTS, and some SKETCHES of distributions.

    PlanTasks           a `Plan` -> `Task`, some ranges of the input
    FindDuplicates      tasks -> TASKS, which list documents to leave out (`Comparison`)
    PrepareDocuments    tasks -> SEGMENTS, tokenized documents by shard; CANDIDATES for the pool,
                        REJECTS, READ_RANGES (`Preparation`, of `Tokenizing`, `Screening`)
    WritePool           candidates -> POOL, the path of the random documents (`PoolOptions`)
    GatherShards        segments -> each shard with all of its segments (`Routes`, of a `Layout`)
    BuildShards         shards -> SHARDS, each a `WrittenFile` (`ShardOptions`, with `FileNames`)
    CommitDataset       written files, counts and rejects -> the data set (a `Decision`, of
                        `CommitOptions` and `FileNames`)
"""

from typing import TYPE_CHECKING

from corpusmill.lazy_names import lazy_names

if TYPE_CHECKING:
    from corpusmill.layout.placement import Layout as Layout
    from transforms.build import SHARDS as SHARDS
    from transforms.build import BuildShards as BuildShards
    from transforms.build import ShardOptions as ShardOptions
    from transforms.commit.commit import CommitDataset as CommitDataset
    from transforms.commit.contents import CommitOptions as CommitOptions
    from transforms.commit.contents import Decision as Decision
    from transforms.corpus.documents import DOCUMENTS as DOCUMENTS
    from transforms.corpus.documents import ReadDocuments as ReadDocuments
    from transforms.corpus.documents import RejectedRecord as RejectedRecord
    from transforms.corpus.documents import TokenizeDocuments as TokenizeDocuments
    from transforms.corpus.duplicates import TASKS as TASKS
    from transforms.corpus.duplicates import Comparison as Comparison
    from transforms.corpus.duplicates import FindDuplicates as FindDuplicates
    from transforms.corpus.duplicates import Screening as Screening
    from transforms.corpus.duplicates import StoredPassages as StoredPassages
    from transforms.corpus.plan import Plan as Plan
    from transforms.corpus.plan import PlanTasks as PlanTasks
    from transforms.corpus.pool import CANDIDATES as CANDIDATES
    from transforms.corpus.pool import POOL as POOL
    from transforms.corpus.pool import PoolOptions as PoolOptions
    from transforms.corpus.pool import WritePool as WritePool
    from transforms.corpus.prepare import SEGMENTS as SEGMENTS
    from transforms.corpus.prepare import Preparation as Preparation
    from transforms.corpus.prepare import PrepareDocuments as PrepareDocuments
    from transforms.corpus.prepare import Tokenizing as Tokenizing
    from transforms.corpus.read import READ_RANGES as READ_RANGES
    from transforms.corpus.read import REJECTS as REJECTS
    from transforms.elements import Segment as Segment
    from transforms.elements import Task as Task
    from transforms.elements import WrittenFile as WrittenFile
    from transforms.recovery import Workplace as Workplace
    from transforms.shard_files import FileNames as FileNames
    from transforms.shuffle.segments import GatherShards as GatherShards
    from transforms.shuffle.segments import Routes as Routes
    from transforms.tally import COUNTS as COUNTS
    from transforms.tally import SKETCHES as SKETCHES
    from transforms.tally import Count as Count
    from transforms.testing import collect as collect
    from transforms.testing import local_pipeline as local_pipeline
    from transforms.testing import text_batch as text_batch
else:
    __getattr__, __dir__ = lazy_names(__name__)
