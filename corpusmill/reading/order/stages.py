"""How many samples each source of a mixture has in each stage of a training.

A stage has a number of samples and weights. The quotas of its sources are whole numbers by the
largest remainder: each is its exact share, rounded down or up, and they sum to the samples of the
stage. A stage whose weights change evenly is cut into steps with constant weights, whose quotas sum
to those of the whole stage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import pairwise
from math import isfinite
from operator import index
from typing import Literal, SupportsIndex

from corpusmill.errors import UserError
from corpusmill.objectives.masking.masked_lm import MaskShares, check_shares
from corpusmill.reading.order.order import LARGEST_WHOLE
from corpusmill.reading.rows import check_minimum

EpochSize = int | Literal["first_exhausted", "all_exhausted"]
Weights = Sequence[float] | Mapping[str, float]
Quotas = tuple[int, ...]

# Steps of a stage whose weights change evenly. Within one, the weights differ from the line by less
# than a hundredth of the whole change.
_RAMP_STEPS = 64


@dataclass(frozen=True)
class Stage:
    """A part of a training, with the weights of the sources in it.

    Attributes:
        weights: the proportion of each source among the samples, by its name or in the order of the
            sources. They need not sum to 1. A source with weight 0 is not read in this stage.
        samples: the samples of the stage, of all ranks together.
        epochs: its length in epochs of the mixture instead: how often the source that is used up
            first is read.
        ramp: whether the weights change evenly over the stage, from those at the end of the stage
            before to these. Otherwise they hold from its first sample on.
        masked_lm_prob: the share of a row's tokens that are predicted in this stage, in rows that
            are masked when they are loaded; None for that of `make_batches` or of the build.
        mask_replace_prob: the share of these that become [MASK]; None for that of `make_batches` or
            of the build, as for the next one.
        random_replace_prob: the share of these that become a random token, given together with
            mask_replace_prob.

    Raises:
        UserError: there is not one length, it is not above 0, or a share is out of range.

    Example:
        [Stage({"web": 9, "books": 1}, 900_000), Stage({"web": 1, "books": 1}, 100_000, ramp=True)]
        reads 900,000 samples of which every tenth is of a book, and 100,000 in which the share of
        books grows from 0.1 to 0.5.
    """

    weights: Weights
    samples: int | None = None
    epochs: float | None = None
    ramp: bool = False
    masked_lm_prob: float | None = None
    mask_replace_prob: float | None = None
    random_replace_prob: float | None = None

    def __post_init__(self) -> None:
        """Check the length and the shares."""
        check_shares(self.mask_shares)
        check_minimum("samples", self.samples, 1)
        value = f"Stage({self.weights}, samples={self.samples}, epochs={self.epochs})"
        if (self.samples is None) is (self.epochs is None):
            raise UserError(value, "it needs one length", "Give either samples or epochs")
        if (self.mask_replace_prob is None) is not (self.random_replace_prob is None):
            names = "mask_replace_prob, random_replace_prob"
            raise UserError(names, "a stage gives only one of the two", "Give both, or neither")
        if self.epochs is not None and not (isfinite(self.epochs) and self.epochs > 0):
            raise UserError(value, "epochs must be above 0", "Give a number such as 0.5 or 2")

    @property
    def mask_shares(self) -> MaskShares:
        """The shares of masks in this stage."""
        return MaskShares(self.masked_lm_prob, self.mask_replace_prob, self.random_replace_prob)


def tell_apart(proportions: Weights | Sequence[Stage]) -> tuple[list[Stage], Weights]:
    """Return the stages among proportions, or weights; one of the two is empty.

    Raises:
        UserError: there are both.
    """
    if isinstance(proportions, Mapping):
        return [], proportions
    stages = [one for one in proportions if isinstance(one, Stage)]
    weights = [one for one in proportions if not isinstance(one, Stage)]
    if stages and weights:
        cause = "some are stages, and others are not"
        raise UserError(f"proportions={proportions}", cause, "Give stages alone, or numbers")
    return stages, weights


def read_weights(weights: Weights, names: Sequence[str] | None, sources: int) -> list[Fraction]:
    """Return the share of each source, in the order of the sources; they sum to 1.

    Args:
        weights: by name, or in the order of the sources.
        names: the names of the sources; None if they have none.
        sources: the number of sources.

    Raises:
        UserError: they do not name each source, or are not numbers from 0 of which one is above it.
    """
    value = f"proportions={weights}"
    if isinstance(weights, Mapping):
        numbers = _by_name(weights, names, value)
    elif names is not None:
        cure = f"Give a dictionary with {', '.join(names)}"
        raise UserError(value, "the sources have names, and these weights do not", cure)
    else:
        numbers = list(weights)
    are_weights = all(isfinite(number) and number >= 0 for number in numbers)
    if len(numbers) != sources or not are_weights:
        cause = f"each of the {sources} sources needs one number, 0 or more"
        raise UserError(value, cause, "Give as many numbers as sources")
    # Python 3.11 makes no fractions of NumPy's float32.
    parts = [Fraction(one if isinstance(one, int) else float(one)) for one in numbers]
    if not any(parts):
        raise UserError(value, "no source would be read", "Give one of them more than 0")
    whole = sum(parts)
    return [part / whole for part in parts]


def _by_name(weights: Mapping[str, float], names: Sequence[str] | None, value: str) -> list[float]:
    if names is None:
        cure = "Give the data sets in a dictionary, by the same names"
        raise UserError(value, "the sources have no names", cure)
    for name in weights:
        if name not in names:
            cause = f"there is no source {name!r}; there are {', '.join(names)}"
            raise UserError(value, cause, "Give the weights of these")
    for name in names:
        if name not in weights:
            cause = f"the source {name!r} has no weight"
            raise UserError(value, cause, "Give each source one; 0 leaves it out")
    return [weights[name] for name in names]


def apportion(shares: Sequence[Fraction], samples: int) -> Quotas:
    """Return whole numbers in proportion to shares by the largest remainder.

    Args:
        shares: they sum to 1.
        samples: the sum of the result.

    Example:
        the shares (1/2, 1/3, 1/6) of 10 samples are (5, 3, 2).
    """
    return _round([share * samples for share in shares], [samples] * len(shares))


def _round(exact: Sequence[Fraction], most: Sequence[int]) -> Quotas:
    """Return whole numbers near exact ones, with the same sum.

    Args:
        exact: their sum is a whole number.
        most: the most that each of the results may be; the least is 0.
    """
    quotas = [
        min(max(0, part.numerator // part.denominator), limit)
        for part, limit in zip(exact, most, strict=True)
    ]
    missing = int(sum(exact)) - sum(quotas)
    # One up for the largest remainders, or one down for the smallest; of equal ones the first.
    step = 1 if missing > 0 else -1
    remainders = [(step * (quotas[s] - exact[s]), s) for s in range(len(exact))]
    heapify(remainders)
    while missing:
        remainder, source = heappop(remainders)
        if quotas[source] < most[source] if step > 0 else quotas[source]:
            quotas[source] += step
            missing -= step
            heappush(remainders, (remainder + 1, source))
    return tuple(quotas)


def read_epoch_size(epoch_size: EpochSize | None) -> EpochSize | None:
    """Return the samples of an epoch, or the rule that gives them, as `mix` takes it.

    Raises:
        UserError: it is neither a whole number from 1 on nor a rule.
    """
    if epoch_size is None or epoch_size in ("first_exhausted", "all_exhausted"):
        return epoch_size
    if not isinstance(epoch_size, SupportsIndex):
        cure = 'Give a whole number, "first_exhausted" or "all_exhausted"'
        raise UserError(f"epoch_size={epoch_size!r}", "it is not a number of samples", cure)
    check_minimum("epoch_size", index(epoch_size), 1)
    return index(epoch_size)


def share(sizes: Sequence[int], shares: Sequence[Fraction], epoch_size: EpochSize) -> Quotas:
    """Return the samples of each source in an epoch of a mixture.

    Args:
        sizes: samples of each source, 1 or more.
        shares: of each source; they sum to 1.
        epoch_size: as in `mix`.

    Example:
        sizes (100, 1000) and shares (1/3, 2/3) give (100, 200), with "all_exhausted" (500, 1000),
        and with 10 samples per epoch (3, 7).
    """
    if isinstance(epoch_size, int):
        return apportion(shares, epoch_size)
    passes = [size / part for size, part in zip(sizes, shares, strict=True) if part]
    scale = min(passes) if epoch_size == "first_exhausted" else max(passes)
    return tuple(round(scale * part) for part in shares)


def check_quotas(
    value: object, quotas: Quotas, shares: Sequence[Fraction], names: Sequence[str] | None
) -> None:
    """Refuse quotas that leave out a source with a weight, or of more samples than can be shared.

    Raises:
        UserError: a source would not be read at all, or there are too many samples.
    """
    if sum(quotas) > LARGEST_WHOLE:
        cause = f"it would take {sum(quotas):,} samples to give each source its share"
        raise UserError(str(value), cause, f"Give larger shares, or up to {LARGEST_WHOLE} samples")
    for source, (quota, part) in enumerate(zip(quotas, shares, strict=True)):
        if part and not quota:
            name = names[source] if names else source
            cause = f"source {name} has no sample in {sum(quotas)}"
            raise UserError(str(value), cause, "Give it a larger share, or more samples")


def plan_stages(
    stages: Sequence[Stage], sizes: Sequence[int], names: Sequence[str] | None
) -> tuple[tuple[Quotas, ...], tuple[MaskShares, ...], int]:
    """Return stages with constant weights, and the samples of all stages given.

    The last quotas are those that are repeated after the training.

    Args:
        stages: the stages of a training.
        sizes: samples of each source.
        names: the names of the sources; None if they have none.

    Returns:
        the quotas of each stage with constant weights, its shares of masks, and the samples.

    Raises:
        UserError: weights are not valid, a source with a weight would not be read in a stage, or
            the first stage is a ramp.
    """
    planned: list[Quotas] = []
    masks: list[MaskShares] = []
    before: list[Fraction] | None = None
    for stage in stages:
        shares = read_weights(stage.weights, names, len(sizes))
        quotas = _measure(stage, shares, sizes)
        if stage.ramp:
            if before is None:
                cause = "there are no weights before it from which they could change"
                raise UserError(str(stage), cause, "Begin with a stage of constant weights")
            middle = [(one + other) / 2 for one, other in zip(before, shares, strict=True)]
            whole = apportion(middle, sum(quotas))
            check_quotas(stage, whole, middle, names)
            planned += _cut_ramp(before, shares, whole)
        else:
            check_quotas(stage, quotas, shares, names)
            planned.append(quotas)
        before = shares
        masks += [stage.mask_shares] * (len(planned) - len(masks))
    samples = sum(map(sum, planned))
    if stages[-1].ramp:
        planned.append(quotas)
        masks.append(stage.mask_shares)
    return tuple(planned), tuple(masks), samples


def _measure(stage: Stage, shares: Sequence[Fraction], sizes: Sequence[int]) -> Quotas:
    if stage.samples is not None:
        return apportion(shares, stage.samples)
    passes = [size / part for size, part in zip(sizes, shares, strict=True) if part]
    scale = min(passes) * Fraction(stage.epochs or 0)
    return tuple(round(scale * part) for part in shares)


def _cut_ramp(begin: Sequence[Fraction], end: Sequence[Fraction], quotas: Quotas) -> list[Quotas]:
    """Return the quotas of the steps of a stage whose shares change from `begin` to `end`.

    The exact share of a step is that in its middle. What its quotas lack or exceed is made up for
    in the next steps.

    Args:
        begin: the shares before the stage.
        end: the shares at its end.
        quotas: the samples of each source in the whole stage.

    Example:
        from (1, 0) to (0, 1) with quotas (2, 2), the exact shares of four steps of one sample are
        (7/8, 1/8), (5/8, 3/8), (3/8, 5/8) and (1/8, 7/8), and their quotas (1, 0), (1, 0), (0, 1),
        (0, 1).
    """
    steps: list[Quotas] = []
    samples = sum(quotas)
    owed, left = [Fraction(0)] * len(begin), list(quotas)
    count = min(_RAMP_STEPS, samples)
    bounds = [samples * step // count for step in range(count + 1)]
    for first, last in pairwise(bounds):
        middle = Fraction(first + last, 2 * samples)
        exact = [
            (one + (other - one) * middle) * (last - first) + due
            for one, other, due in zip(begin, end, owed, strict=True)
        ]
        steps.append(_round(exact, left))
        owed = [part - step for part, step in zip(exact, steps[-1], strict=True)]
        left = [rest - step for rest, step in zip(left, steps[-1], strict=True)]
    return steps
