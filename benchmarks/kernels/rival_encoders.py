"""Encoders of others, each in its own environment: `benchmarks.kernels.tokenization` calls this.

    python -m benchmarks.kernels.rival_encoders RIVAL FOLDER

The folder has a tokenizer.json and texts, each in a file NAME.parquet: batches of documents with
the ids that are expected, a row group for each. A line of JSON says what the rival took for each
text: the processor seconds, with a new tokenizer and once more, and the number of batches to which
it gave other ids; or why it refuses the tokenizer. Ids are what the rival gives fastest: arrays if
it has any, else lists.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
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

# What encodes a batch, and what makes one array of the ids that it returns.
Encoder = tuple[Callable[[list[str]], Any], Callable[[Any], npt.NDArray[Any]]]
Batches = Sequence[tuple[list[str], npt.NDArray[Any]]]


def open_gigatoken(path: Path) -> Encoder:
    """Return gigatoken's encoder, which uses one thread."""
    tokenizer: Any = import_module("gigatoken").Tokenizer.from_json(path.read_bytes())
    flatten = import_module("awkward").flatten
    return partial(tokenizer.encode_batch, parallel=False), lambda rows: np.asarray(flatten(rows))


def open_fastokens(path: Path) -> Encoder:
    """Return the encoder of fastokens."""
    tokenizer: Any = import_module("fastokens").Tokenizer.from_file(str(path))
    return tokenizer.encode_batch_flat, lambda rows: np.frombuffer(rows[0], np.uint32)


def open_tokenizers(path: Path) -> Encoder:
    """Return the encoder of the tokenizers library, from 1.0 on."""
    tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(str(path))
    encode = partial(tokenizer.encode_batch, add_special_tokens=False)
    return lambda texts: [row.ids for row in encode(texts)], _join


def open_kitoken(path: Path) -> Encoder:
    """Return kitoken's encoder, which finds special tokens in texts, as the library does."""
    tokenizer: Any = import_module("kitoken").Kitoken.from_tokenizers_file(str(path))
    return lambda texts: tokenizer.encode_all(texts, True), _join


def _join(rows: list[Sequence[int]]) -> npt.NDArray[Any]:
    return np.fromiter(chain.from_iterable(rows), np.uint32)


RIVALS = {
    "tokenizers-1": open_tokenizers,
    "fastokens": open_fastokens,
    "gigatoken": open_gigatoken,
    "kitoken": open_kitoken,
}


def encode_texts(rival: str, folder: Path) -> dict[str, Any]:
    """Encode all texts of a folder; return what is printed, by the texts' names."""
    try:
        open_encoder = partial(RIVALS[rival], folder / "tokenizer.json")
        open_encoder()[0](["a first call"])
        return {path.stem: _encode(open_encoder(), path) for path in folder.glob("*.parquet")}
    except Exception as error:  # Rust's errors have no common class
        return {"refused": str(error)}


def _encode(encoder: Encoder, path: Path) -> dict[str, float]:
    encode, to_array = encoder
    file, taken, others = pq.ParquetFile(path), [0.0, 0.0], 0
    for turn in range(2):
        for number in range(file.num_row_groups):
            batch = file.read_row_group(number)
            texts: list[str] = batch["texts"][0].as_py()
            rows, seconds = time_call(partial(encode, texts))
            taken[turn] += seconds
            others += not np.array_equal(to_array(rows), batch["ids"][0].values.to_numpy())
    return {"first": taken[0], "again": taken[1], "others": others}


def measure_rival(rival: str, tokenizer_json: str, texts: Mapping[str, Batches]) -> dict[str, Any]:
    """Return what `encode_texts` says of a rival.

    Args:
        rival: a key of RIVALS.
        tokenizer_json: a complete tokenizer.json.
        texts: by their names, batches of documents, each with its ids, joined.
    """
    schema = pa.schema({"texts": pa.list_(pa.string()), "ids": pa.list_(pa.uint32())})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tokenizer.json").write_text(tokenizer_json, encoding="utf-8")
        for text, batches in texts.items():
            with pq.ParquetWriter(folder / f"{text}.parquet", schema) as writer:
                for documents, ids in batches:
                    writer.write_table(pa.table({"texts": [documents], "ids": [ids]}, schema))
        module = "benchmarks.kernels.rival_encoders"
        return measure(module, rival, folder, watch=False, python=python_of(rival)).result


def list_rates(
    tokenizer_json: str, batches: Sequence[list[str]], ids: Sequence[npt.NDArray[Any]]
) -> list[str]:
    """Return a cell for each rival: MB a second, or in a word why there is none.

    Args:
        tokenizer_json: a complete tokenizer.json.
        batches: sentences.
        ids: the ids of each batch, joined.
    """
    size = sum(len(text.encode()) for texts in batches for text in texts)
    texts = {"text": [*zip(batches, ids, strict=True)]}
    return [_find_rate(rival, tokenizer_json, texts, size) for rival in RIVALS]


def _find_rate(rival: str, tokenizer_json: str, texts: Mapping[str, Batches], size: int) -> str:
    try:
        taken = measure_rival(rival, tokenizer_json, texts)
    except RuntimeError as error:
        return name_problem(error)
    if "refused" in taken:
        report(f"{label(rival)} refuses the tokenizer: {taken['refused'].splitlines()[0]}")
        return "-"
    taken = taken["text"]
    return "other ids" if taken["others"] else f"{size / MEGABYTE / taken['first']:.1f}"


def main() -> None:
    """Encode with one rival."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rival", choices=RIVALS)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
    print(json.dumps(encode_texts(arguments.rival, arguments.folder)))


if __name__ == "__main__":
    main()
