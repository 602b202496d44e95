"""What options take, as their fields declare it."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest

from corpusmill.errors import UserError
from corpusmill.settings.constraints import CheckedOptions, Needs, Range


@dataclass(frozen=True)
class _Options(CheckedOptions):
    rate: Annotated[float | None, Range(0, 1, without=0)] = None
    sizes: Annotated[tuple[int, ...], Range(2)] = ()
    mode: Annotated[Literal["all", "windows", "pairs"], Needs("end", where="pairs")] = "all"
    overlap: Annotated[int, Needs("mode", "windows")] = 0
    joined: Annotated[bool, Needs("end", None, True)] = False
    end: bool | None = None
    file: Annotated[str | None, Needs("offset")] = None
    offset: int | None = None


def test_each_value_is_held_to_what_its_field_declares() -> None:
    for accepted in (
        {"rate": 1.0}, {"rate": 1e-9}, {"sizes": (2, 3)}, {"mode": "windows", "overlap": 1},
        {"joined": True, "end": True}, {"end": False}, {"file": "a", "offset": 0},
        {"mode": "pairs", "end": False},
    ):  # fmt: skip
        _Options(**accepted)
    modes = "all, windows, pairs"
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"rate": 0.0}, "--rate 0.0: the value is out of range. Give 0 to 1, but not 0."),
        ({"rate": float("nan")}, "--rate nan: the value is out of range. Give 0 to 1, but not 0."),
        ({"sizes": (2, 1)}, "--sizes 1: the value is out of range. Give 2 or more."),
        ({"mode": ""}, f"--mode : the value is not one of {modes}. Give one of {modes}."),
        ({"mode": "pairs"}, "--mode pairs: it needs --end. Give --end, or leave it out."),
        (
            {"overlap": 1},
            "--overlap 1: it needs --mode windows. Give --mode windows, or leave it out.",
        ),
        (
            {"joined": True, "end": False},
            "--joined: it does not go with --end False. Leave one of the two out.",
        ),
        ({"file": "a"}, "--file a: it needs --offset. Give --offset, or leave it out."),
    )
    messages = []
    for options, _ in refused:
        with pytest.raises(UserError) as error:
            _Options(**options)
        messages.append(str(error.value))
    assert messages == [message for _, message in refused]
