"""The table of objectives by name, each imported when it is needed."""

from importlib import import_module

from corpusmill.errors import UserError
from corpusmill.objectives.objective import ObjectiveOptions

# The module and the class of each objective's options.
_OPTIONS = {
    "bert": ("corpusmill.objectives.bert", "BertOptions"),
    "electra": ("corpusmill.objectives.electra", "ElectraOptions"),
    "ernie": ("corpusmill.objectives.ernie", "ErnieOptions"),
    "gpt": ("corpusmill.objectives.gpt", "GptOptions"),
}
OBJECTIVES = tuple(_OPTIONS)


def options_class(name: str) -> type[ObjectiveOptions]:
    """Return the class of an objective's options.

    Raises:
        UserError: no objective has this name.
    """
    if name not in _OPTIONS:
        cause = "it is not an objective of this version of corpusmill"
        raise UserError(f"objective {name}", cause, f"Choose one of {', '.join(OBJECTIVES)}")
    module, options = _OPTIONS[name]
    options_type: type[ObjectiveOptions] = getattr(import_module(module), options)
    return options_type
