"""An order that reads easy samples first: an epoch in stages, by a value of each sample.

The samples of a stage have an `Order` of their own, whose shards are what the stage takes of the
shards of the data set. So each stage reads the shards one after another, and shuffles within
windows; a table says which sample of the data set each of its samples is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from corpusmill.errors import UserError
from corpusmill.reading.data_set import DataSet, Samples
from corpusmill.reading.order.order import WINDOW, Order
from corpusmill.reading.rows import Integers, check_minimum

# What may be ordered by: the length in tokens, a column, or a value for each sample.
By = str | npt.ArrayLike

_LENGTH = "length"


@dataclass(frozen=True)
class Curriculum:
    """The order of a data set in stages; see Ordering, and `curriculum`, which makes one.

    Attributes:
        orders: the order of each stage.
        plain: the order of epochs without stages.
        members: int32[samples] or int64[samples], the samples of all stages, one stage after
            another, each in the order in which they are stored.
        epochs_in_stages: the number of epochs that are read in stages; None for all.
        digest: the digest of `members`.
    """

    orders: tuple[Order, ...]
    plain: Order
    members: npt.NDArray[Any] = field(repr=False, compare=False)
    epochs_in_stages: int | None = None
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        """Compute the digest."""
        digest = sha256(self.members.tobytes()).hexdigest()
        object.__setattr__(self, "digest", digest)

    @property
    def seed(self) -> int:
        """The seed of the orders of all stages."""
        return self.plain.seed

    def __len__(self) -> int:
        return len(self.plain)

    def locate(self, numbers: Integers) -> Integers:
        """Return the samples at places of the endless sequence of epochs.

        Args:
            numbers: int64[n], each epoch * len + position.

        Returns:
            int64[n], samples by their number in the data set, 0 to len - 1.

        Example:
            for 6 samples of which 1, 3 and 4 are short, the numbers 0 to 5 give the short ones and
            then the others, such as [3, 1, 4, 2, 0, 5], and 6 to 11 likewise in another order.
        """
        numbers = np.asarray(numbers, np.int64)
        epochs, positions = np.divmod(numbers, len(self))
        starts = np.cumsum([0, *map(len, self.orders)])
        stages = np.searchsorted(starts, positions, side="right") - 1
        if self.epochs_in_stages is not None:
            stages[epochs >= self.epochs_in_stages] = len(self.orders)
        samples = np.empty(len(numbers), np.int64)
        for stage in np.unique(stages).tolist():
            places = np.flatnonzero(stages == stage)
            if stage == len(self.orders):
                samples[places] = self.plain.locate(numbers[places])
                continue
            order, start = self.orders[stage], starts[stage]
            own = epochs[places] * len(order) + positions[places] - start
            samples[places] = self.members[start + order.locate(own)]
        return samples

    def epochs(self, numbers: Integers) -> Integers:
        """Return the epoch of each number, int64[n]."""
        return self.plain.epochs(numbers)

    def describe(self, end: int | None = None) -> dict[str, Any]:
        """Return the parameters, and the digest of the table, as JSON types.

        How many epochs are read in stages is only among them once one is not.

        Args:
            end: what only affects this number and later ones is left out; None for nothing.
        """
        epochs = self.epochs_in_stages
        is_over = epochs is not None and (end is None or end > epochs * len(self))
        return {
            **self.plain.describe(end),
            "stages": [len(order) for order in self.orders],
            "epochs_in_stages": epochs if is_over else None,
            "members": self.digest,
        }


def curriculum(
    samples: Samples,
    by: By = _LENGTH,
    stages: int | Sequence[float] = 4,
    *,
    seed: int = 0,
    shuffle: bool = True,
    window: int = WINDOW,
    descending: bool = False,
    epochs: int | None = None,
) -> Curriculum:
    """Return an order of a data set that reads each epoch in stages.

    An epoch has every sample once, and within a stage they are shuffled as by `Order`. It takes 4
    bytes of memory for each sample, and up to 24 while it is made. To know all lengths or a column,
    it unpacks all shards now, and not when they are first read.

    Args:
        samples: a data set, or windows of one.
        by: "length" for the tokens of each sample, or the name of a column with one number per row,
            or an array with a number for each sample, such as its loss in another model.
        stages: the number of stages of equal size, the lowest values first; of equal values, those
            stored first. Or the highest value in each stage but the last, which has all others.
        seed: the seed of the order.
        shuffle: whether to shuffle; if not, each stage is read in the order in which it is stored.
        window: the window of the order in each stage.
        descending: whether the highest values come first; `stages` then names the lowest value in
            each stage but the last.
        epochs: the number of epochs that are read in stages; None for all. Later ones are in the
            usual order.

    Raises:
        UserError: there is no such column, not one value for each sample, or a stage without
            samples.

    Example:
        curriculum(samples, "length", [128, 512]) reads the samples of up to 128 tokens, those of up
        to 512, and those that are longer.
    """
    check_minimum("epochs", epochs, 0)
    plain = samples.order(seed, shuffle, window)
    values = _read_values(samples, by)
    if isinstance(stages, int | np.integer):
        members, sizes = _divide(-values if descending else values, stages)
    else:
        members, sizes = _divide_at(values, stages, descending)
    if min(sizes) < 1:
        cause = f"stage {sizes.index(0)} of {len(sizes)} has none of the {len(values):,} samples"
        cure = f"The values are {values.min()} to {values.max()}: give others"
        raise UserError(f"stages={stages}", cause, cure)
    starts = np.cumsum([0, *plain.shard_sizes])
    orders = []
    for begin, end in pairwise(np.cumsum([0, *sizes]).tolist()):
        shard_sizes = np.diff(np.searchsorted(members[begin:end], starts))
        orders.append(replace(plain, shard_sizes=tuple(shard_sizes.tolist())))
    return Curriculum(tuple(orders), plain, members, epochs)


def _read_values(samples: Samples, by: By) -> npt.NDArray[Any]:
    """Return a number for each sample, one shard after another, any[samples]."""
    if isinstance(by, str):
        return _read_by_shard(samples, by)
    values = np.asarray(by)
    if values.shape != (len(samples),):
        cause = f"there are {len(samples):,} samples"
        raise UserError(f"by=array{list(values.shape)}", cause, "Give one number for each")
    if values.dtype.kind not in "iufb" or (values.dtype.kind == "f" and np.isnan(values).any()):
        raise UserError("by=array", "some of its values are not numbers", "Give numbers")
    return _sign(values)


def _read_by_shard(samples: Samples, by: str) -> npt.NDArray[Any]:
    if by == _LENGTH:
        read: Callable[[Integers], npt.NDArray[Any]] = partial(_read_lengths, samples)
    else:
        read = _find_column(samples, by)
    shards = pairwise(np.cumsum([0, *samples.shard_sizes]).tolist())
    # A shard at a time, so that no more need fit into the cache.
    return np.concatenate([_sign(read(np.arange(begin, end))) for begin, end in shards])


def _find_column(samples: Samples, name: str) -> Callable[[Integers], npt.NDArray[Any]]:
    columns = samples.columns if isinstance(samples, DataSet) else ()
    names = [column.name for column in columns if not column.width]
    if not isinstance(samples, DataSet) or name not in names:
        cause = f"the columns with one number per row are: {', '.join(names) or 'none'}"
        raise UserError(f"by={name}", cause, f"Give {_LENGTH!r}, one of them, or an array")
    return partial(samples.numbers, name)


def _read_lengths(samples: Samples, numbers: Integers) -> npt.NDArray[np.int32]:
    return samples.lengths(numbers).astype(np.int32)


def _sign(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return numbers in a type in which they can be negated."""
    return values.astype(np.int64) if values.dtype.kind in "ub" else values


def _divide(values: npt.NDArray[Any], stages: int) -> tuple[npt.NDArray[Any], list[int]]:
    """Return the samples of stages of equal size, and these sizes.

    Args:
        values: any[samples]; the lowest come first.
        stages: the number of stages.

    Returns:
        int32[samples] or int64[samples], and the samples of each stage.

    Example:
        values [7, 5, 9, 5, 6] and 2 stages give [1, 3, 0, 2, 4] and sizes 2 and 3.
    """
    check_minimum("stages", stages, 1)
    ranked = _shrink(np.argsort(values, kind="stable"))
    bounds = [len(values) * stage // stages for stage in range(stages + 1)]
    for begin, end in pairwise(bounds):
        ranked[begin:end].sort()
    return ranked, np.diff(bounds).tolist()


def _divide_at(
    values: npt.NDArray[Any], bounds: Sequence[float], descending: bool
) -> tuple[npt.NDArray[Any], list[int]]:
    """Return the samples of stages between given values, as `_divide` does.

    Args:
        values: any[samples].
        bounds: the highest value in each stage but the last, or the lowest.
        descending: whether it is the lowest.

    Example:
        values [7, 5, 9, 5, 6] and bounds [5, 7] give [1, 3, 0, 4, 2] and sizes 2, 2 and 1.
    """
    order = -1 if descending else 1
    steps = np.diff(np.array(bounds, np.float64)) * order
    if not len(bounds) or not (steps > 0).all():
        cause = f"they must {'fall' if descending else 'rise'} from each to the next"
        raise UserError(f"stages={bounds}", cause, "Give such values, or a number of stages")
    stages = np.searchsorted(np.array(bounds) * order, values * order, side="left")
    stages = stages.astype(np.uint8 if len(bounds) < 2**8 else np.uint32)
    sizes = np.bincount(stages, minlength=len(bounds) + 1).tolist()
    return _shrink(np.argsort(stages, kind="stable")), sizes


def _shrink(samples: Integers) -> npt.NDArray[Any]:
    """Return the numbers of samples in four bytes if they fit."""
    return samples.astype(np.int32) if len(samples) <= 2**31 else samples
