"""From a data set to its batches in one call."""

from typing import Unpack

from corpusmill.errors import UserError
from corpusmill.reading.collate.collators import collator_for
from corpusmill.reading.collate.padding import CollatorOptions
from corpusmill.reading.data_set import Samples
from corpusmill.reading.load.batches import Batches
from corpusmill.reading.order.length_batches import LengthBatches
from corpusmill.reading.order.mixture import JoinedSamples
from corpusmill.reading.order.order import Ordering
from corpusmill.reading.order.schedule import Batching, FixedBatches


def make_batches(
    samples: Samples,
    batch_size: int | None = None,
    *,
    max_tokens: int | None = None,
    by_length: bool = False,
    order: Ordering | None = None,
    shuffle: bool = True,
    drop_last: bool = False,
    **options: Unpack[CollatorOptions],
) -> Batches:
    """Return the batches of a data set, with the arguments of the model of its objective.

    Args:
        samples: a data set, windows of one, or a mixture, which needs its `order`.
        batch_size: samples per rank and batch.
        max_tokens: the most tokens of a batch with its padding, instead of or in addition to
            batch_size; implies batches by length.
        by_length: whether the samples of a batch have similar lengths.
        order: the order of the samples; None for `samples.order(seed, shuffle)`.
        shuffle: whether to shuffle; otherwise samples are read in the order they are stored in.
        drop_last: whether to leave out an epoch's last, smaller batch; not with batches by length.
        options: the options of `collator_for`; `seed` is also the seed of the order.

    Raises:
        UserError: a value is out of range or does not suit the data set, or two contradict each
            other.

    Example:
        Loader(make_batches(DataSet("out"), 32, seed=1))
    """
    if order is None:
        if isinstance(samples, JoinedSamples):
            cause = "only the order of a mixture knows the proportions"
            raise UserError("order=None", cause, "Give the order that mix() returned")
        order = samples.order(options.get("seed", 0), shuffle)
    batching: Batching
    if by_length or max_tokens is not None:
        if drop_last:
            cause = "batches by length leave no samples out"
            raise UserError("drop_last=True", cause, "Omit one of the two")
        multiple = options.get("pad_to_multiple_of") or 1
        batching = LengthBatches(samples, order, batch_size, max_tokens, multiple)
    elif batch_size is None:
        raise UserError("batch_size=None", "the size of batches is unknown", "Give batch_size")
    else:
        batching = FixedBatches(batch_size, drop_last)
    return Batches(samples, order, batching, collator_for(samples, **options))
