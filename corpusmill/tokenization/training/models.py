"""The models that can be trained, by name, with their options."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from corpusmill.errors import UserError, option
from corpusmill.tokenization.training.merges import (
    ByteLevelBpeOptions,
    make_byte_level_counter,
    train_byte_level_bpe,
    train_byte_level_bpe_on_words,
)
from corpusmill.tokenization.training.training_options import TrainingOptions
from corpusmill.tokenization.training.unigram import (
    UnigramOptions,
    WordLevelOptions,
    make_unigram_counter,
    make_word_level_counter,
    train_unigram,
    train_unigram_on_words,
    train_word_level,
    train_word_level_on_words,
)
from corpusmill.tokenization.training.word_counters import WordCounter
from corpusmill.tokenization.training.wordpiece import (
    WordPieceOptions,
    make_wordpiece_counter,
    train_wordpiece,
    train_wordpiece_on_words,
)


class Model(NamedTuple):
    """A model that can be trained.

    Attributes:
        options: the dataclass of its options.
        train: trains with batches of sentences and options, and returns a tokenizer.json.
        make_counter: makes the counter of its words from options.
        train_on_words: trains with counted words and options, and returns a tokenizer.json.
        files: the files that the model itself is saved as.
    """

    options: type[TrainingOptions]
    train: Callable[..., str]
    make_counter: Callable[..., WordCounter]
    train_on_words: Callable[..., str]
    files: tuple[str, ...]


MODELS: dict[str, Model] = {
    "wordpiece": Model(
        WordPieceOptions,
        train_wordpiece,
        make_wordpiece_counter,
        train_wordpiece_on_words,
        ("vocab.txt",),
    ),
    "bpe": Model(
        ByteLevelBpeOptions,
        train_byte_level_bpe,
        make_byte_level_counter,
        train_byte_level_bpe_on_words,
        ("vocab.json", "merges.txt"),
    ),
    "wordlevel": Model(
        WordLevelOptions,
        train_word_level,
        make_word_level_counter,
        train_word_level_on_words,
        ("vocab.json",),
    ),
    "unigram": Model(
        UnigramOptions,
        train_unigram,
        make_unigram_counter,
        train_unigram_on_words,
        ("unigram.json",),
    ),
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
    for given in values:
        if given not in names[model]:
            others = ", ".join(name for name in MODELS if given in names[name])
            cure = f"Leave it out, or train one of the models that have it: {others}"
            raise UserError(
                f"{option(given)} with {option('model', model)}",
                "the model has no such option",
                cure,
            )
    return MODELS[model].options(**values)
