"""Sentences to token ids: the memo of words against `encode_batch_fast`, in one run, on one core.

    python -m benchmarks.tokenization wiki.train.tokens [tokenizer.json]

Without a tokenizer, a WordPiece of 30522 tokens is trained on the text. The ids of both ways are
compared. Every number is the best of some rounds, in seconds of processor time, which other work on
the machine disturbs less than the clock's; one thread, so that both are per core.
"""

import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # read when the library first runs

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from corpusmill import ragged
from corpusmill.documents import DocumentOptions, read_documents
from corpusmill.tokenization import SentenceTokenizer
from corpusmill.tokenizer_files import TokenizerFile, read_tokenizer
from corpusmill.tokenizer_training import WordPieceOptions, train_wordpiece

Batch = tuple[np.ndarray, np.ndarray]


def cut_batches(path: str) -> list[Batch]:
    """The text's lines in batches of about 1 MiB, stripped, as the job hands them over."""
    with Path(path).open("rb") as stream:
        read = list(read_documents(stream, path, 0, 0, None, DocumentOptions()))
    texts = [ragged.from_arrow(of.documents.column("sentences").flatten()) for of in read]
    return [(text, offsets.astype(np.int64)) for text, offsets in texts]


def measure(work: Callable[[], list[Batch]], rounds: int) -> tuple[float, list[Batch]]:
    """Least processor time of some rounds, and what the last one gave."""
    least = float("inf")
    for _ in range(rounds):
        begin = time.process_time()
        encoded = work()
        least = min(least, time.process_time() - begin)
    return least, encoded


def read_bytes(path: str) -> bytes | None:
    """The bytes of a file, None where there is none."""
    return Path(path).read_bytes() if Path(path).is_file() else None


def load_tokenizer(arguments: list[str], text: Path) -> TokenizerFile:
    """The tokenizer that was given, or one trained on the text."""
    if arguments:
        return read_tokenizer(arguments[0], read_bytes)
    trained = train_wordpiece(iter(text.read_text("utf-8").splitlines()), WordPieceOptions())
    return read_tokenizer("tokenizer.json", {"tokenizer.json": trained.encode()}.get)


def main(text_path: str, *arguments: str) -> None:
    """Measure, compare and print."""
    batches = cut_batches(text_path)
    size = sum(len(text) for text, _ in batches)
    file = load_tokenizer(list(arguments), Path(text_path))

    def encode_all(tokenizer: SentenceTokenizer) -> list[Batch]:
        return [tokenizer.encode(*batch) for batch in batches]

    def fresh() -> SentenceTokenizer:
        return SentenceTokenizer(file.json, file.token_dtype)

    warm = fresh()
    if not warm.memoizes:
        sys.exit(f"No memo for this tokenizer: {warm.why_not}.")
    encode_all(warm)  # compiles, and fills the memo
    cold = fresh()
    plain = fresh()
    plain._memo = None
    seconds = {
        "encode_batch_fast": measure(lambda: encode_all(plain), 2),
        "memo, empty at first": measure(lambda: encode_all(cold), 1),
        "memo, warm": measure(lambda: encode_all(warm), 10),
    }
    expected = seconds["encode_batch_fast"][1]
    print(f"{text_path}: {size / 1e6:.1f} MB, {sum(len(ids) for ids, _ in expected):,} tokens")
    for name, (taken, encoded) in seconds.items():
        for (ids, offsets), (expected_ids, expected_offsets) in zip(encoded, expected, strict=True):
            assert np.array_equal(ids, expected_ids)
            assert np.array_equal(offsets, expected_offsets)
        print(f"{name:24}{size / 1e6 / taken:8.1f} MB/s")
    print("The ids are equal.")


if __name__ == "__main__":
    main(*sys.argv[1:])
