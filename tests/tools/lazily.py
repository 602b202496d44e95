"""Samples and large packages that are made and imported when a test first uses them.

Each process of the tests collects all of them, and would wait for what few tests need.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Lazily(Mapping[K, V]):
    """A table that makes each value when it is first looked up, and keeps it.

    Args:
        keys: of the values, known at once, so that tests can be parametrized by them.
        make: makes the value of a key.
    """

    def __init__(self, keys: Iterable[K], make: Callable[[K], V]) -> None:
        self._keys = dict.fromkeys(keys)
        self._make = make
        self._made: dict[K, V] = {}

    def __getitem__(self, key: K) -> V:
        if key not in self._keys:
            raise KeyError(key)
        if key not in self._made:
            self._made[key] = self._make(key)
        return self._made[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __or__(self, other: Mapping[K, V]) -> "Lazily[K, V]":
        return Lazily([*self, *other], lambda key: (other if key in other else self)[key])


class LazyModule:
    """A package that is imported when one of its names is first looked up.

    Args:
        name: of the package, or of a module in it.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        # What pytest looks for in all that stands in a module of tests.
        if name.startswith("_") or name == "pytestmark":
            raise AttributeError(name)
        return getattr(import_module(self._name), name)
