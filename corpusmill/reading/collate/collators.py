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

from importlib import import_module
from typing import Unpack

from corpusmill.arrays.columns import ANY_LENGTH, Role
from corpusmill.dataset.manifest import Manifest
from corpusmill.errors import UserError, first_line
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.reading.collate.options import CollatorOptions, MakeCollator
from corpusmill.reading.collate.padding import Padding
from corpusmill.reading.collate.sources import options_of
from corpusmill.reading.data_set import Samples
from corpusmill.reading.load.batches import Collator


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
