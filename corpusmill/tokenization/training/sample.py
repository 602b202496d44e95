"""A sample of a corpus that is too large to train with: uniform, and the same in every reading."""

from dataclasses import dataclass

import numpy as np

from corpusmill.arrays.randomness import MAX_SEED, SAMPLE, derive_keys
from corpusmill.errors import UserError, check_option


@dataclass(frozen=True)
class SampleOptions:
    """What part of a corpus is read; all of it where neither share nor bytes are given."""

    sample: float | None = None
    """Share of the documents to train with, drawn uniformly from all of the corpus."""
    sample_bytes: int | None = None
    """About how much text to train with, in bytes, drawn likewise."""
    seed: int = 0
    """The same corpus and seed give the same sample."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value that no sample can be drawn with, or both a share and bytes.
        """
        if self.sample is not None and self.sample_bytes is not None:
            raise UserError(
                f"--sample {self.sample} --sample-bytes {self.sample_bytes}",
                "both say how large the sample is",
                "Give one of them",
            )
        if self.sample is not None and not 0 < self.sample <= 1:
            raise UserError(
                f"--sample {self.sample}",
                "it is no share of a corpus",
                "Give more than 0, at most 1",
            )
        if self.sample_bytes is not None and self.sample_bytes < 1:
            raise UserError(
                f"--sample-bytes {self.sample_bytes}", "it is less than 1", "Give 1 or more"
            )
        check_option("seed", self.seed, 0 <= self.seed <= MAX_SEED, f"0 to {MAX_SEED}")

    def share(self, corpus_bytes: int) -> float:
        """The share of documents to take from a corpus with so much text."""
        if self.sample_bytes is not None:
            return min(1.0, self.sample_bytes / max(1, corpus_bytes))
        return 1.0 if self.sample is None else self.sample


def draw_documents(documents: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Which documents are of the sample: a matter of their ids alone, each with the same chance.

    Args:
        documents: uint64[documents], their ids.
        share: chance of each; those of a smaller share are among those of a larger one.
        seed: of the sample.

    Returns:
        bool[documents].
    """
    keys: np.ndarray = derive_keys(np.uint64(seed), documents, 0, SAMPLE)
    return np.asarray((keys >> np.uint64(11)) * 2.0**-53 < share)
