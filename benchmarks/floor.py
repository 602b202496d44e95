"""The floor: a plain loop with processes and no Beam over the job's own kernels.

It reads, tokenizes, draws the pool, builds and writes, as the job does, but keeps all token ids in
memory, does not shuffle, and recovers from nothing. What the job takes longer is the price of
those.

    python -m benchmarks.floor --input corpus.txt --tokenizer tokenizer.json --output folder
"""

import argparse
import json
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from corpusmill import pool as pools
from corpusmill.bert import Bert, BertOptions
from corpusmill.corpus.documents import read_documents
from corpusmill.corpus.options import DocumentOptions
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.parquet import ROW_GROUP_ROWS, ParquetShardWriter
from corpusmill.formats.table import resolve
from corpusmill.sorting import cut_into_groups
from corpusmill.tokenization.encoding import encode_documents
from corpusmill.tokenization.files import TokenizerFile, read_tokenizer
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer

_encoded: list[pa.RecordBatch] = []


def read_local(path: str) -> bytes | None:
    """The bytes of a local file, or None."""
    return Path(path).read_bytes() if Path(path).is_file() else None


def encode_part(path: str, part: int, parts: int, tokenizer: TokenizerFile) -> list[pa.RecordBatch]:
    """Read and tokenize one part of the file; this process keeps the batches for `build_part`."""
    size = Path(path).stat().st_size
    start, end = size * part // parts, size * (part + 1) // parts
    encoder = SentenceTokenizer(tokenizer.json, tokenizer.token_dtype)
    with Path(path).open("rb") as stream:
        read = read_documents(stream, path, 0, start, end, DocumentOptions())
        full = (batch.documents for batch in read if batch.documents.num_rows)
        _encoded.extend(encode_documents(encoder, documents).documents for documents in full)
    return _encoded


def build_part(part: int, objective: Bert, folder: str) -> int:
    """Build and write the examples of the documents that this process tokenized."""
    pool = pools.open_pool(folder)
    rows = 0
    with (Path(folder) / f"train-{part}.parquet").open("wb") as stream:
        writer = ParquetShardWriter(
            stream, objective.columns, resolve(OutputOptions(), objective.columns)
        )
        for group in cut_into_groups(_build(objective, pool), ROW_GROUP_ROWS):
            writer.write(objective.finish(group, padded=False))
            rows += group.num_rows
        writer.close()
    return rows


def _build(objective: Bert, pool: pools.Pool) -> Iterator[pa.RecordBatch]:
    for documents in _encoded:
        splits = np.zeros(documents.num_rows, np.uint8)
        for repeat in range(objective.repeats):
            yield objective.build(documents, repeat, pool, splits, 1)


def write_whole_pool(batches: list[pa.RecordBatch], folder: Path) -> None:
    """The pool of all documents."""
    documents = sentences = tokens = 0
    for batch in batches:
        of_batch = batch.column("sentences").flatten()
        documents += batch.num_rows
        sentences += len(of_batch)
        tokens += len(of_batch.flatten())
    dtype = batches[0].column("sentences").type.value_type.value_type.to_pandas_dtype()
    shape = pools.PoolShape(documents, sentences, tokens, documents, np.dtype(dtype))
    pools.write_pool(batches, shape, [(folder / f"{name}.npy").open("wb") for name in pools.ARRAYS])


def run(path: str, tokenizer_path: str, folder: Path, processes: int) -> int:
    """Build the data set; gives the number of examples."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = read_tokenizer(tokenizer_path, read_local)
    objective = Bert(
        BertOptions(), tokenizer.special, tokenizer.vocab_size, tokenizer.token_dtype.name
    )
    # One executor for each part, so that a part is built where its token ids lie.
    workers = [ProcessPoolExecutor(1) for _ in range(processes)]
    encoded = [
        worker.submit(encode_part, path, part, processes, tokenizer)
        for part, worker in enumerate(workers)
    ]
    write_whole_pool([batch for part in encoded for batch in part.result()], folder)
    built = [
        worker.submit(partial(build_part, part, objective, str(folder)))
        for part, worker in enumerate(workers)
    ]
    rows = sum(part.result() for part in built)
    for worker in workers:
        worker.shutdown()
    return rows


def main() -> None:
    """The command line; prints one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    began = time.perf_counter()
    rows = run(arguments.input, arguments.tokenizer, Path(arguments.output), arguments.processes)
    print(json.dumps({"examples": rows, "seconds": round(time.perf_counter() - began, 2)}))


if __name__ == "__main__":
    main()
