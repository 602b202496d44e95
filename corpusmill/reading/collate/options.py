"""The options of collators, and how a collator refuses those that it does not take."""

from collections.abc import Callable, Sequence
from typing import Literal, TypedDict

from corpusmill.errors import UserError
from corpusmill.reading.collate.padding import Padding
from corpusmill.reading.data_set import Samples
from corpusmill.reading.load.batches import Collator

Predicted = Literal["labels", "targets"]
Layout = Literal["rows", "flattened"]


class CollatorOptions(TypedDict, total=False):
    """The options of `collator_for`; all are optional.

    Attributes:
        padding: "longest" makes a batch as wide as its longest row, "max_length" as max_length.
        pad_to_multiple_of: widens it to a multiple. Windows of a stream all have one length, and
            are not padded.
        max_length: the most tokens that the model takes; by default the data set's --max-seq-length
            with padding="max_length", and otherwise no limit.
        seed: the seed of masks that are drawn when rows are loaded; they differ in each epoch.
        mask: whether to mask rows that were stored unmasked when they are loaded.
        mask_word_prob: ERNIE's probability that a sequence is masked by whole words, one for all
            data sets or one for each; by default that of the build.
        predicted: for models of the next token: "labels" are the input_ids, as Hugging Face models
            take them, "targets" have the next token at each position.
        layout: the layout of packed rows; "flattened" puts a batch into one row without padding.
    """

    padding: Literal["longest", "max_length"]
    pad_to_multiple_of: int | None
    max_length: int | None
    seed: int
    mask: bool
    mask_word_prob: float | Sequence[float] | None
    predicted: Predicted
    layout: Layout


# What an objective names as its collator: it makes one for samples, with this padding.
MakeCollator = Callable[[Samples, Padding, CollatorOptions], Collator]

# The values that leave to a collator what it does.
_DEFAULTS: CollatorOptions = {
    "mask": True, "mask_word_prob": None, "predicted": "labels", "layout": "rows"
}  # fmt: skip


def check_suits(name: str, value: object, is_valid: bool, cause: str) -> None:
    """Refuse an option that does not suit the data set.

    Raises:
        UserError: it is not valid.
    """
    if not is_valid:
        raise UserError(f"{name}={value}", cause, "Omit it, or give data that it suits")


def refuse_others(options: CollatorOptions, *names: str) -> None:
    """Refuse options of other collators than the one that takes these.

    Raises:
        UserError: there is one, and it does not have its default.
    """
    causes = {
        "mask": "the examples are not masked",
        "mask_word_prob": "no masks are drawn",
        "predicted": "the model of this data set does not take it",
        "layout": "the rows are not packed",
    }
    for name, cause in causes.items():
        value, default = options.get(name, _DEFAULTS.get(name)), _DEFAULTS.get(name)
        check_suits(name, value, name in names or value == default, cause)
