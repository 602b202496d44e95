"""How much of what a model computes is padding: of a whole epoch, or counted while it trains."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from corpusmill.reading.collate.padding import Padding
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.order.schedule import Position


@dataclass
class PaddingShare:
    """A running figure.

    Attributes:
        tokens: that are no padding, so far.
        places: of all batches' matrices, so far.

    Example:
        a mask [[1, 1, 0, 0], [1, 1, 1, 1]] makes the share 0.25.
    """

    tokens: int = 0
    places: int = 0

    @property
    def share(self) -> float:
        """Padding among all places; 0 where there are none yet."""
        return 1 - self.tokens / self.places if self.places else 0.0

    def add(self, attention_mask: Any) -> None:
        """Count a batch.

        Args:
            attention_mask: integers[rows, width], 0 at padding: an array, or a tensor of the CPU.
        """
        mask = np.asarray(attention_mask)
        self.tokens += int(mask.sum())
        self.places += mask.size


def padding_share(
    batches: Batches,
    padding: Padding | None = None,
    *,
    world_size: int = 1,
    begin: Position | None = None,
    most_samples: int | None = None,
) -> float:
    """The share of padding in an epoch's batches, of all ranks together.

    Lengths alone are looked up, no example is read.

    Args:
        batches: whose collator is not asked.
        padding: how wide batches are made; None for the longest row of each.
        world_size: ranks.
        begin: where to begin; None for the first epoch.
        most_samples: end with the pool in which so many are counted; None for the whole epoch.

    Example:
        0.31 says that of 100 places of a batch 31 are padding on average.
    """
    padding = padding or Padding()
    counted = PaddingShare()
    samples = 0
    for pool in batches.pools(begin or Position(0), world_size):
        parts = [pool.batch(step, rank) for step in range(pool.steps) for rank in range(world_size)]
        sizes = np.array([len(part) for part in parts])
        lengths = batches.samples.lengths(batches.order.locate(np.concatenate(parts)))
        for size, of_batch in zip(sizes, np.split(lengths, np.cumsum(sizes)[:-1]), strict=True):
            counted.places += int(size) * padding.width(of_batch)
        counted.tokens += int(lengths.sum())
        samples += len(lengths)
        if most_samples is not None and samples >= most_samples:
            break
    return counted.share
