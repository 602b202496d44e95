"""What the words of a command line give: which option each belongs to, and the values."""

import re
from collections.abc import Collection, Mapping, Sequence
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from corpusmill.errors import UserError, suggest
from corpusmill.settings.options import IN_WORDS, Option

# All values of these count, however often the options are named.
_REPEATED = {"input", "source"}
_SEE = "--help explains all options"
# Stands between a value and the options that it has of its own; a ; of a text is written \\;.
_SEPARATOR = re.compile(r"(?<!\\);")


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
                raise UserError(named.mention(), "the option is given twice", "Give it once")
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
    cure = f"{suggest(name, known)}{see}"
    return UserError(f"{place}{name}", "there is no such option", cure)


def find_word(words: Sequence[str], known: Collection[str], options: Sequence[Option]) -> int:
    """Return the place of the first word that is one of some, and no value; -1 if there is none.

    Args:
        words: of the command line.
        known: the words to look for, such as the names of objectives.
        options: those of the command, of which some take the word that follows.
    """
    takes_one = {
        option.flag
        for option in options
        if not (option.is_switch or option.is_list or option.alone is not None)
    }
    for place, word in enumerate(words):
        before = words[place - 1].replace("_", "-") if place else ""
        if word in known and before not in takes_one:
            return place
    return -1


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
        raise UserError(declared.mention(), cause, "Give a value, or leave the option out")
    value: Any
    if declared.is_list:
        [kind] = (kind for kind in declared.kinds if get_origin(kind) is tuple)
        value = tuple(_read_word(declared, word, get_args(kind)[:1]) for word in words)
    elif words:
        value = _read_word(declared, words[0], declared.kinds)
    elif declared.alone is not None:
        value = declared.alone
    else:
        kind = declared.describe_values()
        meaning = f": {declared.meaning}" if declared.meaning else ""
        cure = f"Give {kind}{meaning}; {_SEE}"
        raise UserError(declared.mention(), "its value is missing", cure)
    declared.check_size(value)
    return value


def _read_word(declared: Option, word: str, kinds: Sequence[Any]) -> Any:
    for kind in kinds:
        if get_origin(kind) is Literal:
            for choice in get_args(kind):
                if str(choice) == word:
                    return choice
        elif kind in {bool, NoneType}:
            if word in IN_WORDS[kind].split(" or "):
                return None if kind is NoneType else word == "True"
        else:
            try:
                return kind(word)
            except ValueError:
                continue
    raise declared.refuse(word)


def write_own_options(value: str, options: Mapping[str, Any]) -> str:
    r"""Return a value that has options of its own as one word.

    Args:
        value: the value.
        options: by name; each a single value, None, or a list.

    Example:
        of "a;b" and {"text_field": "body", "keep_fields": ["url", "id"], "language": None} it is
        "a\;b;text-field=body;keep-fields=url;keep-fields=id;language=None".
    """
    parts = [value]
    for name, given in options.items():
        texts = list(given) or [None] if isinstance(given, list | tuple) else [given]
        parts += [f"{name.replace('_', '-')}={text}" for text in texts]
    return ";".join(part.replace(";", r"\;") for part in parts)


def split_own_options(word: str) -> tuple[str, dict[str, list[str]]]:
    """Split a value that has options of its own, as `write_own_options` writes it.

    Returns:
        The value, and the words of each option by its name.

    Raises:
        UserError: what follows a ; is not an option with its value.
    """
    value, *parts = (part.replace(r"\;", ";") for part in _SEPARATOR.split(word))
    words: dict[str, list[str]] = {}
    for part in parts:
        name, is_given, text = part.partition("=")
        if not is_given:
            cause = f"{part!r} after a ; is not an option with its value"
            raise UserError(word, cause, r"Give it as NAME=VALUE, or write \; for a ; of a path")
        words.setdefault(name.strip().replace("-", "_"), []).append(text)
    return value, words


def read_own_options(
    words: Mapping[str, Sequence[str]], options: Sequence[Option]
) -> dict[str, Any]:
    """Return the options that a value has of its own, by name.

    Args:
        words: of each option, as `split_own_options` returns them. None alone is no value, and no
            values of an option that takes several.
        options: those that it may have.

    Raises:
        UserError: there is no such option, it is given twice, or it does not take the value.
    """
    by_name, values = {declared.name: declared for declared in options}, dict[str, Any]()
    for name, given in words.items():
        if name not in by_name:
            known = [known.replace("_", "-") for known in by_name]
            see = f"The options are {', '.join(known)}"
            raise refuse_unknown(name.replace("_", "-"), known, see)
        declared = by_name[name]
        if len(given) > 1 and not declared.is_list:
            raise UserError(declared.mention(), "the option is given twice", "Give it once")
        if given == ["None"] and (declared.is_list or NoneType in declared.kinds):
            values[name] = () if declared.is_list else None
        else:
            values[name] = read_words(declared, given)
    return values
