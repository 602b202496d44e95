"""The stages that measure a corpus in one pass.

    plan ─ read ─┬─ tokenize ─┬─ measure tokens ─┐
                 │            └─ sample ─────────┼─ collect: build the sample, scale it
                 └─ measure text ────────────────┘

All stages but the last are fused. Only temporary files and the numbers are written.
"""

from functools import partial

import apache_beam as beam

from corpusmill.inspection.corpus_measures import measure_tokens
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from pipeline.graph import Job, plan_pool, plan_preparation, plan_tasks
from transforms.corpus.measure import LARGEST, CollectNumbers, CollectOptions, MeasureDocuments
from transforms.corpus.pool import CANDIDATES, POOL, WritePool
from transforms.corpus.read import REJECTS
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
