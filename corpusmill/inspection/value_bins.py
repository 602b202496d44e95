"""Bins of whole numbers, for the plots of distributions."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from corpusmill.inspection.figures import Distribution

# Lengths up to 128, 512 and 1024 get 65 bins of 2, 8 and 16 values, the last for the full length.
_MOST_BINS = 65


def cut_bins(distributions: Sequence[Distribution]) -> tuple[range, ...]:
    """Cut the values of a quantity into bins of equal widths, for one or several splits.

    A width is a power of two, so that even values, too, spread evenly over the bins, and so that
    the bins of `corpusmill.inspection.corpus_measures` are parts of these. Where the largest
    hundredth of the values is far from the others, one more bin holds it.

    Args:
        distributions: of the splits, not empty.

    Returns:
        The values of each bin, ascending from 0; at most 65 bins, or 66 with the last one.

    Example:
        values from 0 to 127 and one of 1,000 give the bins range(0, 2), range(2, 4), ...,
        range(126, 128) and range(128, 1001).
    """
    largest = max(distribution.largest for distribution in distributions)
    usual = max(distribution.percentile(99) for distribution in distributions)
    end = largest if largest <= 2 * usual else usual
    width = 1 << (-(-(end + 1) // _MOST_BINS) - 1).bit_length()
    bins = [range(first, first + width) for first in range(0, end + 1, width)]
    if bins[-1].stop <= largest:
        bins.append(range(bins[-1].stop, largest + 1))
    return tuple(bins)


def bin_shares(distribution: Distribution, bins: Sequence[range]) -> npt.NDArray[np.float64]:
    """The share of a distribution's values in each bin.

    Args:
        distribution: with the counts.
        bins: as `cut_bins` returns them.

    Returns:
        float64[bins]; zeros if the distribution is empty.

    Example:
        counts {1: 1, 2: 3} and the bins range(0, 2) and range(2, 4) give [0.25, 0.75].
    """
    edges = [part.start for part in bins] + [bins[-1].stop]
    values, numbers = list(distribution.counts), list(distribution.counts.values())
    counts, _ = np.histogram(values, edges, weights=numbers)
    shares: npt.NDArray[np.float64] = counts / max(1, distribution.total)
    return shares
