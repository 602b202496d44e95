"""How much of a longer work is done, on the terminal while it is done."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from corpusmill.console.terminal import Terminal

Item = TypeVar("Item")


def follow(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """Yield items, and show on a terminal how many there were; afterwards the line is gone.

    Args:
        items: the items.
        total: their number.
        what: what is done with them, in a word or two.
    """
    console = Terminal(stderr=True, force_jupyter=False)
    if not console.is_terminal:
        yield from items
        return
    from rich.progress import MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415  slow

    columns = (TextColumn("{task.description}"), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield from progress.track(items, total, description=what)
