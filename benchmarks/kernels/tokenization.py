"""Sentences to token ids against `encode_batch_fast` and tiktoken, in one run, on one core.

    python -m benchmarks.kernels.tokenization [wiki.train.tokens ...] [--tokenizer FILE] [--bytes N]

Each text, repeated to N bytes, is tokenized by a WordPiece (30,522 tokens) and by a byte-level BPE
(30,000) that were trained on it, or by the tokenizer given: by the tokenizers library, by tiktoken
with the same merges where the tokenizer is byte-level, and by `SentenceTokenizer`, once with
nothing remembered at first, as a worker begins, and once more. Without texts: one of
synthetic_corpus.py with N bytes, and those of synthetic_scripts.py. All ids are compared. Rates are
in processor time, which other work on the machine disturbs less than the clock's, with one thread,
so that all are per core. The slow ways take the text's beginning alone.
"""

import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # read when the library first runs

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import tiktoken

from benchmarks.synthetic.corpus import write_corpus
from benchmarks.synthetic.scripts import SCRIPTS, write_script
from corpusmill.arrays import ragged
from corpusmill.corpus.options import DocumentOptions
from corpusmill.corpus.text.line_documents import read_documents
from corpusmill.tokenization.compiled.byte_level_patterns import GPT2, byte_alphabet
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from corpusmill.tokenization.training.byte_level_bpe import (
    ByteLevelBpeOptions,
    train_byte_level_bpe,
)
from corpusmill.tokenization.training.wordpiece import WordPieceOptions, train_wordpiece

Batch = tuple[np.ndarray, np.ndarray]
SLOW_BYTES = 3_000_000


def read_batches(path: Path, size: int) -> list[Batch]:
    """The text's sentences in batches of about 1 MiB, as the job hands them over, up to a size."""
    with path.open("rb") as stream:
        read = list(read_documents(stream, str(path), 0, 0, None, DocumentOptions()))
    texts = [ragged.from_arrow(of.documents.column("sentences").flatten()) for of in read]
    once = [(text, offsets.astype(np.int64)) for text, offsets in texts]
    return once * max(1, round(size / sum(len(text) for text, _ in once)))


def count_bytes(batches: list[Batch]) -> int:
    """Bytes of text."""
    return sum(len(text) for text, _ in batches)


def head_of(batches: list[Batch]) -> list[Batch]:
    """What the slow ways are given."""
    sizes = np.cumsum([len(text) for text, _ in batches])
    return batches[: int(np.searchsorted(sizes, SLOW_BYTES)) + 1]


def sentences_of(batches: list[Batch]) -> list[list[str]]:
    """The texts of each batch."""
    return [
        [str(text[start:end].tobytes(), "utf-8") for start, end in pairwise(offsets)]
        for text, offsets in batches
    ]


def measure(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time in seconds, and what was made."""
    begin = time.process_time()
    made = work()
    return time.process_time() - begin, made


def as_tiktoken(tokenizer_json: str) -> tiktoken.Encoding:
    """The byte-level BPE of a tokenizer.json as tiktoken has it."""
    alphabet, described = byte_alphabet(), json.loads(tokenizer_json)
    special = {token["content"]: token["id"] for token in described["added_tokens"]}
    ranks = {
        bytes(alphabet[character] for character in token): number
        for token, number in described["model"]["vocab"].items()
        if token not in special
    }
    return tiktoken.Encoding("same", pat_str=GPT2, mergeable_ranks=ranks, special_tokens=special)


def measure_tiktoken(tokenizer_json: str, batches: list[Batch], expected: list[Batch]) -> float:
    """Seconds that tiktoken takes; its ids are compared."""
    encoding, texts = as_tiktoken(tokenizer_json), sentences_of(batches)
    seconds, rows = measure(
        lambda: [
            encoding.encode_batch(batch, num_threads=1, allowed_special="all") for batch in texts
        ]
    )
    for batch, (ids, _) in zip(rows, expected, strict=True):
        assert [number for row in batch for number in row] == ids.tolist()
    return seconds


def compare(name: str, batches: list[Batch], file: TokenizerFile) -> None:
    """Print a row of the table."""
    few, total = head_of(batches), count_bytes(batches)

    def encode(tokenizer: SentenceTokenizer, given: list[Batch]) -> list[Batch]:
        return [tokenizer.encode(*batch) for batch in given]

    def fresh(*, memoize: bool = True) -> SentenceTokenizer:
        return SentenceTokenizer(file.json, file.token_dtype, memoize=memoize)

    plain_seconds, plain_ids = measure(lambda: encode(fresh(memoize=False), few))
    tokenizer = fresh()
    encode(fresh(), few[:1])  # compiles
    first_seconds, first = measure(lambda: encode(tokenizer, batches))
    again_seconds, again = measure(lambda: encode(tokenizer, batches))
    for made in (first, again):
        for (ids, offsets), (expected, bounds) in zip(made, plain_ids, strict=False):
            assert np.array_equal(ids, expected)
            assert np.array_equal(offsets, bounds)
    plain = count_bytes(few) / 1e6 / plain_seconds
    of_tiktoken = "-"
    if json.loads(file.json)["pre_tokenizer"]["type"] == "ByteLevel":
        seconds = measure_tiktoken(file.json, few, plain_ids)
        of_tiktoken = f"{count_bytes(few) / 1e6 / seconds:.1f}"
    rates = [total / 1e6 / seconds for seconds in (first_seconds, again_seconds)]
    print(
        f"| {name} | {total / 1e6:.0f} | {plain:.1f} | {of_tiktoken} | {rates[0]:.1f} | "
        f"{rates[1]:.1f} | {rates[0] / plain:.1f} | {rates[1] / plain:.1f} |",
        flush=True,
    )


def trained_on(path: Path) -> Iterator[tuple[str, TokenizerFile]]:
    """A tokenizer of each kind."""
    lines = path.read_text("utf-8").splitlines()
    for name, text in (
        ("WordPiece", train_wordpiece([lines], WordPieceOptions())),
        ("byte-level BPE", train_byte_level_bpe([lines], ByteLevelBpeOptions())),
    ):
        yield name, read_tokenizer("tokenizer.json", {"tokenizer.json": text.encode()}.get)


def read_bytes(path: str) -> bytes | None:
    """The bytes of a file, None where there is none."""
    return Path(path).read_bytes() if Path(path).is_file() else None


def make_texts(folder: Path, size: int) -> list[Path]:
    """The texts that are compared on where none are given."""
    write_corpus(folder / "synthetic", size)
    for script in SCRIPTS:
        write_script(script, 3_000_000, folder / script)
    return [folder / "synthetic", *(folder / script for script in SCRIPTS)]


def main() -> None:
    """Measure, compare and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("texts", nargs="*", type=Path)
    parser.add_argument("--tokenizer")
    parser.add_argument("--bytes", type=int, default=50_000_000)
    given = parser.parse_args()
    names = ("", "MB", "encode_batch_fast", "tiktoken", "ours, first", "again", "times", "times")
    print(f"| {' | '.join(names)} |\n{'|---' * len(names)}|")
    with tempfile.TemporaryDirectory() as folder:
        for path in given.texts or make_texts(Path(folder), given.bytes):
            batches = read_batches(path, given.bytes)
            if given.tokenizer:
                compare(path.name, batches, read_tokenizer(given.tokenizer, read_bytes))
                continue
            for name, file in trained_on(path):
                compare(f"{path.name}, {name}", batches, file)


if __name__ == "__main__":
    main()
