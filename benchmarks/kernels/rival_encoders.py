"""Encoders of others, each in its own environment: `benchmarks.kernels.tokenization` calls this.

    python -m benchmarks.kernels.rival_encoders RIVAL FOLDER

The folder has a tokenizer.json and batches of sentences with the ids that are expected
(batches.parquet, a row group for each). A line of JSON says what the rival took: the processor
seconds and the number of batches to which it gave other ids; or why it refuses the tokenizer.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.builds import MEGABYTE
from benchmarks.console import report
from benchmarks.measure import measure, time_call
from benchmarks.rivals import label, name_problem, python_of

Encode = Callable[[list[str]], list[Sequence[int]]]


def open_gigatoken(path: Path) -> Encode:
    """Return gigatoken's encoder, which uses one thread."""
    tokenizer: Any = import_module("gigatoken").Tokenizer.from_json(path.read_bytes())
    return lambda texts: list(tokenizer.encode_batch_list(texts, parallel=False))


def open_fastokens(path: Path) -> Encode:
    """Return the encoder of fastokens."""
    tokenizer: Any = import_module("fastokens").Tokenizer.from_file(str(path))
    return lambda texts: [row.ids for row in tokenizer.encode_batch(texts)]


def open_tokenizers(path: Path) -> Encode:
    """Return the encoder of the tokenizers library, from 1.0 on."""
    tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(str(path))
    return lambda texts: [
        row.ids for row in tokenizer.encode_batch(texts, add_special_tokens=False)
    ]


RIVALS = {
    "tokenizers-1": open_tokenizers,
    "fastokens": open_fastokens,
    "gigatoken": open_gigatoken,
}


def encode_batches(rival: str, folder: Path) -> dict[str, Any]:
    """Encode all batches of a folder; return what is printed."""
    try:
        encode = RIVALS[rival](folder / "tokenizer.json")
    except Exception as error:  # Rust's errors have no common class
        return {"refused": str(error)}
    seconds, others = 0.0, 0
    file = pq.ParquetFile(folder / "batches.parquet")
    for number in range(file.num_row_groups):
        batch = file.read_row_group(number)
        texts: list[str] = batch["texts"][0].as_py()
        rows, taken = time_call(partial(encode, texts))
        seconds += taken
        expected = batch["ids"][0].values.to_numpy()
        others += not np.array_equal(np.fromiter(chain.from_iterable(rows), np.uint32), expected)
    return {"seconds": seconds, "others": others}


def list_rates(
    tokenizer_json: str, batches: Sequence[list[str]], ids: Sequence[npt.NDArray[Any]]
) -> list[str]:
    """Return a cell for each rival: MB a second, or in a word why there is none.

    Args:
        tokenizer_json: a complete tokenizer.json.
        batches: sentences.
        ids: the ids of each batch, joined.
    """
    schema = pa.schema({"texts": pa.list_(pa.string()), "ids": pa.list_(pa.uint32())})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tokenizer.json").write_text(tokenizer_json, encoding="utf-8")
        with pq.ParquetWriter(folder / "batches.parquet", schema) as writer:
            for texts, row in zip(batches, ids, strict=True):
                writer.write_table(pa.table({"texts": [texts], "ids": [row]}, schema))
        size = sum(len(text.encode()) for texts in batches for text in texts)
        return [_measure_rival(rival, folder, size) for rival in RIVALS]


def _measure_rival(rival: str, folder: Path, size: int) -> str:
    module = "benchmarks.kernels.rival_encoders"
    try:
        taken = measure(module, rival, folder, watch=False, python=python_of(rival)).result
    except RuntimeError as error:
        return name_problem(error)
    if "refused" in taken:
        report(f"{label(rival)} refuses the tokenizer: {taken['refused'].splitlines()[0]}")
        return "-"
    return "other ids" if taken["others"] else f"{size / MEGABYTE / taken['seconds']:.1f}"


def main() -> None:
    """Encode with one rival."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rival", choices=RIVALS)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
    print(json.dumps(encode_batches(arguments.rival, arguments.folder)))


if __name__ == "__main__":
    main()
