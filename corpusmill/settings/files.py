"""Reads a file of options: YAML or TOML."""

import re
import tomllib
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

import yaml

from corpusmill.errors import Mention, UserError, as_flag, first_line
from corpusmill.settings.filling import read_value
from corpusmill.settings.options import Option
from corpusmill.settings.words import refuse_unknown

# The key of the options that follow after -- on the command line.
BEAM = "beam"

_HELP = "`corpusmill config COMMAND` prints such a file"
_MOST_DIGITS = 80
_SUFFIXES = (".yaml", ".yml", ".toml")


class _Loader(yaml.SafeLoader):
    """YAML 1.2's core schema: `no` is a text, and 1e5 a number."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  filled below, as yaml does

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """Make a mapping, and refuse a key that is no text, or is there twice."""
        keys = set[str]()
        for key, _ in node.value:
            problem = ""
            if key.tag != "tag:yaml.org,2002:str":
                kind = key.tag.rpartition(":")[2]
                shown = f"{key.value} ({kind})" if isinstance(key, yaml.ScalarNode) else f"a {kind}"
                problem = f"the key is {shown}, and not a text"
            elif key.value in keys:
                problem = f"the key {key.value} is given twice"
            if problem:
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            keys.add(key.value)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


def _make_float(loader: _Loader, node: Any) -> float:
    # YAML writes .inf and .nan, and Python inf and nan.
    text = str(loader.construct_scalar(node))
    return float(text.replace(".inf", "inf").replace(".nan", "nan").lower())


def _make_integer(loader: _Loader, node: Any) -> int:
    text = str(loader.construct_scalar(node))
    if len(text) > _MOST_DIGITS:
        problem = f"the number {text[:_MOST_DIGITS]}... is too large"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
    return int(text, 0 if re.match("[-+]?0[ox]", text) else 10)


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+(_[0-9]+)*|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
        "-+.0123456789",
    ),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), list(_first)
    )
_Loader.add_constructor("tag:yaml.org,2002:float", _make_float)
_Loader.add_constructor("tag:yaml.org,2002:int", _make_integer)


def read_file(path: str) -> dict[str, Any]:
    """Read the options in a file, by name; dashes in names become underscores.

    Raises:
        UserError: there is no such file, or it is neither YAML nor TOML with names and values.
    """
    flag, file = f"--config {path}", Path(path)
    if file.suffix.lower() not in _SUFFIXES:
        raise UserError(flag, f"its name does not end with {', '.join(_SUFFIXES)}", "Rename it")
    try:
        text = file.expanduser().read_bytes().decode("utf-8-sig")
    except RuntimeError:
        raise UserError(flag, "there is no such home folder", _HELP) from None
    except OSError as error:
        raise UserError(flag, f"it cannot be read ({error.strerror})", _HELP) from None
    except UnicodeDecodeError as error:
        raise UserError(flag, f"it is not UTF-8 ({error})", "Save it as UTF-8") from None
    content = _parse(flag, text, file.suffix.lower() == ".toml")
    if content is None or content == {}:
        raise UserError(flag, "it sets no option", _HELP)
    if not isinstance(content, dict):
        raise UserError(flag, "it is not a list of names with their values", _HELP)
    options: dict[str, Any] = {}
    for key, value in content.items():
        name = str(key).replace("-", "_")
        if name in options:
            raise UserError(f"{path}: {key}", "the option is given twice", "Give it once")
        options[name] = value
    return options


def _parse(flag: str, text: str, is_toml: bool) -> Any:
    try:
        if is_toml:
            return tomllib.loads(text)
        return yaml.load(text, _Loader)  # noqa: S506  derived from the safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise UserError(flag, f"{place}{error.problem}", "Correct it") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        kind = "TOML" if is_toml else "YAML"
        raise UserError(flag, f"it is not {kind}: {first_line(error)}", "Correct it") from None


def read_options(
    path: str, content: Mapping[str, Any], options: Sequence[Option]
) -> dict[str, Any]:
    """Return the values that a file gives to options, by their names.

    Args:
        path: the file.
        content: of the file, by name.
        options: those that it may set.

    Raises:
        UserError: it has another option, or a value that an option does not take.
    """
    by_name = {declared.name: declared for declared in options}
    values = {}
    for name, value in content.items():
        if name not in by_name:
            raise refuse_unknown(name, [*by_name, BEAM], _HELP, f"{path}: ")
        declared = by_name[name]
        is_left_out = value in (None, "None") and NoneType not in declared.kinds
        if not (is_left_out and declared.default is None):
            values[name] = read_value(declared, value)
    return values


def list_beam_options(path: str, options: Any, given: Sequence[str]) -> Iterator[str]:
    """Yield Beam's own options in a file as words, except those that are given after `--`.

    Args:
        path: the file.
        options: what it has under `beam`, by name; None for nothing.
        given: the words after `--`.

    Raises:
        UserError: they are not options by name, each with a single value or a list.
    """
    if options is None:
        return
    if not isinstance(options, dict):
        cure = "Write `project: NAME` and the like below it"
        raise UserError(f"{path}: {BEAM}", "it does not have Beam's options by name", cure)
    names = {word.partition("=")[0] for word in given}
    for name, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict | list) or one == "":
                cure = "Give a text, a number, or true"
                raise UserError(f"{path}: {BEAM}: {name}", "it is not a single value", cure)
            if f"--{name}" not in names and one is not None and one is not False:
                yield f"--{name}" if one is True else f"--{name}={one}"


def as_entry(path: str, names: Collection[str], mention: Mention) -> str:
    """Spell an option as in the file if the file gives it, and otherwise as a flag."""
    if mention.name not in names:
        return as_flag(mention)
    value = mention.words or mention.literal.lower()
    return f"{path}: {mention.name}{': ' if value else ''}{value}"
