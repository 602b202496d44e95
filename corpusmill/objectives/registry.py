"""The table of objectives, each imported when it is needed."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from corpusmill.plugins import Plugins

if TYPE_CHECKING:
    from corpusmill.objectives.objective_options import ObjectiveOptions


def _adapt(value: object) -> "type[ObjectiveOptions] | None":
    # Imported here because the list of all commands needs the names alone, at once.
    from corpusmill.objectives.objective_options import ObjectiveOptions  # noqa: PLC0415

    if not (isinstance(value, type) and issubclass(value, ObjectiveOptions)):
        return None
    is_complete = is_dataclass(value) and all(
        field.default is not MISSING or field.default_factory is not MISSING
        for field in fields(value)
    )
    return value if is_complete else None


OBJECTIVES: "Plugins[type[ObjectiveOptions]]" = Plugins(
    "corpusmill.objectives",
    "objective",
    {
        "bert": "corpusmill.objectives.bert:BertOptions",
        "chat": "corpusmill.objectives.chat:ChatOptions",
        "electra": "corpusmill.objectives.electra:ElectraOptions",
        "ernie": "corpusmill.objectives.ernie:ErnieOptions",
        "gpt": "corpusmill.objectives.gpt:GptOptions",
        "t5": "corpusmill.objectives.t5:T5Options",
    },
    _adapt,
    "a dataclass derived from corpusmill.extending.ObjectiveOptions, with a default for each field",
    is_flag=False,
)


def read_options(name: str, package: str | None, options: Mapping[str, Any]) -> "ObjectiveOptions":
    """Return the options of the objective that a data set was built with.

    Args:
        name: the objective.
        package: the package that provides it; None for one of ours.
        options: by name.

    Raises:
        UserError: the package is not installed, or an option is out of range.
    """
    return OBJECTIVES.load_recorded(name, package)(**options)
