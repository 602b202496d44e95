"""What an option takes beyond its type, as its field declares it, and the check of all of them.

    max_seq_length: Annotated[int, Range(5, 65535)] = 512
    overlap: Annotated[int, Needs("mode", "windows")] = 0
    drop_near_duplicates: Annotated[float | None, Alone(0.8), Range(0.5, 1)] = None
    sentence_rule: Annotated[Rule, Needs("language", where="split", example="en")] = "line"

None is in any range, and of a list each value is checked.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache, partial
from math import inf
from typing import Any

from corpusmill.errors import UserError, option
from corpusmill.settings.options import Option, options_of


@dataclass(frozen=True)
class Range:
    """The numbers that an option takes.

    Attributes:
        least: the smallest.
        most: the largest.
        without: a number between them, or one of them, that it does not take.
    """

    least: float
    most: float = inf
    without: float | None = None

    def __contains__(self, number: float) -> bool:
        return self.least <= number <= self.most and number != self.without

    def __str__(self) -> str:
        words = f"{self.least} or more" if self.most == inf else f"{self.least} to {self.most}"
        return words if self.without is None else f"{words}, but not {self.without}"

    def check(self, options: Any, name: str, mention: Callable[..., str | option] = option) -> None:
        """Refuse a number out of the range.

        Args:
            options: the options.
            name: of the option.
            mention: how the message mentions it, from its name and its value.

        Raises:
            UserError: it is out of range.
        """
        value = getattr(options, name)
        for number in value if isinstance(value, tuple) else (value,):
            if number is not None and number not in self:
                raise UserError(mention(name, number), "the value is out of range", f"Give {self}")


class Needs:
    """The values that another option must have where an option is not its default.

    Args:
        other: name of the other option.
        values: its values, the one to advise first; without any, all but its default.
        where: the value of the option that needs it; by default each but its default.
        example: one of many values of the other option, to show how they look.
    """

    def __init__(self, other: str, *values: Any, where: Any = None, example: Any = None) -> None:
        self._other, self._values, self._where, self._example = other, values, where, example

    def check(self, options: Any, name: str) -> None:
        """Refuse an option without the other one that it needs, or beside one that excludes it.

        Args:
            options: the options.
            name: of the option.

        Raises:
            UserError: the other option has another value.
        """
        defaults = {field.name: field.default for field in fields(options)}
        value, other = getattr(options, name), getattr(options, self._other)
        usual = defaults[self._other]
        needs = value != defaults[name] if self._where is None else value == self._where
        if not needs or (other in self._values if self._values else other != usual):
            return
        mention = partial(option, self._other, is_switch=isinstance(usual, bool))
        wanted = mention(*self._values[:1])
        cause, cure = f"it needs {wanted}", f"Give {wanted}, or leave it out"
        if self._example is not None:
            cure = f"Give {mention(self._example)}, or another value, or leave it out"
        if usual in self._values:
            cause, cure = f"it does not go with {mention(other)}", "Leave one of the two out"
        raise UserError(option(name, value), cause, cure)


@dataclass(frozen=True)
class Alone:
    """The value of an option that is given without one: by its name alone, or as True.

    It stands before a range, which judges that value.

    Attributes:
        alone: the value; False stands for the default.
    """

    alone: Any

    def check(self, options: Any, name: str) -> None:
        """Put the value in the place of True, and the default in that of False.

        Args:
            options: the options.
            name: of the option.
        """
        if isinstance(value := getattr(options, name), bool):
            value = self.alone if value else getattr(type(options), name)
            object.__setattr__(options, name, value)


class CheckedOptions:
    """Base of dataclasses of options, whose values are checked as their fields declare them."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value is none of those that are listed, out of its range, or does not go
                with another.
        """
        kind: Any = type(self)
        for declared in _list_own(kind):
            value = getattr(self, declared.name)
            for item in value if isinstance(value, list | tuple) else (value,):
                if declared.choices and item not in (None, *declared.choices):
                    raise declared.refuse(item)
            for constraint in declared.constraints:
                constraint.check(self, declared.name)


@cache
def _list_own(kind: Any) -> list[Option]:
    """List the options of a dataclass without those of the dataclasses in it."""
    names = {field.name for field in fields(kind)}
    return [declared for declared in options_of(kind) if declared.name in names]
