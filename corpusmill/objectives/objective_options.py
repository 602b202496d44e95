"""The options of an objective: what a user chooses, before there is a tokenizer."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from corpusmill.corpus.document_options import DocumentOptions, TextMaker
from corpusmill.errors import UserError, option, suggest
from corpusmill.objectives.denoising import SpanCorrupter
from corpusmill.objectives.masking.masked_lm import Masker
from corpusmill.objectives.objective import Objective
from corpusmill.settings.constraints import CheckedOptions
from corpusmill.tokenization.tokenizer_file import TokenizerFile, Vocabulary


class Preset(NamedTuple):
    """The options under which a model was trained.

    Attributes:
        options: those that differ from the defaults.
        source: where they are from, and what differs from there.
    """

    options: Mapping[str, Any]
    source: str


class SuitedTokenizer(NamedTuple):
    """The tokenizer that `train-tokenizer --for` trains for an objective.

    Attributes:
        model: "wordpiece", "bpe", "wordlevel" or "unigram".
        special_tokens: those that the objective may need, in the order of their ids; empty for
            those that the model has by default.
    """

    model: str
    special_tokens: tuple[str, ...] = ()


@dataclass(frozen=True)
class ObjectiveOptions(CheckedOptions, ABC):
    """The options of an objective; the fields of each subclass are the flags of its command.

    Attributes:
        summary: what its command builds, for the help of the command line.
        presets: sets of options by name.
        collator: what makes its models' arguments of rows, "package.module:function"
            (`corpusmill.reading.collate.collators.MakeCollator`); readers import it.
        suited_tokenizer: which tokenizer suits it.
    """

    summary: ClassVar[str]
    presets: ClassVar[Mapping[str, Preset]] = {}
    collator: ClassVar[str] = "corpusmill.reading.collate.masked_lm_collator:collate_masked_lm"
    suited_tokenizer: ClassVar[SuitedTokenizer] = SuitedTokenizer("wordpiece")

    @classmethod
    def from_preset(cls, name: str, **changes: Any) -> Self:
        """Return the options of a preset, some of which may be changed.

        Raises:
            UserError: there is no such preset, or an option is out of range.

        Example:
            BertOptions.from_preset("roberta", max_seq_length=256).
        """
        if name not in cls.presets:
            cure = suggest(name, cls.presets)
            cure += f"Give one of {', '.join(cls.presets)}" if cls.presets else "Leave it out"
            raise UserError(option("preset", name), "the objective has no such preset", cure)
        return cls(**{**cls.presets[name].options, **changes})

    @property
    def special_tokens(self) -> Mapping[str, Sequence[str]]:
        """The special tokens that the objective needs beside [CLS] and the like, by role.

        Each role has the usual names of its token, the most usual first; `bind` finds its id with
        `SpecialTokens.find`, if the tokenizer has one. {"fim_prefix": ("<|fim_prefix|>",)}.
        """
        return {}

    @classmethod
    def reads_fields(cls, names: Sequence[str]) -> bool:
        """Return whether the objective makes texts of records with fields of these names."""
        return False

    @classmethod
    def tokenizer_texts(cls) -> TextMaker | None:
        """Return what makes texts to train a tokenizer with, of records that `reads_fields` knows.

        There is no tokenizer yet, so that the texts are not those of `Objective.text_maker`. None
        where records are read by the field of their text.
        """
        return None

    def complete(self, tokenizer: TokenizerFile, read_bytes: Callable[[str], bytes | None]) -> Self:
        """Return the options with what the tokenizer's files and others say, for the manifest.

        Args:
            tokenizer: the tokenizer.
            read_bytes: returns the bytes of a path, or None if there is no such file.

        Raises:
            UserError: they do not say what the objective needs.
        """
        return self

    @abstractmethod
    def bind(self, tokenizer: Vocabulary) -> Objective:
        """Return the objective for a tokenizer.

        Raises:
            UserError: the tokenizer lacks a special token that the examples need.
        """

    def check_build(self) -> None:
        """Refuse options with which a new data set would be of little use.

        Data sets that were built with them before stay readable, unlike those with options that
        the class refuses when it is made.

        Raises:
            UserError: such an option is given.
        """

    @abstractmethod
    def choose_documents(self, documents: DocumentOptions) -> DocumentOptions:
        """Fill in this objective's defaults of how documents are read.

        Raises:
            UserError: the objective cannot use documents that are read in this way.
        """

    def masker(self, tokenizer: Vocabulary) -> Masker | None:
        """Return what masks rows when they are loaded; None if models predict no masked tokens.

        Raises:
            UserError: the tokenizer lacks a mask token.
        """
        return None

    def corrupter(self, tokenizer: Vocabulary) -> SpanCorrupter | None:
        """Return what makes inputs and targets of rows that are stored as plain text.

        None if the rows of an encoder-decoder have targets, or models are not encoder-decoders.
        """
        return None
