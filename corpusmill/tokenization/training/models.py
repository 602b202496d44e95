"""The models that can be trained, by name, with their options."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from corpusmill.errors import UserError, option
from corpusmill.tokenization.training.merges import ByteLevelBpeOptions
from corpusmill.tokenization.training.training_options import TrainingOptions
from corpusmill.tokenization.training.unigram import UnigramOptions, WordLevelOptions
from corpusmill.tokenization.training.wordpiece import WordPieceOptions

MODELS: dict[str, type[TrainingOptions]] = {
    "wordpiece": WordPieceOptions,
    "bpe": ByteLevelBpeOptions,
    "wordlevel": WordLevelOptions,
    "unigram": UnigramOptions,
}


def model_options(model: str, values: Mapping[str, Any]) -> TrainingOptions:
    """Return the options of a model, with its own defaults for those without a value.

    Args:
        model: a key of `MODELS`.
        values: values of options, by name.

    Raises:
        UserError: the model has no such option, or does not accept the value.
    """
    names = {name: {field.name for field in fields(options)} for name, options in MODELS.items()}
    for given in values:
        if given not in names[model]:
            others = ", ".join(name for name in MODELS if given in names[name])
            cure = f"Leave it out, or train one of the models that have it: {others}"
            raise UserError(
                f"{option(given)} with {option('model', model)}",
                "the model has no such option",
                cure,
            )
    return MODELS[model](**values)
