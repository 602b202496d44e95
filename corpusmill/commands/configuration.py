"""Options from a file: `--config FILE` becomes the flags that the file stands for.

A flag on the command line wins over the file. The values of the file are compared with the types of
the options, and then parsed like any other arguments.
"""

from collections.abc import Callable, Iterator, Sequence
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin

from corpusmill.commands.arguments import (
    FILE_FLAG,
    merge_repeats,
    names_file,
    split_arguments,
)
from corpusmill.commands.command import Command, choose_variant
from corpusmill.commands.configuration_file import read_file, refuse_unknown
from corpusmill.commands.options import Option, options_of, subcommands_of
from corpusmill.errors import UserError

# The key of the options that follow after -- on the command line.
BEAM = "beam"

_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    NoneType: "null",
}


def apply_configuration(arguments: Sequence[str], load: Callable[[str], Command]) -> Sequence[str]:
    """Put the options of a file in the place of `--config FILE`.

    Args:
        arguments: the whole command line.
        load: imports a command.

    Returns:
        The command line without the flag; the very arguments if they lack it.

    Raises:
        UserError: the file cannot be read, or has an option that the command lacks, or a value that
            an option does not take.

    Example:
        `bert --config build.yaml --seed 1`, where the file has "seed: 2" and "strict: true", is
        `bert --strict --seed 1`.
    """
    own, engine = split_arguments(arguments)
    if not names_file(arguments):
        return arguments
    words = merge_repeats(own)
    place = words.index(FILE_FLAG)
    if not place or words[0].startswith("-"):
        raise UserError(FILE_FLAG, "the command comes before its options", "Begin with the command")
    if place + 1 == len(words) or words[place + 1].startswith("--"):
        raise UserError(FILE_FLAG, "its value is missing", "Name a YAML or TOML file")
    path = words[place + 1]
    command, named = choose_variant(load(words[0]), words)
    line = _Line(words[:named], words[named:place], words[place + 2 :])
    content = read_file(path)
    beam = list(_list_beam(f"{path}: {BEAM}", content.pop(BEAM, None), engine))
    merged = line.insert(path, content, command)
    return [*merged, "--", *beam, *engine] if beam or engine else merged


class _Line(NamedTuple):
    """A command line, without the flag `--config FILE` and what follows after `--`."""

    command: list[str]
    before: list[str]
    after: list[str]

    def insert(self, path: str, content: dict[str, Any], command: Command) -> list[str]:
        """Return the command line with the options of a file."""
        words = subcommands_of(command)
        place = next((n for n, word in enumerate(self.after) if word in words), len(self.after))
        chosen = self.after[place] if place < len(self.after) else ""
        for option in options_of(command):
            if option.choices == words and words and option.name in content:
                [listed] = _list_values(path, option, content[option.name])
                chosen = chosen or listed
        options = {option.name: option for option in options_of(command, chosen)}
        texts = {
            option.name: list(_list_values(path, option, content[name]))
            for name in content
            for option in [_find(path, name, options, " ".join(self.command))]
        }
        given = {*map(_name, [*self.before, *self.after])}
        left_out = {name for name in texts if name in given or options[name].choices == words != ()}
        flags = [(options[name], texts[name]) for name in texts.keys() - left_out]
        return self._join(flags, chosen, place)

    def _join(self, flags: list[tuple[Option, list[str]]], chosen: str, place: int) -> list[str]:
        # A word after an option with several values would be taken for one more of them.
        flags = sorted(flags, key=lambda flag: (_is_list(flag[0]) is False, flag[0].name))
        leading = [] if self._has_positional(place) else [
            text for option, texts in flags if option.is_positional for text in texts
        ]  # fmt: skip
        common, inner = list[str](), list[str]()
        for option, texts in flags:
            if not option.is_positional and texts:
                chosen = chosen or option.subcommand
                (inner if option.subcommand else common).extend(_write(option, texts))
        before, after = self.after[:place], self.after[place + 1 :]
        ending = [chosen, *inner, *after] if chosen else inner
        return [*self.command, *leading, *self.before, *common, *before, *ending]

    def _has_positional(self, place: int) -> bool:
        begins = [words[0] for words in (self.before, self.after[:place]) if words]
        return any(not word.startswith("--") for word in begins)


def _find(path: str, name: str, options: dict[str, Option], command: str) -> Option:
    if name not in options:
        see = f"`corpusmill config {command}` lists all options"
        raise refuse_unknown(path, name, [*options, BEAM], see)
    return options[name]


def _name(word: str) -> str:
    """The name of the option that a word is; empty for a value."""
    if not word.startswith("--"):
        return ""
    return word.partition("=")[0].removeprefix("--").removeprefix("no-").replace("-", "_")


def _is_list(option: Option) -> bool:
    return any(get_origin(kind) is tuple for kind in option.kinds)


def _write(option: Option, texts: list[str]) -> Iterator[str]:
    if option.hint is bool:
        yield option.flag if texts == ["True"] else option.flag.replace("--", "--no-", 1)
    else:
        yield from (option.flag, *texts)


def _list_values(path: str, option: Option, value: Any) -> Iterator[str]:
    """Yield the values of an option as on the command line; none where it is left out.

    Raises:
        UserError: it does not take such a value.
    """
    if value in (None, "None") and NoneType not in option.kinds and option.default is None:
        return
    for kind in option.kinds:
        texts = _convert(value, kind)
        if texts is not None:
            yield from texts
            return
    expected = describe_values(option)
    cause = f"it is {_describe(value)}, not {expected}"
    raise UserError(f"{path}: {option.name}", cause, f"Give {expected}")


def describe_values(option: Option) -> str:
    """The values that an option takes, in words.

    Example:
        of `int | None` "a whole number or null".
    """
    words = []
    for kind in option.kinds:
        if get_origin(kind) is Literal:
            words += [str(choice) for choice in get_args(kind)]
        elif get_origin(kind) is tuple:
            words.append("a list of texts")
        else:
            words.append(_KINDS.get(kind, "a text"))
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def _convert(value: Any, kind: Any) -> list[str] | None:
    """The value as on the command line; None if it is not of this type."""
    if get_origin(kind) is tuple:
        return _convert_list(value, get_args(kind)[0])
    if get_origin(kind) is Literal:
        is_valid = value in get_args(kind) and isinstance(value, str)
    elif kind is NoneType:
        is_valid = value is None or value == "None"
    elif kind is float:
        is_valid = isinstance(value, int | float) and not isinstance(value, bool)
    elif kind is str:
        is_valid = isinstance(value, str) and bool(value)
    else:
        is_valid = type(value) is kind
    return [str(value)] if is_valid else None


def _convert_list(value: Any, kind: Any) -> list[str] | None:
    """The values of a list, of a single value, or of names with values (`NAME=VALUE`)."""
    if isinstance(value, dict):
        value = [
            f"{name}={each}"
            for name, listed in value.items()
            for each in (listed if isinstance(listed, list) else [listed])
            if isinstance(each, str)
        ]
    texts = list[str]()
    for each in value if isinstance(value, list) else [value]:
        converted = _convert(each, kind)
        if converted is None:
            return None
        texts += converted
    return texts


def _describe(value: Any) -> str:
    words = {
        NoneType: "empty",
        bool: str(value).lower(),
        int: f"the number {value}",
        float: f"the number {value}",
        str: f'the text "{value}"',
        list: "a list",
        dict: "a list of names with values",
    }
    return words.get(type(value), f"a {type(value).__name__}")


def _list_beam(key: str, options: Any, given: Sequence[str]) -> Iterator[str]:
    """Yield Beam's own options in a file, except those that are given after `--`."""
    if options is None:
        return
    if not isinstance(options, dict):
        cause = f"it is {_describe(options)}, not Beam's options by name"
        raise UserError(key, cause, "Write `project: NAME` and the like below it")
    names = {_name(word) for word in given}
    for name, value in options.items():
        flag = f"--{name}"
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict | list) or each == "":
                cause = f"it is {_describe(each)}, not a single value"
                raise UserError(f"{key}: {name}", cause, "Give a text, a number, or true")
            if _name(flag) not in names and each is not None and each is not False:
                yield flag if each is True else f"{flag}={each}"
