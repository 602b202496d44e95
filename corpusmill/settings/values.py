"""The value of an option: from words, or from an object of a file or a program."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from corpusmill.errors import UserError, option
from corpusmill.settings.options import Option

_IN_WORDS = {
    int: "a whole number", float: "a number", str: "a text", bool: "True or False",
    NoneType: "None",
}  # fmt: skip


def read_words(declared: Option, words: Sequence[str]) -> Any:
    """Return the value of an option that words of a command line give.

    Args:
        declared: the option.
        words: its words, in any number for an option with several values.

    Raises:
        UserError: they are missing or empty, or not of its type.
    """
    if "" in words:
        cause = "its value is empty, as that of a variable that is not set"
        raise UserError(_mention(declared), cause, "Give a value, or leave the option out")
    if declared.is_list:
        [kind] = (kind for kind in declared.kinds if get_origin(kind) is tuple)
        return tuple(_read_word(declared, word, get_args(kind)[:1]) for word in words)
    if not words:
        cure = f"Give {describe_values(declared)}; --help explains all options"
        raise UserError(_mention(declared), "its value is missing", cure)
    return _read_word(declared, words[0], declared.kinds)


def _read_word(declared: Option, word: str, kinds: Sequence[Any]) -> Any:
    for kind in kinds:
        if get_origin(kind) is Literal:
            for choice in get_args(kind):
                if str(choice) == word:
                    return choice
        elif kind in {bool, NoneType}:
            if word in _IN_WORDS[kind].split(" or "):
                return None if kind is NoneType else word == "True"
        else:
            try:
                return kind(word)
            except ValueError:
                continue
    raise _refuse(declared, word)


def read_value(declared: Option, value: Any) -> Any:
    """Return the value of an option that an object gives: paths as strings, lists as tuples.

    Args:
        declared: the option.
        value: as a file or a program has it. A single value stands for a list of one, a mapping for
            a list of NAME=VALUE.

    Raises:
        UserError: it is empty, or not of its type.
    """
    plain = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
    plain = os.fspath(plain) if isinstance(plain, os.PathLike) else plain
    if plain == "None" and NoneType in declared.kinds:  # TOML has no null
        plain = None
    if declared.is_list and plain is not None:
        plain = tuple(_list_values(plain))
    if plain == "" or (isinstance(plain, tuple) and "" in plain):
        cause = "its value is empty"
        raise UserError(_mention(declared, value), cause, "Give a value, or leave it out")
    hint = get_args(declared.hint)[0] if get_origin(declared.hint) is Annotated else declared.hint
    try:
        return msgspec.convert(plain, hint)
    except msgspec.ValidationError:
        raise _refuse(declared, value) from None
    except TypeError:  # a type that only the package of an objective knows
        return value


def _list_values(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, given in value.items():
            yield from (f"{name}={one}" for one in (given if isinstance(given, list) else [given]))
        return
    listed = value.tolist() if hasattr(value, "tolist") else value
    for one in listed if isinstance(listed, list | tuple) else (listed,):
        yield os.fspath(one) if isinstance(one, os.PathLike) else one


def describe_values(declared: Option) -> str:
    """Describe the values that an option takes.

    Example:
        of `int | None` "a whole number or None".
    """
    # What is there by default comes last.
    kinds = sorted(declared.kinds, key=lambda kind: kind is NoneType)
    return " or ".join(map(_describe_kind, kinds))


def _describe_kind(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if get_origin(kind) is tuple:
        element = get_args(kind)[0]
        if get_origin(element) is Literal:
            return f"some of {', '.join(get_args(element))}"
        return f"a list of {'whole numbers' if element is int else 'texts'}"
    return _IN_WORDS.get(kind, str(getattr(kind, "__name__", kind)))


def _refuse(declared: Option, value: Any) -> UserError:
    expected = describe_values(declared)
    close = get_close_matches(str(value), map(str, declared.choices), 1)
    cure = f"Did you mean {close[0]}? " if close else ""
    return UserError(
        _mention(declared, value), f"the value is not {expected}", f"{cure}Give {expected}"
    )


def _mention(declared: Option, *value: Any) -> str:
    return option(declared.name, *value, is_flag=not declared.is_positional)


# All values of these count, however often the options are named.
_REPEATED = {"input", "source"}
_SEE = "--help explains all options"


def gather_words(words: Sequence[str], options: Sequence[Option]) -> dict[str, list[str]]:
    """Gather the words that each option is given, by its name.

    Args:
        words: of the command line, after the command.
        options: of the command.

    Example:
        `--input a --seed=1 --no-wait --input b c` gives {"input": ["a", "b", "c"], "seed": ["1"],
        "wait": ["False"]}.

    Raises:
        UserError: a word is neither an option nor the value of one, or an option is given twice.
    """
    flags = {option.flag: option for option in options if not option.is_positional}
    places = [option for option in options if option.is_positional]
    given: dict[str, list[str]] = {}
    taking: Option | None = None
    for word in words:
        if word.startswith("--"):
            named, value = _read_flag(word, flags)
            if named.name in given and named.name not in _REPEATED:
                raise UserError(option(named.name), "the option is given twice", "Give it once")
            given.setdefault(named.name, []).extend(value)
            taking = named if named.is_list or not value else None
        elif taking:
            given[taking.name].append(word)
            taking = taking if taking.is_list else None
        elif places:
            given.setdefault(places[0].name, []).append(word)
            places = places if places[0].is_list else places[1:]
        else:
            cause = "it is neither an option nor the value of one"
            raise UserError(word, cause, f"Leave it out, or quote a value with spaces; {_SEE}")
    return given


def _read_flag(word: str, flags: Mapping[str, Option]) -> tuple[Option, list[str]]:
    """Return the option that a word names, and the value in the same word."""
    flag, is_joined, value = word.partition("=")
    flag = flag.replace("_", "-")
    positive = flag.replace("--no-", "--", 1)
    if flag not in flags and positive in flags and flags[positive].is_switch:
        return flags[positive], ["False"]
    if flag not in flags:
        negatives = [f"--no-{name[2:]}" for name, one in flags.items() if one.is_switch]
        raise refuse_unknown(flag, [*flags, *negatives], _SEE)
    if not flags[flag].is_switch:
        return flags[flag], [value] if is_joined else []
    if is_joined:
        raise UserError(word, "the option takes no value", f"Give {flag} or --no-{flag[2:]}")
    return flags[flag], ["True"]


def refuse_unknown(name: str, known: Collection[str], see: str, place: str = "") -> UserError:
    """Return the error for a name that no option has.

    Args:
        name: as it was given.
        known: the names of all options.
        see: what explains them.
        place: what stands before the name in the message, such as that of a file.
    """
    close = get_close_matches(name, known, 2)
    cure = f"Did you mean {' or '.join(close)}? " if close else ""
    return UserError(f"{place}{name}", "there is no such option", f"{cure}{see}")


def find_word(words: Sequence[str], known: Collection[str], options: Sequence[Option]) -> int:
    """Return the place of the first word that is one of some, and no value; -1 if there is none.

    Args:
        words: of the command line.
        known: the words to look for, such as the names of objectives.
        options: those of the command, of which some take the word that follows.
    """
    takes_one = {option.flag for option in options if not (option.is_switch or option.is_list)}
    for place, word in enumerate(words):
        before = words[place - 1].replace("_", "-") if place else ""
        if word in known and before not in takes_one:
            return place
    return -1
