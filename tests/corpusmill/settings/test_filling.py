"""From values by name to dataclasses of options: groups of them, whole or one by one."""

from dataclasses import dataclass, field

import pytest

from corpusmill.errors import UserError
from corpusmill.settings.filling import fill


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
    with pytest.raises(UserError, match=r"^--street: it is missing\. Give it\.$"):
        fill(House, {"colours": Colours("red")})
    with pytest.raises(UserError, match=r"^--street, --paint: they are missing\. Give them\.$"):
        fill(House, {})
