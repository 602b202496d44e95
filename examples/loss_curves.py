"""A plot of the losses of a BERT training run, with the losses of guessing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import numpy.typing as npt

mpl.use("Agg")  # without a screen
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

_BLUE, _ORANGE, _GREY = "#3b6fb6", "#d9702b", "#6b6b6b"

# Number of batches in the moving average; the loss of a single batch says little.
SMOOTHED = 50


class Losses(NamedTuple):
    """The mean losses of a batch, or of held-out text, in nats.

    Attributes:
        step: number of steps so far.
        mlm: cross-entropy of the masked tokens.
        nsp: cross-entropy of the next-sentence labels.
    """

    step: int
    mlm: float
    nsp: float


class Baselines(NamedTuple):
    """The losses of models that ignore the words, in nats.

    Attributes:
        uniform_mlm: all tokens of the vocabulary are equally likely.
        frequency_mlm: tokens are as likely as they are frequent.
        coin_nsp: both labels are equally likely.
        lengths_nsp: the label depends only on whether the second segment is empty, which happens
            only in random pairs.
    """

    uniform_mlm: float
    frequency_mlm: float
    coin_nsp: float
    lengths_nsp: float


def find_baselines(examples: Sequence[Mapping[str, Any]], vocab_size: int) -> Baselines:
    """Return the losses of guessing on masked examples.

    Args:
        examples: with `token_type_ids`, `masked_lm_ids` and `next_sentence_label`.
        vocab_size: of the tokenizer.
    """
    counts = np.bincount(
        np.concatenate([example["masked_lm_ids"] for example in examples]), minlength=vocab_size
    )
    # The second [SEP] has type 1, too.
    has_second = np.array([example["token_type_ids"].sum() > 1 for example in examples])
    labels = np.array([example["next_sentence_label"] for example in examples])
    lengths_nsp = sum(
        (has_second == kind).mean() * entropy(np.bincount(labels[has_second == kind]))
        for kind in np.unique(has_second)
    )
    return Baselines(np.log(vocab_size), entropy(counts), np.log(2), lengths_nsp)


def entropy(counts: npt.NDArray[np.int64]) -> float:
    """Return the lowest loss of constant probabilities, in nats.

    Example:
        [10, 10] gives ln 2 = 0.693.
    """
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def smooth(values: Sequence[float]) -> list[float]:
    """Return the mean of each value and those before it, at most SMOOTHED in total."""
    sums = np.cumsum([0.0, *values])
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(0, ends - SMOOTHED)
    means: list[float] = ((sums[ends] - sums[begins]) / (ends - begins)).tolist()
    return means


def judge(name: str, training: float, validation: float, guessing: float) -> str:
    """Return a sentence about a final loss."""
    if validation < 0.98 * guessing:
        verdict = "the model generalizes to text that it has never read"
    elif training < 0.98 * guessing:
        verdict = (
            "the model knows the training text by heart but does not generalize: use more text"
        )
    else:
        verdict = "the model has not learned anything yet: train for more steps"
    return (
        f"{name}: {training:.2f} in training, {validation:.2f} in validation, "
        f"{guessing:.2f} by guessing; {verdict}"
    )


def draw_losses(
    path: Path,
    title: str,
    training: Sequence[Losses],
    validation: Sequence[Losses],
    baselines: Baselines,
) -> None:
    """Write a PNG with the masked language model on the left and the next sentence on the right."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), dpi=150, layout="constrained")
    figure.suptitle(title)
    _draw_lines(
        left,
        [(losses.step, losses.mlm) for losses in training],
        [(losses.step, losses.mlm) for losses in validation],
    )
    _draw_lines(
        right,
        [(losses.step, losses.nsp) for losses in training],
        [(losses.step, losses.nsp) for losses in validation],
    )
    _draw_baseline(left, baselines.uniform_mlm, "ln of the vocabulary")
    _draw_baseline(left, baselines.frequency_mlm, "guessing by frequency")
    _draw_baseline(right, baselines.coin_nsp, "ln 2, a coin")
    _draw_baseline(right, baselines.lengths_nsp, "seeing only empty segments", below=True)
    left.set_title("masked language model", fontsize=11)
    right.set_title("next sentence", fontsize=11)
    left.set_ylabel("loss (nats)")
    left.legend(loc="upper right", bbox_to_anchor=(1, 0.88), frameon=False)
    figure.savefig(path)
    plt.close(figure)


_Points = Sequence[tuple[int, float]]


def _draw_lines(axes: Axes, training: _Points, validation: _Points) -> None:
    steps, losses = zip(*training, strict=True)
    axes.plot(steps, losses, color=_BLUE, alpha=0.15, linewidth=0.7, zorder=1)
    axes.plot(steps, smooth(losses), color=_BLUE, label=f"training, mean of {SMOOTHED} batches")
    axes.plot(
        *zip(*validation, strict=True), color=_ORANGE, marker="o", markersize=4, label="validation"
    )
    axes.set_xlabel("step")
    # Single batches may be out of view, the other curves may not.
    shown = [*smooth(losses), *(loss for _, loss in validation)]
    axes.set_ylim(min(shown) - 0.1 * np.ptp(shown), max(shown) + 0.1 * np.ptp(shown))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.margins(x=0.01)


def _draw_baseline(axes: Axes, loss: float, name: str, *, below: bool = False) -> None:
    axes.axhline(loss, color=_GREY, linewidth=0.9, linestyle="--")
    axes.annotate(
        f"{name}: {loss:.2f}", (1, loss), xycoords=("axes fraction", "data"),
        xytext=(-2, -4 if below else 4), textcoords="offset points",
        ha="right", va="top" if below else "bottom", fontsize=9, color=_GREY,
        zorder=1.5,  # above single batches, below the curves
        bbox={"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 1},
    )  # fmt: skip
