"""Tables that other packages can extend: objectives, formats, filters and rules of words.

A package adds to a table by an entry point, in its pyproject.toml:

    [project.entry-points."corpusmill.objectives"]
    prefix-lm = "my_package.prefix_lm:PrefixLmOptions"

Our own entries stand in the same tables. They need no installation, and their names cannot be
taken. An entry is imported when it is first asked for.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import (
    EntryPoint,
    EntryPoints,
    entry_points,
    packages_distributions,
    version,
)
from typing import Generic, TypeVar, cast

from corpusmill.errors import UserError, first_line, option, suggest

Value = TypeVar("Value")

_DOTTED_NAME = re.compile(r"[\w.]+:[\w.]+")


class MissingPackageError(UserError):
    """A data set needs a package that is not installed."""


@cache
def installed_entries() -> EntryPoints:
    """Find the entry points of all packages; to look through them takes a moment."""
    # Python 3.11 has a class of its own for all groups, with the same `select`.
    return cast(EntryPoints, entry_points())


@cache
def _find_owners(module: str) -> frozenset[str]:
    """Find the packages that have a module; to look through all packages takes half a second."""
    return frozenset(packages_distributions().get(module, ()))


class Plugins(Generic[Value]):
    """A table of things of one kind by name.

    Args:
        group: the group of entry points.
        option_name: the option that a user gives the name with ("output_format").
        own: our own entries by name: values, or "package.module:name" of what is imported when it
            is needed.
        adapt: returns the value of what was imported; None if it is not of the kind.
        expected: the kind, in words ("a subclass of ShardFormat").
        takes_functions: whether "package.module:name" names an entry that is not registered.
        is_flag: whether the option is named on the command line, and not given by its place.
    """

    def __init__(
        self,
        group: str,
        option_name: str,
        own: Mapping[str, Value | str],
        adapt: Callable[[object], Value | None],
        expected: str,
        takes_functions: bool = False,
        is_flag: bool = True,
    ) -> None:
        self.group, self._option, self._own = group, option_name, own
        self._adapt, self._expected, self._takes_functions = adapt, expected, takes_functions
        self._is_flag = is_flag
        self._loaded: dict[str, Value] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all entries, ours first."""
        return (*self._own, *sorted({entry.name for entry in self._foreign} - self._own.keys()))

    def __contains__(self, name: str) -> bool:
        return name in self._own or any(entry.name == name for entry in self._foreign)

    def __getitem__(self, name: str) -> Value:
        """Return an entry.

        Raises:
            UserError: there is none of this name, several packages have one, or it cannot be
                imported.
        """
        if name not in self._loaded:
            own = self._own.get(name)
            self._loaded[name] = self._load(name) if own is None or isinstance(own, str) else own
        return self._loaded[name]

    def values(self) -> list[Value]:
        """Return all entries.

        Raises:
            UserError: one cannot be imported.
        """
        return [self[name] for name in self.names]

    def load_recorded(self, name: str, package: str | None) -> Value:
        """Return an entry that a data set was built with, whose manifest anybody may have written.

        It is one of ours, or an entry point of an installed package; no other code is imported.

        Args:
            name: its name.
            package: the package that provided it, as `package_of` gave it; None for our own.

        Raises:
            MissingPackageError: this environment lacks it.
            UserError: it cannot be imported.
        """
        if name in self:
            return self[name]
        value = f"{self._option.replace('_', ' ')} {name}"
        if package is None:
            cause = "this version of corpusmill does not have it"
            raise MissingPackageError(value, cause, "Update corpusmill")
        cause = f"it is part of {package}, which is not installed"
        raise MissingPackageError(value, cause, f"Run pip install {package.split()[0]}")

    def package_of(self, name: str) -> str | None:
        """Return the package that provides an entry and its version ("my-package 1.0").

        None for our own entries, and for what does not belong to an installed package.
        """
        if name in self._own:
            return None
        entry = self.find_entry(name)
        module = entry.module.partition(".")[0]
        owners = {entry.dist.name} if entry.dist else _find_owners(module)
        return ", ".join(f"{owner} {version(owner)}" for owner in sorted(owners)) or None

    def _mention(self, name: str) -> option:
        return option(self._option, name, is_flag=self._is_flag)

    @property
    def _foreign(self) -> EntryPoints:
        return installed_entries().select(group=self.group)

    def find_entry(self, name: str) -> EntryPoint:
        """Return where an entry is, without importing it.

        Raises:
            UserError: there is none of this name, or several packages have one.
        """
        value = self._own.get(name)
        if isinstance(value, str):
            return EntryPoint(name, value, self.group)
        entries = [entry for entry in self._foreign if entry.name == name]
        if not entries and value is None:
            # A worker may be forked from a process that has looked before the package was there.
            installed_entries.cache_clear()
            entries = [entry for entry in self._foreign if entry.name == name]
        if len({entry.value for entry in entries}) > 1:
            owners = ", ".join(sorted(entry.dist.name for entry in entries if entry.dist))
            cause = f"several packages provide it: {owners}"
            raise UserError(self._mention(name), cause, "Uninstall all but one")
        if entries:
            return entries[0]
        if self._takes_functions and _DOTTED_NAME.fullmatch(name):
            return EntryPoint(name, name, self.group)
        cures = [f"choose one of {', '.join(self.names)}"] if self.names else []
        if self._takes_functions:
            cures.append("give package.module:function")
        cure = ", or ".join(cures or ["install the package that provides it"])
        cure = f"{suggest(name, self.names)}{cure[0].upper()}{cure[1:]}"
        cause = f"it is not known, and no installed package provides it (group {self.group})"
        raise UserError(self._mention(name), cause, cure)

    def _load(self, name: str) -> Value:
        entry = self.find_entry(name)
        owner = f" of {entry.dist.name}" if entry.dist else ""
        try:
            value = self._adapt(entry.load())
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # its module may end the process, as a script does
            cause = (
                f"{entry.value}{owner} cannot be imported ({type(error).__name__}: "
                f"{first_line(error)})"
            )
            cure = "Repair or update its package, here and on all workers"
            raise UserError(self._mention(name), cause, cure) from error
        if value is None:
            cause = f"{entry.value}{owner} is not {self._expected}"
            raise UserError(self._mention(name), cause, "Correct the entry point of its package")
        return value
