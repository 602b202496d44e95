"""Names that a module hands on from other modules, which are imported when a name is first used."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    module: str, names: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` of a module.

    A plug-in can import such a module at any time, also while the module that holds a name is
    being imported, and pays only for the names that it uses.

    Args:
        module: the name of the module that hands on names.
        names: for each module that holds some of them, these names, with a space between two.

    Example:
        `__getattr__, __dir__ = lazy_names(__name__, {"math": "pi sqrt"})`.
    """
    modules = {name: source for source, listed in names.items() for name in listed.split()}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[module], name, value)  # so that it is looked up once
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *modules})

    return load, list_names
