"""What a kernel is compiled from, as a digest: the key by which compiled kernels are kept.

A key stands for just what is compiled: the code without its lines and its docstring, and the values
of the names in it; with those of the kernels that it calls, and of those that they call. Whatever
else changes, a compiled kernel fits.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

_PACKAGE = Path(__file__).parent.parent
# Names in code that imports a module of the package when it is called: nobody knows what of it.
_OWN_MODULE = re.compile(rf"{_PACKAGE.name}\b")
# Of these, numba compiles what a name says, and its version is kept beside the keys.
_LIBRARIES = {"builtins", "math", "numba", "numpy", "typing"}
# Values whose `repr` says all.
_PLAIN = {bool, int, float, complex, str, bytes, type(None), type(...), slice}
# What numba reads of a function's code, besides its constants: neither its file nor its lines.
_CODE = (
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_exceptiontable"),
    *("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars"),
)


class Compilable:
    """What becomes machine code within the kernels that name it.

    Attributes:
        definition: the function that is compiled, or that generates the code.
        targetoptions: how it is compiled.
    """

    definition: Callable[..., Any]
    targetoptions: Mapping[str, Any] = {}


@cache
def digest_kernel(kernel: Compilable) -> str:
    """Return the SHA-256 of what a kernel is compiled from.

    It is computed once: a process keeps the values with which it has begun.
    """
    digest, reached = hashlib.sha256(), {kernel: 0}
    waiting = [kernel]
    for part in waiting:  # those that it calls are added meanwhile
        description, named = _describe(part)
        waiting += [other for other in named if other not in reached]
        places = [reached.setdefault(other, len(reached)) for other in named]
        digest.update(f"{description} {places}\n".encode())
    return digest.hexdigest()


@cache
def _describe(part: Compilable) -> tuple[str, list[Compilable]]:
    """Return a text for what is compiled of a kernel itself, and what that names in turn.

    What is not known here may depend on any source of the library, and on the kernel's own file.
    """
    function, values = part.definition, _Values(part.definition.__doc__)
    captured = tuple(cell.cell_contents for cell in function.__closure__ or ())
    defaults = function.__defaults__, tuple((function.__kwdefaults__ or {}).items())
    place = function.__module__, function.__qualname__, tuple(part.targetoptions.items())
    try:
        own = values.describe((*place, function.__code__, captured, defaults))
        return repr((own, values.look_up(function.__globals__))), values.compilable
    except (TypeError, RecursionError):  # modules may name each other
        from numba.core.serialize import dumps  # noqa: PLC0415  few kernels come here

        own_file = Path(function.__code__.co_filename)
        sources = digest_sources(own_file), hashlib.sha256(dumps(captured)).hexdigest()
        return repr((place, function.__code__.co_firstlineno, sources)), values.compilable


@cache
def digest_sources(*others: Path) -> str:
    """Return the SHA-256 of all sources of the library, and of other files."""
    digest = hashlib.sha256()
    for source in (*sorted(_PACKAGE.rglob("*.py")), *others):
        digest.update(f"{source.name}\n".encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()


class _Values:
    """Describes the values that a kernel is compiled with, by what Python can write and compare.

    Args:
        docstring: a constant that no result depends on.

    Attributes:
        compilable: what has been described by its place in this list alone.
    """

    def __init__(self, docstring: str | None) -> None:
        self._docstring, self._names = docstring, set[str]()
        self.compilable: list[Compilable] = []

    def look_up(self, variables: Mapping[str, Any]) -> object:
        """Describe those of some variables that the code described before names."""
        named = sorted(self._names & variables.keys())
        return [(name, self.describe(variables[name])) for name in named]

    def describe(self, value: Any) -> object:  # noqa: PLR0911  one return for each kind reads best
        """Describe a value.

        Raises:
            TypeError: nothing is known of its type.
        """
        import numpy as np  # noqa: PLC0415  the list of commands is shown without it

        if type(value) in _PLAIN or isinstance(value, np.ufunc):
            return type(value).__name__, None if value == self._docstring else repr(value)
        match value:
            case Compilable():
                self.compilable.append(value)
                return "compilable", len(self.compilable)
            case np.ndarray() | np.generic():
                content = hashlib.sha256(value.tobytes()).hexdigest()
                return repr(value.dtype), value.shape, value.strides, content
            case tuple():
                return self.describe(type(value)), [*map(self.describe, value)]
            case frozenset():  # whose order differs between processes
                return "set", sorted(repr(self.describe(item)) for item in value)
            case ModuleType(__name__=name):
                return name, name.split(".")[0] in _LIBRARIES or self.look_up(vars(value))
            case CodeType(co_names=names) if not any(map(_OWN_MODULE.match, names)):
                self._names.update(names)
                return [self.describe(value.co_consts), *(getattr(value, name) for name in _CODE)]
            case type(_fields=fields, _field_defaults=defaults):  # type: ignore[misc]  # named tuples
                contents = self.describe((fields, tuple(defaults.items())))
                return value.__module__, value.__qualname__, contents
            case type(__module__=module) if module in _LIBRARIES:
                return module, value.__qualname__
        raise TypeError
