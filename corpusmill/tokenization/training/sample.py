"""A uniform sample of a corpus that is too large to train with, the same in every run."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.randomness import MAX_SEED, SAMPLE, derive_keys
from corpusmill.errors import UserError, check_option


@dataclass(frozen=True)
class SampleOptions:
    """Which part of a corpus to train with; all of it if neither a share nor bytes are set."""

    sample: float | None = None
    """Share of the documents to train with, drawn uniformly from the whole corpus."""
    sample_bytes: int | None = None
    """About how many bytes of text to train with, drawn in the same way."""
    seed: int = 0
    """The same corpus and seed give the same sample."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value is out of range, or both a share and a number of bytes are set.
        """
        share, size = self.sample, self.sample_bytes
        if share is not None and size is not None:
            raise UserError(
                f"--sample {share} --sample-bytes {size}",
                "both set the size of the sample",
                "Give one of them",
            )
        if share is not None:
            check_option("sample", share, 0 < share <= 1, "more than 0, at most 1")
        if size is not None:
            check_option("sample-bytes", size, size >= 1, "1 or more")
        check_option("seed", self.seed, 0 <= self.seed <= MAX_SEED, f"0 to {MAX_SEED}")

    def share(self, corpus_bytes: int) -> float:
        """Return the share of documents to draw from a corpus of this many bytes of text."""
        if self.sample_bytes is not None:
            return min(1.0, self.sample_bytes / max(1, corpus_bytes))
        return 1.0 if self.sample is None else self.sample


def draw_documents(
    documents: npt.NDArray[np.uint64], share: float, seed: int
) -> npt.NDArray[np.bool_]:
    """Draw documents by their ids alone, each with the same chance.

    Args:
        documents: uint64[documents], their ids.
        share: the chance of each; the documents of a smaller share are among those of a larger one.
        seed: the sample's seed.

    Returns:
        bool[documents], True for those of the sample.
    """
    keys: np.ndarray = derive_keys(np.uint64(seed), documents, 0, SAMPLE)
    return np.asarray((keys >> np.uint64(11)) * 2.0**-53 < share)
