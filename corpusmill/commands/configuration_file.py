"""Reads a file of options: YAML or TOML."""

import re
import tomllib
from collections.abc import Hashable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from corpusmill.errors import UserError, first_line

_HELP = "`corpusmill config COMMAND` prints such a file"
_SUFFIXES = (".yaml", ".yml", ".toml")


class _Loader(yaml.SafeLoader):
    """YAML 1.2's core schema: `no` is a text, and 1e5 a number."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  filled below, as yaml does

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """Make a mapping, and refuse a key that is there twice."""
        keys = set[Any]()
        for key, _ in node.value:
            if key.value in keys and isinstance(key, yaml.ScalarNode):
                problem = f"the key {key.value} is given twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            keys.add(str(key.value))
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


def _make_float(loader: _Loader, node: Any) -> float:
    # YAML writes .inf and .nan, and Python inf and nan.
    text = str(loader.construct_scalar(node))
    return float(text.replace(".inf", "inf").replace(".nan", "nan").lower())


def _make_integer(loader: _Loader, node: Any) -> int:
    text = str(loader.construct_scalar(node))
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
    flag, file = f"--config {path}", Path(path).expanduser()
    if file.suffix.lower() not in _SUFFIXES:
        raise UserError(flag, f"its name does not end with {', '.join(_SUFFIXES)}", "Rename it")
    try:
        text = file.read_bytes().decode()
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
    except tomllib.TOMLDecodeError as error:
        raise UserError(flag, f"it is not TOML: {error}", "Correct it") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise UserError(flag, f"{place}{error.problem}", "Correct it") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(flag, f"it is not YAML: {first_line(error)}", "Correct it") from None


def refuse_unknown(path: str, key: str, known: list[str], see: str) -> UserError:
    """The error for a name that no option has.

    Args:
        path: the file.
        key: the name.
        known: the names of all options.
        see: what explains them.
    """
    close = get_close_matches(key, known, 2)
    cure = f"Did you mean {' or '.join(close)}? " if close else ""
    return UserError(f"{path}: {key}", "there is no such option", f"{cure}{see}")
