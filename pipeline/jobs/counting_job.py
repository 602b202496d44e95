"""Words counted for `train-tokenizer` by a job: planned, run by an engine, and checked."""

import json
from dataclasses import dataclass
from functools import partial

import apache_beam as beam

from corpusmill.tokenization.training.training_options import TrainingOptions
from pipeline.console.progress import Work
from pipeline.graph import CorpusJob, plan_tasks
from pipeline.jobs.word_counting import Counted, SampledCorpus
from pipeline.runners.engine import Engine
from pipeline.runners.launch import Launch
from transforms.corpus.count_words import (
    WORDS,
    Counting,
    CountWords,
    check_counts,
    count_partitions,
    load_words,
    read_result,
)
from transforms.corpus.duplicates import Screening, StoredPassages
from transforms.corpus.plan import write_plan
from transforms.elements import FILE_BYTES, group_ranges
from transforms.recovery import Workplace
from transforms.shuffle.trees import CollectResult, has_collected
from transforms.storage.checksums import seal, unseal
from transforms.storage.file_systems import join_path
from transforms.storage.files import read_existing, write_file
from transforms.tally import COUNTS

_RESULT, _RECORD = "words.json", "run.json"


@dataclass(frozen=True)
class CountingJob(CorpusJob):
    """All that the graph is built from.

    Attributes:
        counting: how words are counted.
        read_bytes: the bytes that one reading takes; an estimate if files are compressed.
        is_exact: whether `read_bytes` is not an estimate.
    """

    counting: Counting
    read_bytes: int
    is_exact: bool


def plan_counting(
    corpus: SampledCorpus, options: TrainingOptions, engine: Engine, place: Workplace
) -> CountingJob:
    """Plan how the words of a corpus are counted, and write the plan where workers find it.

    A run that is resumed keeps its longest range, as its tasks must stay the same.

    Args:
        corpus: the corpus.
        options: of the model that is trained.
        engine: where the job runs.
        place: where the run works.
    """
    temp_folder = place.temp_folder
    files, read_bytes = corpus.files, corpus.read_bytes
    record = join_path(temp_folder, _RECORD)
    if content := read_existing(record):
        range_bytes = int(json.loads(unseal(content, record)))
    else:
        range_bytes = engine.choose_range_bytes(read_bytes + FILE_BYTES * len(files))
        write_file(record, seal(json.dumps(range_bytes).encode()))
    drawn = corpus.draw(range_bytes)
    tasks = group_ranges(drawn.ranges, [file.cost for file in files], range_bytes)
    plan = write_plan(join_path(temp_folder, "plan.jsonl"), tasks)
    evaluation, path = corpus.evaluation, join_path(temp_folder, "evaluation")
    passages = evaluation and StoredPassages.write(path, evaluation[0].encode())
    counting = Counting(
        options,
        corpus.reading,
        place,
        count_partitions(corpus.text_bytes),
        drawn.share,
        corpus.layout,
        Screening(corpus.filters, passages),
    )
    # A document that begins in a piece is read to its end.
    is_exact = not corpus.is_in_pieces and all(file.content.is_in_ranges for file in files)
    reading, size = corpus.reading, corpus.text_bytes
    return CountingJob(
        plan, reading, corpus.filters, passages, size, place, counting, read_bytes, is_exact
    )


def run_counting(job: CountingJob, launch: Launch) -> Counted:
    """Count the words of a corpus, and check that nothing was lost.

    Raises:
        UserError: the engine cannot run it, or the job found a mistake of the user's.
        Exception: as of `Launch.run`.
    """
    work = Work(job.read_bytes * job.filters.readings, repeats=0, tasks=job.plan.tasks)
    folder = job.counting.place.temp_folder
    path = join_path(folder, _RESULT)
    build = partial(count_corpus, job=job, path=path)
    launch.run(build, work, job.corpus_bytes, folder, partial(has_collected, path))
    counts, words = read_result(path)
    expected = job.read_bytes if job.is_exact else -1
    check_counts(counts, job.plan.ranges, expected)
    return Counted(counts, load_words(words, job.counting.options.word_limits))


def count_corpus(pipeline: beam.Pipeline, job: CountingJob, path: str) -> None:
    """Add the job's stages to a pipeline.

    Args:
        pipeline: a new one.
        job: the job.
        path: the file in which it lists what it has counted.
    """
    tasks, counts, _ = plan_tasks(pipeline, job)
    counted = tasks | "CountWords" >> CountWords(job.counting)
    joined = (counted[COUNTS], *counts) | "JoinAllCounts" >> beam.Flatten()
    _ = counted[WORDS] | "CollectWords" >> CollectResult(path, joined)
