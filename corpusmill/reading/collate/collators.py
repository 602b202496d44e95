"""From rows to the arguments of a model: what all collators share, and which one is used.

    MaskedLmCollator          masked rows: BERT, ALBERT, RoBERTa, ERNIE, ELECTRA's generator; also
                              packed ones: ModernBERT
    CausalLmCollator          windows of documents, or documents: GPT
    WindowCollator            windows of a token stream: GPT
    PackedCollator            packed rows: GPT
    DiffusionCollator         all three, masked for diffusion: LLaDA, MDLM, Dream
    Seq2SeqCollator           inputs and targets: T5

`collator_for` makes the one that the objective of a data set names. Arrays are named after the
arguments of Hugging Face models. They share the width of a batch; `packed_layouts` lays out packed
rows.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, get_args

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.columns import ANY_LENGTH, LONGEST_ROW, Role
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.ragged import longest_row
from corpusmill.errors import UserError, first_line, option
from corpusmill.objectives.masking.masked_lm import MaskShares
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.reading.data_set import Samples
from corpusmill.reading.mixture import JoinedSamples
from corpusmill.reading.recorded_options import check_suits, options_of
from corpusmill.reading.rows import (
    NOT_PREDICTED,
    Collator,
    Integers,
    Lists,
    Part,
    check_minimum,
    check_seed,
    gather_lists,
)

if TYPE_CHECKING:
    from corpusmill.reading.collate.masked_diffusion import MaskedDiffusion


@dataclass(frozen=True)
class Padding:
    """The width of a batch, in the terms of Hugging Face tokenizers.

    Attributes:
        pad_id: the token that fills the rows of input_ids.
        padding: "longest" makes a batch as wide as its longest row, "max_length" as max_length.
        pad_to_multiple_of: widens it to a multiple; tensor cores are fastest with multiples of 8
            or 64.
        max_length: the most tokens that the model takes; None means no limit.
    """

    pad_id: int = 0
    padding: Literal["longest", "max_length"] = "longest"
    pad_to_multiple_of: int | None = None
    max_length: int | None = None

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value is out of range, or two contradict each other.
        """
        multiple, max_length = self.pad_to_multiple_of, self.max_length
        if self.padding not in {"longest", "max_length"}:
            cause = "padding is unknown"
            raise UserError(f'padding="{self.padding}"', cause, 'Give "longest" or "max_length"')
        check_minimum("pad_to_multiple_of", multiple, 1)
        check_minimum("max_length", max_length, 1)
        if self.padding == "max_length" and max_length is None:
            raise UserError('padding="max_length"', "max_length is unknown", "Give max_length")
        if multiple and max_length and max_length % multiple:
            cause = f"max_length={max_length} is not a multiple"
            raise UserError(f"pad_to_multiple_of={multiple}", cause, "Change one of the two")

    def width(self, lengths: Integers) -> int:
        """Return the width of a batch whose rows have these lengths, int64[rows].

        Raises:
            UserError: a row is longer than max_length.

        Example:
            lengths [5, 9] give 9, and 16 with pad_to_multiple_of=8.
        """
        longest = int(lengths.max(initial=0))
        if self.max_length is not None and longest > self.max_length:
            cause = f"an example of the batch has {longest} tokens"
            cure = (
                "Use a model with a larger limit, or build with a smaller "
                f"{option('max_seq_length')}"
            )
            raise UserError(f"max_length={self.max_length}", cause, cure)
        if self.padding == "max_length" and self.max_length is not None:
            return self.max_length
        return int(self.round_up(longest))

    def round_up(self, tokens: Any) -> Any:
        """Round numbers of tokens up to multiples of pad_to_multiple_of, if there is one."""
        multiple = self.pad_to_multiple_of or 1
        return -(-tokens // multiple) * multiple


@njit
def pad(values: np.ndarray, offsets: np.ndarray, width: int, fill: int) -> np.ndarray:
    """Return lists as the rows of a matrix, filled at their ends.

    Args:
        values: integers[total].
        offsets: int64[rows + 1].
        width: columns of the matrix, at least the length of the longest list.
        fill: the value after the end of a list.

    Returns:
        int64[rows, width].

    Raises:
        ValueError: the offsets do not fit the values, or a list is longer than the width, which
            is 2**28 at most.

    Example:
        the lists [7, 8] and [9], width 3 and fill 0 give [[7, 8, 0], [9, 0, 0]].
    """
    if not 0 <= longest_row(offsets, len(values)) <= width <= LONGEST_ROW:
        raise ValueError("offsets must ascend within the values, and lists fit into the width")
    matrix = np.empty((len(offsets) - 1, width), np.int64)
    for i in range(len(offsets) - 1):
        # Indices of slices start at 0, which spares a check for negative ones at each value: three
        # times as fast.
        row, source = matrix[i], values[offsets[i] : offsets[i + 1]]
        for j in range(len(source)):
            row[j] = source[j] ^ 0  # only integers have this operation
        row[len(source) :] = fill
    return matrix


@njit
def attention_mask(offsets: np.ndarray, width: int) -> np.ndarray:
    """Return a matrix with 1 at the values of a list and 0 after them.

    Args:
        offsets: int64[rows + 1].
        width: columns of the matrix.

    Returns:
        int64[rows, width].

    Raises:
        ValueError: the offsets do not ascend, or a list is longer than the width, which
            is 2**28 at most.

    Example:
        offsets [0, 2, 3] and width 3 give [[1, 1, 0], [1, 0, 0]].
    """
    if not 0 <= longest_row(offsets, -1) <= width <= LONGEST_ROW:
        raise ValueError("offsets must ascend, and lists fit into the width")
    matrix = np.empty((len(offsets) - 1, width), np.int64)
    for i in range(len(offsets) - 1):
        length = offsets[i + 1] - offsets[i]
        for j in range(width):
            matrix[i, j] = 1 if j < length else 0
    return matrix


@njit
def scatter_labels(
    positions: np.ndarray,
    position_offsets: np.ndarray,
    labels: np.ndarray,
    label_offsets: np.ndarray,
    width: int,
) -> np.ndarray:
    """Return a matrix with the labels at the predicted positions and -100 elsewhere.

    Args:
        positions: integers[predictions], columns of the matrix.
        position_offsets: int64[rows + 1].
        labels: integers[predictions].
        label_offsets: int64[rows + 1], of the same lengths.
        width: columns of the matrix.

    Returns:
        int64[rows, width].

    Raises:
        ValueError: a row's positions and labels differ in number, or a position is not a column of
            the matrix.

    Example:
        position [1] and label [42] of one row and width 3 give [[-100, 42, -100]].
    """
    matrix = np.full((len(position_offsets) - 1, width), NOT_PREDICTED, np.int64)
    for i in range(len(position_offsets) - 1):
        row, columns = matrix[i], positions[position_offsets[i] : position_offsets[i + 1]]
        row_labels = labels[label_offsets[i] : label_offsets[i + 1]]
        if len(row_labels) != len(columns):
            raise ValueError("labels must be as many in each row as positions")
        for j in range(len(columns)):
            if not 0 <= columns[j] < width:
                raise ValueError("positions must be columns of the matrix")
            row[columns[j]] = row_labels[j]
    return matrix


Predicted = Literal["labels", "targets"]
Layout = Literal["rows", "flattened", "torchtitan", "grain", "megatron"]


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
        masked_lm_prob: the share of a row's tokens that are predicted, in rows that are masked when
            they are loaded: one for all data sets or one for each, as the next three; by default
            that of the build. `max_predictions_per_seq` of the build bounds it.
        mask_replace_prob: the share of these that become [MASK], usually 0.8.
        random_replace_prob: the share of these that become a random token, usually 0.1; what is
            left stays.
        mask_word_prob: ERNIE's probability that a sequence is masked by whole words.
        token_weights: float[ids of the vocabulary], how likely each is predicted in comparison with
            the others, so that rare tokens can be predicted more often, as in DistilBERT.
        predicted: for models of the next token: "labels" are the input_ids, as Hugging Face models
            take them, "targets" have the next token at each position.
        diffusion: masks rows of `gpt` for a model of masked diffusion, in place of one of the next
            token; `predicted` says where its labels stand.
        layout: the layout of packed rows, and the names of their arrays: "rows" and "flattened" are
            those of transformers and FlashAttention, the others those of the trainer of the name
            (`corpusmill.reading.collate.packed_layouts`). "flattened" puts a batch into one row
            without padding, "megatron" too, with each document padded to pad_to_multiple_of, which
            max_tokens of `make_batches` does not count.
    """

    padding: Literal["longest", "max_length"]
    pad_to_multiple_of: int | None
    max_length: int | None
    seed: int
    mask: bool
    masked_lm_prob: float | Sequence[float] | None
    mask_replace_prob: float | Sequence[float] | None
    random_replace_prob: float | Sequence[float] | None
    mask_word_prob: float | Sequence[float] | None
    token_weights: Sequence[float] | npt.NDArray[np.float64] | None
    predicted: Predicted
    diffusion: "MaskedDiffusion | None"
    layout: Layout


# What an objective names as its collator: it makes one for samples, with this padding.
MakeCollator = Callable[[Samples, Padding, CollatorOptions], Collator]

# The values that leave to a collator what it does.
_DEFAULTS: CollatorOptions = {"mask": True, "predicted": "labels", "layout": "rows"}

# The options of masks, which one masker or another takes.
MASK_SETTINGS = (*MaskShares._fields, "mask_word_prob", "token_weights")


def refuse_others(options: CollatorOptions, *names: str) -> None:
    """Refuse options of other collators than the one that takes these.

    Raises:
        UserError: there is one, and it does not have its default.
    """
    causes = {
        "mask": "the examples are not masked",
        **dict.fromkeys(MASK_SETTINGS, "no masks are drawn"),
        "predicted": "the model of this data set does not take it",
        "diffusion": "the rows are not those of a model of the next token",
        "layout": "the rows are not packed",
    }
    for name, cause in causes.items():
        value, default = options.get(name, _DEFAULTS.get(name)), _DEFAULTS.get(name)
        is_default = not isinstance(value, np.ndarray) and value == default
        shown = "..." if name == "token_weights" else value
        check_suits(name, shown, name in names or is_default, cause)


Maker = TypeVar("Maker")


def sources_of(samples: Samples) -> tuple[Samples, ...]:
    """Return the data sets of a mixture; of other samples, themselves."""
    return samples.sources if isinstance(samples, JoinedSamples) else (samples,)


def starts_of(sources: Sequence[Samples]) -> tuple[int, ...]:
    """Return the number of each data set's first sample."""
    starts: list[int] = np.cumsum([0, *map(len, sources)])[:-1].tolist()
    return tuple(starts)


def split_by_maker(
    makers: Sequence[Maker], starts: Sequence[int], samples: Integers
) -> Iterator[tuple[Maker, Integers]]:
    """Yield the distinct makers, each with the places of the samples that it works on.

    Args:
        makers: what works on the samples of each data set; equal ones work alike.
        starts: the number of each data set's first sample.
        samples: int64[rows], the numbers of the samples.
    """
    sources = np.searchsorted(np.array(starts), samples, side="right") - 1
    numbers = np.array([makers.index(maker) for maker in makers])
    for number in np.unique(numbers).tolist():
        yield makers[number], np.flatnonzero(numbers[sources] == number)


def join_lists(parts: Sequence[tuple[Integers, Lists]], rows: int) -> Lists:
    """Return the lists of all makers in the order of the rows; those of one maker are not copied.

    Args:
        parts: the places of the rows of each maker, int64[n], and its lists.
        rows: their number in all.
    """
    if len(parts) == 1:
        return parts[0][1]
    return gather_lists([Part(own, np.arange(len(at)), at) for at, own in parts], rows)


def collator_for(samples: Samples, **options: Unpack[CollatorOptions]) -> Collator:
    """Return the collator for a data set, which its objective names.

    Args:
        samples: a data set, windows of one, or a mixture.
        options: the options; see `CollatorOptions`.

    Raises:
        UserError: a value is out of range or does not suit the data set, or the package of its
            objective is not installed.

    Example:
        collator_for(DataSet("out"), pad_to_multiple_of=8) gives the arguments of BertForPreTraining
        if the data set was built by `bert`.
    """
    if unknown := options.keys() - CollatorOptions.__annotations__.keys():
        raise TypeError(f"collator_for has no option {', '.join(sorted(unknown))}")
    manifest = samples.manifest
    entry = manifest.objective
    max_length, padding = options.get("max_length"), options.get("padding", "longest")
    if padding == "max_length" and max_length is None:
        max_length = _longest(samples)
    multiple = options.get("pad_to_multiple_of")
    # As is usual with GPT, rows without [PAD] are filled with the end-of-text token.
    special = manifest.tokenizer.special
    pad_id = (special.eos_id if special.pad_id is None else special.pad_id) or 0
    width = Padding(pad_id, padding, multiple, max_length)
    _check_layout(options.get("layout", "rows"), width)
    check_seed(options.get("seed", 0))
    collator = OBJECTIVES.load_recorded(entry.name, entry.package).collator
    return _import(entry.name, collator)(samples, width, options)


# All rows of a batch are one.
_ONE_ROW = ("flattened", "megatron")


def _check_layout(layout: str, padding: Padding) -> None:
    """Refuse a layout that is unknown, or contradicts the padding."""
    if layout not in get_args(Layout):
        names = ", ".join(f'"{name}"' for name in get_args(Layout))
        raise UserError(f'layout="{layout}"', "layout is unknown", f"Give one of {names}")
    if layout in _ONE_ROW and padding.padding == "max_length":
        cause = f"{layout} rows cannot be padded to max_length"
        raise UserError(f'layout="{layout}"', cause, 'Give padding="longest"')


def _import(objective: str, reference: str) -> MakeCollator:
    module, _, name = reference.partition(":")
    try:
        make: MakeCollator = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        cause = f"its collator {reference} cannot be imported ({first_line(error)})"
        raise UserError(f"objective {objective}", cause, "Repair its package") from error
    return make


def _longest(samples: Samples) -> int | None:
    """Return the length of the longest possible row; None without a limit."""
    tokens = samples.manifest.columns[0]
    if tokens.role is Role.WINDOW:
        return tokens.width - 1
    if tokens.width == ANY_LENGTH:
        return None
    corrupter = options_of(samples).corrupter(samples.manifest.tokenizer)
    return tokens.width if corrupter is None else corrupter.longest_input
