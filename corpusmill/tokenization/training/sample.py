"""A sample of a corpus that is too large to train with, the same in every run."""

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.randomness import SAMPLE, derive_keys


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
