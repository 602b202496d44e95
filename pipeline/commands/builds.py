"""The commands that build a data set, one class for each objective."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from tyro.conf import subcommand

from corpusmill.objectives.bert import BertOptions
from corpusmill.objectives.electra import ElectraOptions
from corpusmill.objectives.ernie import ErnieOptions
from corpusmill.objectives.gpt import GptOptions
from pipeline.preparation.recipe import Build


@dataclass(frozen=True, kw_only=True)
class BuildBert(Build):
    """Build a BERT data set: masked language model, by default with next-sentence pairs."""

    objective: BertOptions = field(default_factory=BertOptions)


@dataclass(frozen=True, kw_only=True)
class BuildElectra(Build):
    """Build an ELECTRA data set: text packed into one or two segments, to be masked in training."""

    objective: ElectraOptions = field(default_factory=ElectraOptions)


@dataclass(frozen=True, kw_only=True)
class BuildErnie(Build):
    """Build an ERNIE data set: sentence pairs with the words of their tokens, to mask by words."""

    objective: ErnieOptions = field(default_factory=ErnieOptions)


@dataclass(frozen=True, kw_only=True)
class BuildGpt(Build):
    """Build a GPT data set: tokens of documents as one stream, as windows, or packed."""

    objective: GptOptions = field(default_factory=GptOptions)


BUILDS: dict[str, Callable[..., Build]] = {
    "bert": BuildBert,
    "electra": BuildElectra,
    "ernie": BuildErnie,
    "gpt": BuildGpt,
}

# Any objective, for a command that takes its name after the other flags.
AnyObjective = (
    Annotated[BertOptions, subcommand("bert")]
    | Annotated[ElectraOptions, subcommand("electra")]
    | Annotated[ErnieOptions, subcommand("ernie")]
    | Annotated[GptOptions, subcommand("gpt")]
)
