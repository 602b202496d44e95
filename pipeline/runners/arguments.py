"""Beam's own options, as the user gives them behind `--`."""

from collections.abc import Mapping, Sequence

_COLLECTED = {"experiments"}


def given_flags(arguments: Sequence[str]) -> dict[str, str]:
    """The flags among arguments with their values, "" for those without; the last one counts.

    Example:
        ["--parallelism=4", "--region", "us-east1", "--streaming"] gives
        {"parallelism": "4", "region": "us-east1", "streaming": ""}.
    """
    flags: dict[str, str] = {}
    name = ""
    for argument in arguments:
        if argument.startswith("--"):
            name, _, value = argument.removeprefix("--").partition("=")
            flags[name] = value
            name = "" if "=" in argument else name
        elif name:
            flags[name], name = argument, ""
    return flags


def complete(arguments: Sequence[str], defaults: Mapping[str, str]) -> tuple[str, ...]:
    """The user's arguments, and in front of them the defaults of flags that they leave out."""
    return (*set_by_us(arguments, defaults), *arguments)


def set_by_us(arguments: Sequence[str], defaults: Mapping[str, str]) -> tuple[str, ...]:
    """The defaults of flags that the user's arguments leave out, as arguments; "" is no value.

    Of flags that Beam collects in a list, the user's do not replace ours.
    """
    given = given_flags(arguments).keys() - _COLLECTED
    ours = {name: value for name, value in defaults.items() if name not in given}
    return tuple(f"--{name}={value}" if value else f"--{name}" for name, value in ours.items())
