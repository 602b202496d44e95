"""The one table of the objectives: each by its name, imported when it is asked for."""

from importlib import import_module

from corpusmill.errors import UserError
from corpusmill.objectives.objective import ObjectiveOptions

# Module and class of the options of each objective.
_OPTIONS = {
    "bert": ("corpusmill.objectives.bert", "BertOptions"),
    "electra": ("corpusmill.objectives.electra", "ElectraOptions"),
    "ernie": ("corpusmill.objectives.ernie", "ErnieOptions"),
    "gpt": ("corpusmill.objectives.gpt", "GptOptions"),
}
OBJECTIVES = tuple(_OPTIONS)


def options_class(name: str) -> type[ObjectiveOptions]:
    """The class of an objective's options.

    Raises:
        UserError: there is no objective of this name.
    """
    if name not in _OPTIONS:
        cause = "it is not an objective of this version of corpusmill"
        raise UserError(f"objective {name}", cause, f"Choose one of {', '.join(OBJECTIVES)}")
    module, options = _OPTIONS[name]
    options_type: type[ObjectiveOptions] = getattr(import_module(module), options)
    return options_type
