"""The arguments of a command, before they are parsed."""

from collections.abc import Sequence
from itertools import pairwise

from corpusmill.errors import UserError

# Names a file of options.
FILE_FLAG = "--config"


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Split off what follows after a lone `--`, which is for an engine."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return list(arguments[:end]), tuple(arguments[end + 1 :])


def names_file(arguments: Sequence[str]) -> bool:
    """Whether options come from a file as well."""
    own, _ = split_arguments(arguments)
    return any(word.partition("=")[0] == FILE_FLAG for word in own)


def refuse_empty(arguments: Sequence[str]) -> None:
    """Refuse a value that is empty, which would mean the folder in which the command was started.

    Raises:
        UserError: there is one.
    """
    for before, argument in pairwise(("", *arguments)):
        if not argument or (argument.startswith("--") and argument.endswith("=")):
            value = argument.rstrip("=") or before
            cause = "its value is empty, as that of a variable that is not set"
            raise UserError(value, cause, "Give a value, or leave the option out")


def merge_repeats(arguments: Sequence[str]) -> list[str]:
    """Put the values of all --input and of all --source together, and refuse other repeats.

    The parser would take the last one and say nothing.

    Example:
        --input a --seed 1 --input b becomes --input a b --seed 1.

    Raises:
        UserError: an option is given twice.
    """
    groups: dict[str, list[str]] = {"": []}
    name = ""
    for argument in arguments:
        if not argument.startswith("--") or argument == "--":
            groups[name].append(argument)
            continue
        option, is_joined, value = argument.partition("=")
        option = option.replace("_", "-")
        name = option.removeprefix("--").removeprefix("no-")
        if name not in groups:
            groups[name] = [option]
        elif name not in {"input", "source"}:
            first = " ".join(groups[name])
            raise UserError(f"{first} ... {argument}", "the option is given twice", "Give it once")
        groups[name] += [value] * bool(is_joined)
    return [argument for group in groups.values() for argument in group]
