"""The share of padding in what a model computes: in a whole epoch, or counted during training."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from corpusmill.reading.collate.padding import Padding
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.order.schedule import Position


@dataclass
class PaddingShare:
    """A running count of padding.

    Attributes:
        tokens: tokens that are not padding, so far.
        places: places in all batches, so far.

    Example:
        the mask [[1, 1, 0, 0], [1, 1, 1, 1]] gives the share 0.25.
    """

    tokens: int = 0
    places: int = 0

    @property
    def share(self) -> float:
        """The share of padding among all places; 0 before the first batch."""
        return 1 - self.tokens / self.places if self.places else 0.0

    def add(self, attention_mask: Any) -> None:
        """Count a batch.

        Args:
            attention_mask: integers[rows, width], 0 at padding: an array, or a tensor on the CPU.
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
    """Return the share of padding in an epoch's batches, of all ranks together.

    Only lengths are looked up; examples are not read.

    Args:
        batches: the batches; their collator is not used.
        padding: the width of batches; None for the longest row of each.
        world_size: the number of ranks.
        begin: where to begin; None for the first epoch.
        most_samples: stop after the pool in which this many are counted; None for the whole epoch.

    Example:
        0.31 means that of 100 places of a batch 31 are padding on average.
    """
    padding = padding or Padding()
    total = PaddingShare()
    samples = 0
    for pool in batches.pools(begin or Position(0), world_size):
        parts = [pool.batch(step, rank) for step in range(pool.steps) for rank in range(world_size)]
        sizes = [len(part) for part in parts]
        lengths = batches.samples.lengths(batches.order.locate(np.concatenate(parts)))
        for batch_lengths in np.split(lengths, np.cumsum(sizes)[:-1]):
            total.places += len(batch_lengths) * padding.width(batch_lengths)
        total.tokens += int(lengths.sum())
        samples += len(lengths)
        if most_samples is not None and samples >= most_samples:
            break
    return total.share
