"""A sample of a corpus that is too large to train with, the same in every run."""

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
    """About how many bytes of text to train with, from pieces of the corpus that are drawn
    uniformly. Nothing else of it is read, but compressed files are read to their end."""
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


def draw_pieces(
    sizes: npt.NDArray[np.int64], wanted: float, seed: int
) -> tuple[npt.NDArray[np.int64], float]:
    """Draw pieces of a corpus, each with the same chance, until they have a size together.

    Args:
        sizes: int64[pieces], their sizes.
        wanted: the size of the sample.
        seed: the sample's seed.

    Returns:
        int64[drawn], the numbers of the drawn pieces in ascending order; and the share of their
        documents that gives the wanted size.

    Example:
        of pieces with the sizes [10, 10, 10, 10], two are drawn for a wanted size of 15, with a
        share of 0.75.
    """
    numbers = np.arange(len(sizes), dtype=np.uint64)
    order = np.argsort(derive_keys(np.uint64(seed), numbers, 0, SAMPLE), kind="stable")
    totals = np.cumsum(sizes[order])
    drawn = order[: int(np.searchsorted(totals, wanted)) + 1]
    return np.sort(drawn), min(1.0, wanted / max(1, int(sizes[drawn].sum())))


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
