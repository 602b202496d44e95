"""The floor: a plain loop over the job's kernels, in processes but without Beam.

It takes the job's command line. Like the job it reads, tokenizes, draws the pool, builds and
writes, but it keeps all token ids in memory, does not shuffle, and cannot recover. The job's
additional time is the price of these.

    python -m benchmarks.job.floor bert --input corpus.txt --tokenizer tokenizer.json --output out
"""

import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.builds import read_local
from corpusmill.arrays.columns import tokens_of
from corpusmill.commands.command_line import parse
from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.text.text_documents import read_text
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, GROUP_TOKENS, resolve
from corpusmill.layout.sorting import add_keys, cut_into_groups
from corpusmill.objectives import random_documents as pools
from corpusmill.objectives.objective import Objective, Repeat
from corpusmill.tokenization.encoding import encode_documents
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from pipeline.command_line import JOB
from pipeline.job_options import Build

_encoded: list[pa.RecordBatch] = []


@dataclass(frozen=True)
class Plan:
    """A build, as every process gets it.

    Attributes:
        path: the corpus, an uncompressed file.
        tokenizer: of the data set.
        objective: of the data set.
        documents: how the corpus is read.
        output: how shards are written.
        folder: of the data set.
        seed: of the data set.
    """

    path: str
    tokenizer: TokenizerFile
    objective: Objective
    documents: DocumentOptions
    output: OutputOptions
    folder: str
    seed: int


def make_plan(command: Build) -> Plan:
    """Return the plan of a command."""
    tokenizer = read_tokenizer(command.dataset.tokenizer, read_local, command.tokenizer_options)
    objective = command.objective.bind(tokenizer.with_roles(command.objective.special_tokens))
    return Plan(
        command.dataset.input[0],
        tokenizer,
        objective,
        command.objective.choose_documents(command.documents),
        resolve(command.output_options, objective.columns),
        command.dataset.output,
        command.dataset.seed,
    )


def encode_part(plan: Plan, part: int, parts: int) -> list[pa.RecordBatch]:
    """Read and tokenize a part of the file; `build_part` finds the batches in this process."""
    size = Path(plan.path).stat().st_size
    start, end = size * part // parts, size * (part + 1) // parts
    words, tokenizer = plan.objective.words, plan.tokenizer
    dtype = tokenizer.choose_dtype(words)
    encoder = SentenceTokenizer(tokenizer.json, dtype, words=words)
    with Path(plan.path).open("rb") as stream:
        read = read_text(stream, FileRange(plan.path, 0, plan.documents, start, end))
        full = (batch.documents for batch in read if batch.documents.num_rows)
        cuts = plan.objective.text_cuts(plan.seed)
        _encoded.extend(encode_documents(encoder, documents, cuts).documents for documents in full)
    return _encoded if plan.objective.pool_tokens else []


def build_part(part: int, plan: Plan) -> int:
    """Build and write the examples of this process's documents; return their number."""
    objective, shard_format = plan.objective, FORMATS[plan.output.output_format]
    rows = 0
    with ExitStack() as files:
        streams = [
            files.enter_context((Path(plan.folder) / f"train-{part}{suffix}").open("wb"))
            for suffix in shard_format.suffixes(plan.output)
        ]
        writer = shard_format.open_writer(streams, objective.columns, plan.output)
        tokens = tokens_of(objective.columns).name
        packed, rows_at_once = objective.pack(_build(plan)), shard_format.group_rows
        for group in cut_into_groups(packed, tokens, rows_at_once, GROUP_TOKENS):
            writer.write(objective.finish(group, plan.output.is_padded))
            rows += group.num_rows
        writer.close()
    return rows


def _build(plan: Plan) -> Iterator[pa.RecordBatch]:
    pool = pools.open_pool(plan.folder) if plan.objective.pool_tokens else None
    for documents in _encoded:
        splits = np.zeros(documents.num_rows, np.uint8)
        for repeat in range(plan.objective.repeats):
            examples = plan.objective.build(documents, Repeat(repeat, pool, splits, plan.seed))
            yield add_keys(examples, plan.seed)


def write_whole_pool(batches: list[pa.RecordBatch], folder: Path) -> None:
    """Write a pool of all documents."""
    documents = sentences = tokens = 0
    for batch in batches:
        sentence_lists = batch.column("sentences").flatten()
        documents += batch.num_rows
        sentences += len(sentence_lists)
        tokens += len(sentence_lists.flatten())
    dtype = str(batches[0].column("sentences").type.value_type.value_type)
    shape = pools.PoolShape(documents, sentences, tokens, documents, np.dtype(dtype))
    pools.write_pool(batches, shape, [(folder / f"{name}.npy").open("wb") for name in pools.ARRAYS])


def run(plan: Plan, processes: int) -> int:
    """Build the data set; return the number of examples."""
    folder = Path(plan.folder)
    folder.mkdir(parents=True, exist_ok=True)
    # One executor for each part, so that the process with a part's token ids builds it.
    workers = [ProcessPoolExecutor(1) for _ in range(processes)]
    encoded = [
        worker.submit(encode_part, plan, part, processes) for part, worker in enumerate(workers)
    ]
    batches = [batch for part in encoded for batch in part.result()]
    if batches:
        write_whole_pool(batches, folder)
    built = [worker.submit(partial(build_part, part, plan)) for part, worker in enumerate(workers)]
    rows = sum(part.result() for part in built)
    for worker in workers:
        worker.shutdown()
    return rows


def main() -> None:
    """Build a data set and print a line of JSON."""
    began = time.perf_counter()
    command: Build = parse(sys.argv[1:], JOB)[1]
    rows = run(make_plan(command), command.run.workers)
    print(json.dumps({"examples": rows, "seconds": round(time.perf_counter() - began, 2)}))


if __name__ == "__main__":
    main()
