"""The table of the models that can be trained."""

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
    """How a model is trained.

    Attributes:
        options: the dataclass of its options.
        train: sentences, or batches of them, and options to a tokenizer.json.
        files: what the model is saved as beside it.
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


def model_options(model: str, given: Mapping[str, Any]) -> TrainingOptions:
    """The options of a model, of those that were given and its own defaults.

    Args:
        model: a key of `MODELS`.
        given: options by name.

    Raises:
        UserError: the model has no such option, or the value cannot be.
    """
    names = {name: {field.name for field in fields(of.options)} for name, of in MODELS.items()}
    for option in given:
        if option not in names[model]:
            have = ", ".join(name for name in MODELS if option in names[name])
            flag = f"--{option.replace('_', '-')}"
            cure = f"Leave it out, or train one of the models that have it: {have}"
            raise UserError(f"{flag} with --model {model}", "the model has no such option", cure)
    return MODELS[model].options(**given)
