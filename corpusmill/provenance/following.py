"""Longer work whose progress may be shown, such as on a terminal."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

Item = TypeVar("Item")


class Follow(Protocol):
    """Passes on items while they are counted."""

    def __call__(self, items: Iterable[Item], total: int, what: str) -> Iterable[Item]:
        """Return the items.

        Args:
            items: the items.
            total: their number.
            what: what is done with them, in a word or two.
        """


def pass_on(items: Iterable[Item], total: int, what: str) -> Iterable[Item]:  # noqa: ARG001
    """Return the items without showing anything."""
    return items
