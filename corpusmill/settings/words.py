"""What the words of a command line give."""

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches

from corpusmill.errors import UserError, option
from corpusmill.settings.options import Option

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
