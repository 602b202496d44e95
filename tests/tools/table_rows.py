"""Tables within one test, which shows what is wrong with all of their rows at once."""

from collections.abc import Callable, Iterable
from functools import partial, wraps
from inspect import signature
from typing import Any, TypeVar

import pytest

Row = TypeVar("Row")
Test = Callable[..., Any]


def check_rows(rows: Iterable[Row], check: Callable[[Row], object]) -> None:
    """Check each row of a table.

    Args:
        rows: the table.
        check: asserts what holds for a row.

    Raises:
        AssertionError: it does not for some rows; the message has the failure of each.
    """
    failures = []
    for row in rows:
        try:
            check(row)
        except (Exception, pytest.fail.Exception) as error:
            failures.append(f"{row!r:.200}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures)


def for_rows(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Let a test hold for each row of a table, as one case; the rows share its fixtures.

    Args:
        names: of the test's parameters that a row has, as for `pytest.mark.parametrize`.
        rows: the table, with a value for each name; a value alone where there is one name.
    """
    own = (names,) if isinstance(names, str) else names

    def decorate(test: Test) -> Test:
        @wraps(test)
        def check_all(**fixtures: Any) -> None:
            def check(row: Any) -> None:
                values = (row,) if isinstance(names, str) else row
                partial(test, **dict(zip(own, values, strict=True)))(**fixtures)

            check_rows(rows, check)

        whole = signature(test)
        kept = [parameter for name, parameter in whole.parameters.items() if name not in own]
        check_all.__signature__ = whole.replace(parameters=kept)  # type: ignore[attr-defined]
        return check_all

    return decorate
