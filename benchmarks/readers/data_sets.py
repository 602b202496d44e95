"""The data sets that `benchmarks.readers` reads, which are built if they are missing."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.builds import MEGABYTE, build, make_corpus, make_tokenizer
from corpusmill.arrays.columns import ANY_LENGTH
from corpusmill.reading.collate.causal_collators import WindowCollator
from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.data_set import DataSet, Samples
from corpusmill.reading.rows import Collator, Rows
from corpusmill.reading.token_windows import TokenWindows

CONTEXT = 512


class _Recipe(NamedTuple):
    """How a data set is built.

    Attributes:
        corpus_megabytes: large enough for 100,000 examples of 512 tokens.
        flags: the objective and its flags.
    """

    corpus_megabytes: int
    flags: tuple[str, ...]


_FLAGS = ("--seed", "1", "--workers", "2", "--num-shards", "8")
_BERT = ("bert", "--max-seq-length", str(CONTEXT), "--duplicates", "2", *_FLAGS)
_RECIPES = {
    "bert": _Recipe(100, _BERT),
    "bert-dynamic": _Recipe(100, (*_BERT, "--mask", "dynamic")),
    "gpt": _Recipe(540, ("gpt", *_FLAGS)),
    "many": _Recipe(540, ("gpt", "--mode", "windows", "--max-seq-length", "32", *_FLAGS)),
}


def make_data_set(folder: Path, name: str, scale: float = 1.0) -> Path:
    """Return a data set, which is built from a synthetic corpus if the folder lacks it."""
    output = folder / name
    if not (output / "dataset.json").exists():
        recipe = _RECIPES[name]
        objective, *flags = recipe.flags
        corpus = make_corpus(folder, int(recipe.corpus_megabytes * MEGABYTE * scale))
        sample = make_corpus(folder, int(50 * MEGABYTE * scale))
        tokenizer = make_tokenizer(folder, sample, objective)
        build(("pipeline", objective), corpus, tokenizer, output, *flags)
    return output


@dataclass(frozen=True)
class Source:
    """A data set for a reader.

    Attributes:
        folder: of the data set.
        work: a folder for unpacked shards and for the peers' own formats.
        batch_size: number of examples in a batch.
    """

    folder: Path
    work: Path
    batch_size: int = 32

    @property
    def samples(self) -> Samples:
        """The examples as our readers see them: rows, or the windows of a token stream."""
        data = DataSet(self.folder, cache_folder=self.work / "unpacked")
        return TokenWindows(data, CONTEXT) if data.columns[0].width == ANY_LENGTH else data

    @property
    def collator(self) -> Collator:
        """The collator of all readers, so that they differ only in reading and moving rows."""
        samples = self.samples
        if isinstance(samples, TokenWindows):
            return WindowCollator("targets")
        return collator_for(samples)

    def parts(self, rows: int = 4096) -> Iterator[Rows]:
        """Yield all examples in their stored order, in blocks."""
        samples = self.samples
        for begin in range(0, len(samples), rows):
            yield samples.take(np.arange(begin, min(begin + rows, len(samples))))

    def examples(self) -> Iterator[dict[str, Any]]:
        """Yield all examples in their stored order, one by one."""
        for part in self.parts():
            yield from part
