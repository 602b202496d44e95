"""Names that a module hands on from other modules, which are imported when a name is first used.

A module lists them once, as imports in `if TYPE_CHECKING:`, where type checkers and editors look
for them as well.
"""

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


def lazy_names(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` of a module.

    A plug-in can import such a module at any time, also while the module that holds a name is
    being imported, and pays only for the names that it uses.

    Args:
        module: the name of the module that hands on names.
    """

    @cache
    def read_sources() -> dict[str, str]:
        """Read which module each name comes from."""
        import ast  # noqa: PLC0415  the commands use none of the names
        import inspect  # noqa: PLC0415

        [listed] = [
            node
            for node in ast.parse(inspect.getsource(sys.modules[module])).body
            if isinstance(node, ast.If)
        ]
        return {
            alias.name: str(node.module)
            for node in listed.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def load(name: str) -> Any:
        source = None if name.startswith("__") else read_sources().get(name)
        if source is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(import_module(source), name)
        setattr(sys.modules[module], name, value)  # so that it is looked up once
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *read_sources()})

    return load, list_names
