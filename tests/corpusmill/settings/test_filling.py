"""From values by name to dataclasses of options: groups of them, whole or one by one."""

from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.errors import UserError
from corpusmill.settings.constraints import Alone
from corpusmill.settings.filling import fill, read_value
from corpusmill.settings.options import options_of
from corpusmill.settings.words import (
    find_word,
    gather_words,
    read_own_options,
    read_words,
    split_own_options,
    write_own_options,
)


@dataclass(frozen=True)
class Colours:
    """How it looks."""

    paint: str
    """The paint."""
    gloss: int = 1
    """Its gloss."""


@dataclass(frozen=True)
class House:
    """A house."""

    street: str
    """Where it stands."""
    colours: Colours = field(default_factory=lambda: Colours("white"))


def test_values_of_a_whole_group_stay_where_no_others_are_given() -> None:
    given = {"street": "Main", "colours": Colours("red", 3), "gloss": 2}
    assert fill(House, given) == House("Main", Colours("red", 2))
    assert fill(House, {"street": "Main", "paint": "blue"}) == House("Main", Colours("blue"))


def test_a_whole_group_lacks_none_of_its_options_and_no_other_is_excused() -> None:
    with pytest.raises(UserError, match=r"^--street: it is missing\. Give it: where it stands\.$"):
        fill(House, {"colours": Colours("red")})
    with pytest.raises(UserError, match=r"^--street, --paint: they are missing\. Give them\.$"):
        fill(House, {})


# A backslash before a ; cannot be told from the one that keeps it in a text.
TEXTS = st.text(min_size=1).filter(lambda text: "\\" not in text and text != "None")


@given(TEXTS, TEXTS, st.integers(0, 9))
def test_a_value_with_options_of_its_own_is_read_as_it_was_written(
    value: str, paint: str, gloss: int
) -> None:
    options = {"paint": paint, "gloss": gloss}
    written, words = split_own_options(write_own_options(value, options))
    assert written == value
    assert read_own_options(words, options_of(Colours)) == options


@dataclass(frozen=True)
class Street:
    """A street."""

    houses: tuple[str, ...] = ()
    """Its houses."""


def test_a_table_gives_a_path_with_options_of_its_own() -> None:
    [houses] = options_of(Street)
    table = {"path": ["a;b", "c"], "paint": "red", "doors": [1, 2], "roof": None, "signs": []}
    end = ";paint=red;doors=1;doors=2;roof=None;signs=None"
    read = read_value(houses, {"first": table, "last": "d", "other": {"path": "e;f"}})
    assert read == (rf"first=a\;b{end}", f"first=c{end}", "last=d", r"other=e\;f")


@dataclass(frozen=True)
class Fence:
    """A fence."""

    height: Annotated[float | None, Alone(0.8)] = None
    """Its height."""


def test_an_option_that_may_stand_alone_has_a_value_then() -> None:
    options = options_of(Fence)
    [height] = options
    for words, value in (("", 0.8), ("=2", 2.0), (" 2", 2.0), (" None", None)):
        gathered = gather_words(f"--height{words}".split(), options)
        assert read_words(height, gathered["height"]) == value
    table: tuple[tuple[Any, Any], ...] = ((True, 0.8), (False, None), (2, 2.0), ("None", None))
    for given_value, value in table:
        assert read_value(height, given_value) == value
    for wrong in ("yes", "True"):
        with pytest.raises(UserError, match="the value is not a number or None"):
            read_value(height, wrong)
    # A word that may follow is no value of it.
    assert find_word(["--height", "stone"], ["stone"], options) == 1
