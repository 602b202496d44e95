"""What the words of a command line give: which option each belongs to, and the values."""

from collections.abc import Collection, Mapping, Sequence
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from corpusmill.errors import UserError, suggest
from corpusmill.settings.options import IN_WORDS, Option

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
    takes_one = {option.flag for option in options if not (option.is_switch or option.is_list)}
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
    if declared.is_list:
        [kind] = (kind for kind in declared.kinds if get_origin(kind) is tuple)
        values = tuple(_read_word(declared, word, get_args(kind)[:1]) for word in words)
        declared.check_size(values)
        return values
    if not words:
        cure = f"Give {declared.describe_values()}; --help explains all options"
        raise UserError(declared.mention(), "its value is missing", cure)
    value = _read_word(declared, words[0], declared.kinds)
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
