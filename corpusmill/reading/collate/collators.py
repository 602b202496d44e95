"""The collators of `corpusmill.reading.load.batches`: from rows to the arguments of a model.

    MaskedLmCollator          masked rows: BERT, ALBERT, RoBERTa, ERNIE, ELECTRA's generator
    PackedMaskedLmCollator    packed masked rows: ModernBERT
    CausalLmCollator          windows of documents, or documents: GPT
    WindowCollator            windows of a token stream: GPT
    PackedCollator            packed rows: GPT
    Seq2SeqCollator           inputs and targets: T5

`collator_for` makes the one that the objective of a data set names. Arrays are named after the
arguments of Hugging Face models.
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TypeVar, Unpack

import numpy as np

from corpusmill.arrays.columns import ANY_LENGTH, Role
from corpusmill.dataset.manifest import Manifest
from corpusmill.errors import UserError, first_line
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.objectives.registry import OBJECTIVES, read_options
from corpusmill.reading.collate.padding import CollatorOptions, MakeCollator, Padding
from corpusmill.reading.data_set import Samples
from corpusmill.reading.load.batches import Collator
from corpusmill.reading.order.mixture import JoinedSamples
from corpusmill.reading.rows import Integers

Maker = TypeVar("Maker")


def sources_of(samples: Samples) -> tuple[Samples, ...]:
    """Return the data sets of a mixture; of other samples, themselves."""
    return samples.sources if isinstance(samples, JoinedSamples) else (samples,)


def starts_of(sources: Sequence[Samples]) -> tuple[int, ...]:
    """Return the number of each data set's first sample."""
    starts: list[int] = np.cumsum([0, *map(len, sources)])[:-1].tolist()
    return tuple(starts)


def options_of(samples: Samples) -> ObjectiveOptions:
    """Return the options of the objective that a data set was built with.

    Raises:
        UserError: the package of the objective is not installed.
    """
    entry = samples.manifest.objective
    return read_options(entry.name, entry.package, entry.options)


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
    width = Padding(_pad_id(manifest), padding, multiple, max_length)
    collator = OBJECTIVES.load_recorded(entry.name, entry.package).collator
    return _import(entry.name, collator)(samples, width, options)


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


def _pad_id(manifest: Manifest) -> int:
    """Return the id of [PAD], or else of the end-of-text token, as is usual with GPT."""
    special = manifest.tokenizer.special
    return (special.eos_id if special.pad_id is None else special.pad_id) or 0
