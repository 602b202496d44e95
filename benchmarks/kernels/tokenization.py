"""Sentences to token ids beside `encode_batch_fast`, tiktoken and other encoders, on one core.

    python -m benchmarks.kernels.tokenization [wiki.train.tokens ...] [--tokenizer FILE] [--bytes N]

Each text, repeated to N bytes, is tokenized with a WordPiece tokenizer (30,522 tokens), a
byte-level BPE (30,000) and a unigram tokenizer (30,000) that were trained on it, or with the
tokenizer of `--tokenizer`: by the tokenizers library, by tiktoken with the same merges if the
tokenizer is byte-level, by the encoders of `benchmarks.kernels.rival_encoders`, and by
`SentenceTokenizer`, first with an empty memo, as in a new worker, and then once more. Without
texts: a synthetic one with N bytes, and those of `benchmarks.synthetic.scripts`. All ids are
compared. Rates are megabytes per second of processor time with one thread. The library
and tiktoken get only the text's beginning.
"""

import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # read when the library first runs

import json
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import tiktoken

from benchmarks.builds import MEGABYTE, read_local
from benchmarks.console import make_parser, print_table, report
from benchmarks.kernels.rival_encoders import RIVALS, list_rates
from benchmarks.measure import time_call
from benchmarks.rivals import label
from benchmarks.synthetic.corpus import write_corpus
from benchmarks.synthetic.scripts import SCRIPTS, write_script
from corpusmill.arrays import ragged
from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.text.text_documents import read_text
from corpusmill.tokenization.compiled.byte_level_pieces import GPT2, byte_alphabet
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from corpusmill.tokenization.training.models import (
    ByteLevelBpeOptions,
    UnigramOptions,
    WordPieceOptions,
)
from tests.tools.training import train

Batch = tuple[np.ndarray, np.ndarray]
SLOW_BYTES = 3_000_000


def read_batches(path: Path, size: int) -> list[Batch]:
    """Return the text's sentences in batches of about 1 MiB, repeated to a size in bytes."""
    with path.open("rb") as stream:
        read = list(read_text(stream, FileRange(str(path), 0, DocumentOptions())))
    texts = [ragged.from_arrow(batch.documents.column("sentences").flatten()) for batch in read]
    once = [(text, offsets.astype(np.int64)) for text, offsets in texts]
    return once * max(1, round(size / sum(len(text) for text, _ in once)))


def count_bytes(batches: list[Batch]) -> int:
    """Return the number of bytes of text."""
    return sum(len(text) for text, _ in batches)


def take_head(batches: list[Batch]) -> list[Batch]:
    """Return the first batches, for the slow ways."""
    sizes = np.cumsum([len(text) for text, _ in batches])
    return batches[: int(np.searchsorted(sizes, SLOW_BYTES)) + 1]


def decode_sentences(batches: list[Batch]) -> list[list[str]]:
    """Return the sentences of each batch as strings."""
    return [
        [str(text[start:end].tobytes(), "utf-8") for start, end in pairwise(offsets)]
        for text, offsets in batches
    ]


def to_tiktoken(tokenizer_json: str) -> tiktoken.Encoding:
    """Return the byte-level BPE of a tokenizer.json as tiktoken's encoding."""
    alphabet, model = byte_alphabet(), json.loads(tokenizer_json)
    special = {token["content"]: token["id"] for token in model["added_tokens"]}
    ranks = {
        bytes(alphabet[character] for character in token): number
        for token, number in model["model"]["vocab"].items()
        if token not in special
    }
    return tiktoken.Encoding("same", pat_str=GPT2, mergeable_ranks=ranks, special_tokens=special)


def time_tiktoken(tokenizer_json: str, batches: list[Batch], expected: list[Batch]) -> float:
    """Return the seconds that tiktoken takes, after comparing its ids."""
    encoding, texts = to_tiktoken(tokenizer_json), decode_sentences(batches)
    rows, seconds = time_call(
        lambda: [
            encoding.encode_batch(batch, num_threads=1, allowed_special="all") for batch in texts
        ]
    )
    for batch, (ids, _) in zip(rows, expected, strict=True):
        assert [number for row in batch for number in row] == ids.tolist()
    return seconds


def compare(name: str, batches: list[Batch], file: TokenizerFile) -> list[str]:
    """Return a row of the table."""
    head, total = take_head(batches), count_bytes(batches)

    def encode(tokenizer: SentenceTokenizer, batches: list[Batch]) -> list[Batch]:
        return [tokenizer.encode(*batch) for batch in batches]

    def open_tokenizer(*, memoize: bool = True) -> SentenceTokenizer:
        return SentenceTokenizer(file.json, file.token_dtype, memoize=memoize)

    plain_ids, plain_seconds = time_call(lambda: encode(open_tokenizer(memoize=False), head))
    tokenizer = open_tokenizer()
    encode(open_tokenizer(), head[:1])  # compiles
    first_ids, first_seconds = time_call(lambda: encode(tokenizer, batches))
    again_ids, again_seconds = time_call(lambda: encode(tokenizer, batches))
    for own_ids in (first_ids, again_ids):
        for (ids, offsets), (expected, bounds) in zip(own_ids, plain_ids, strict=False):
            assert np.array_equal(ids, expected)
            assert np.array_equal(offsets, bounds)
    plain = count_bytes(head) / MEGABYTE / plain_seconds
    tiktoken_rate = "-"
    if json.loads(file.json)["pre_tokenizer"]["type"] == "ByteLevel":
        seconds = time_tiktoken(file.json, head, plain_ids)
        tiktoken_rate = f"{count_bytes(head) / MEGABYTE / seconds:.1f}"
    first, again = (total / MEGABYTE / seconds for seconds in (first_seconds, again_seconds))
    rates = [f"{rate:.1f}" for rate in (first, again, first / plain)]
    rivals = list_rates(file.json, decode_sentences(batches), [ids for ids, _ in first_ids])
    return [name, f"{plain:.1f}", tiktoken_rate, *rivals, *rates]


def train_tokenizers(path: Path) -> Iterator[tuple[str, TokenizerFile]]:
    """Yield a tokenizer of each model, trained on a text."""
    lines = path.read_text("utf-8").splitlines()
    for name, text in (
        ("WordPiece", train([lines], WordPieceOptions())),
        ("byte-level BPE", train([lines], ByteLevelBpeOptions())),
        ("unigram", train([lines], UnigramOptions(vocab_size=30_000))),
    ):
        yield name, read_tokenizer("tokenizer.json", {"tokenizer.json": text.encode()}.get)


def write_texts(folder: Path, size: int) -> list[Path]:
    """Write a synthetic text of this size, and one of 3 MB (at most) in each other script."""
    write_corpus(folder / "synthetic", size)
    for script in SCRIPTS:
        write_script(script, min(size, 3 * MEGABYTE), folder / script)
    return [folder / "synthetic", *(folder / script for script in SCRIPTS)]


def measure(path: Path, size: int, tokenizer: str | None) -> Iterator[list[str]]:
    """Yield the rows of the table for a text."""
    report(f"{path.name} ...")
    batches = read_batches(path, size)
    if tokenizer:
        yield compare(path.name, batches, read_tokenizer(tokenizer, read_local))
        return
    for name, file in train_tokenizers(path):
        yield compare(f"{path.name}, {name}", batches, file)


def main() -> None:
    """Measure and print the table."""
    parser = make_parser(__doc__, bytes=50 * MEGABYTE)
    parser.add_argument("texts", nargs="*", type=Path)
    parser.add_argument("--tokenizer")
    arguments = parser.parse_args()
    headings = (
        "MB/s", "Hugging Face tokenizers", "tiktoken", *map(label, RIVALS), "corpusmill, first",
        "again", "first, times Hugging Face",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        texts = arguments.texts or write_texts(Path(folder), arguments.bytes)
        rows = [
            row for path in texts for row in measure(path, arguments.bytes, arguments.tokenizer)
        ]
    print_table(headings, rows)


if __name__ == "__main__":
    main()
