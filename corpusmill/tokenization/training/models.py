"""The models that can be trained, by name, with their options."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from corpusmill.errors import UserError
from corpusmill.tokenization.training.byte_level_bpe import (
    ByteLevelBpeOptions,
    train_byte_level_bpe,
)
from corpusmill.tokenization.training.options import TrainingOptions
from corpusmill.tokenization.training.unigram import UnigramOptions, train_unigram
from corpusmill.tokenization.training.word_level import WordLevelOptions, train_word_level
from corpusmill.tokenization.training.wordpiece import WordPieceOptions, train_wordpiece


class Model(NamedTuple):
    """A model that can be trained.

    Attributes:
        options: the dataclass of its options.
        train: trains with batches of sentences and options, and returns a tokenizer.json.
        files: the files that the model itself is saved as.
    """

    options: type[TrainingOptions]
    train: Callable[..., str]
    files: tuple[str, ...]


MODELS: dict[str, Model] = {
    "wordpiece": Model(WordPieceOptions, train_wordpiece, ("vocab.txt",)),
    "bpe": Model(ByteLevelBpeOptions, train_byte_level_bpe, ("vocab.json", "merges.txt")),
    "wordlevel": Model(WordLevelOptions, train_word_level, ("vocab.json",)),
    "unigram": Model(UnigramOptions, train_unigram, ("unigram.json",)),
}


def model_options(model: str, values: Mapping[str, Any]) -> TrainingOptions:
    """Return the options of a model, with its own defaults for those without a value.

    Args:
        model: a key of `MODELS`.
        values: values of options, by name.

    Raises:
        UserError: the model has no such option, or does not accept the value.
    """
    names = {name: {field.name for field in fields(one.options)} for name, one in MODELS.items()}
    for option in values:
        if option not in names[model]:
            others = ", ".join(name for name in MODELS if option in names[name])
            flag = f"--{option.replace('_', '-')}"
            cure = f"Leave it out, or train one of the models that have it: {others}"
            raise UserError(f"{flag} with --model {model}", "the model has no such option", cure)
    return MODELS[model].options(**values)
