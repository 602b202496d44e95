"""Values of a text, and the bounds between which they must be."""

from collections.abc import Iterable

Measure = tuple[str, float, float | None, float | None]
"""The reason to leave a text out, a value, and the least and the most that it may be."""


def find_reason(measures: Iterable[Measure]) -> str | None:
    """Return the reason of the first value out of its bounds; those behind it are not asked for."""
    for reason, value, least, most in measures:
        if (least is not None and value < least) or (most is not None and value > most):
            return reason
    return None
