"""The data sets that `benchmarks.readers` reads, made where they are missing."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import measure
from benchmarks.synthetic.corpus import write_corpus
from corpusmill.reading.collate.causal_collators import (
    CausalLmCollator,
    PackedCollator,
    WindowCollator,
)
from corpusmill.reading.collate.collators import MaskedLmCollator, collator_for
from corpusmill.reading.data_set import DataSet, Samples
from corpusmill.reading.rows import Rows
from corpusmill.reading.token_windows import TokenWindows

CONTEXT = 512

# Name of a data set: bytes of its corpus, and the flags that it is built with. The corpora are
# large enough for 100,000 examples of 512 tokens.
_FLAGS = ("--seed", "1", "--workers", "2", "--num-shards", "8")
_BERT = ("bert", "--max-seq-length", str(CONTEXT), "--duplicates", "2", *_FLAGS)
DATA_SETS: dict[str, tuple[int, tuple[str, ...]]] = {
    "bert": (100_000_000, _BERT),
    "bert-dynamic": (100_000_000, (*_BERT, "--mask", "dynamic")),
    "gpt": (540_000_000, ("gpt", *_FLAGS)),
    "many": (540_000_000, ("gpt", "--mode", "windows", "--max-seq-length", "32", *_FLAGS)),
}

_TOKENIZERS = {
    "bert": ("--vocab-size", "30522"),
    "gpt": ("--model", "bpe", "--vocab-size", "50257", "--special-tokens", "<|endoftext|>"),
}


def make_data_set(folder: Path, name: str) -> Path:
    """A data set, built from a synthetic corpus where it is missing."""
    built = folder / name
    if not (built / "_SUCCESS").exists():
        num_bytes, flags = DATA_SETS[name]
        corpus, tokenizer = _corpus(folder, num_bytes), _tokenizer(folder, flags[0])
        _pipeline(*flags, "--input", corpus, "--tokenizer", tokenizer, "--output", built)
    return built


def _tokenizer(folder: Path, objective: str) -> Path:
    path = folder / f"{objective}-tokenizer.json"
    if not path.exists():
        corpus = _corpus(folder, 50_000_000)
        flags = _TOKENIZERS[objective]
        _pipeline("train-tokenizer", "--input", corpus, "--output", path, *flags)
    return path


def _corpus(folder: Path, num_bytes: int) -> Path:
    path = folder / f"corpus-{num_bytes}.txt"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_corpus(path, num_bytes)
    return path


def _pipeline(*arguments: str | Path) -> None:
    measure([sys.executable, "-m", "pipeline", *map(str, arguments)])


@dataclass(frozen=True)
class Source:
    """What a reader reads.

    Attributes:
        folder: of the data set.
        work: where readers keep what they make of it: unpacked shards, and peers' own formats.
        batch_size: examples of a batch.
    """

    folder: Path
    work: Path
    batch_size: int = 32

    @property
    def samples(self) -> Samples:
        """The examples, as ours read them: rows, or the windows of a stream."""
        data = DataSet(self.folder, cache_folder=self.work / "unpacked")
        is_stream = data.manifest["objective"]["options"].get("mode") == "stream"
        return TokenWindows(data, CONTEXT) if is_stream else data

    @property
    def collator(self) -> MaskedLmCollator | CausalLmCollator | PackedCollator | WindowCollator:
        """Pads rows; everybody's, so that what is compared is reading and moving them."""
        samples = self.samples
        if "windows" in samples.manifest:
            return WindowCollator("targets")
        return collator_for(samples)

    def parts(self, rows: int = 4096) -> Iterator[Rows]:
        """All examples in their stored order, for whoever converts them."""
        samples = self.samples
        for begin in range(0, len(samples), rows):
            yield samples.take(np.arange(begin, min(begin + rows, len(samples))))

    def examples(self) -> Iterator[dict[str, Any]]:
        """The same, one by one."""
        for part in self.parts():
            yield from part
