"""The checks of keyword arguments that many readers share."""

from corpusmill.arrays.randomness import MAX_SEED
from corpusmill.errors import UserError


def check_minimum(name: str, value: int | None, minimum: int) -> None:
    """Refuse a number below the minimum, which is 0 or 1; None is accepted.

    Args:
        name: the keyword.
        value: its value.
        minimum: the smallest accepted value.

    Raises:
        UserError: the value is too small.
    """
    if value is not None and value < minimum:
        cause = f"{name} must {'be positive' if minimum else 'not be negative'}"
        raise UserError(f"{name}={value}", cause, f"Give {minimum} or more")


def check_seed(seed: int) -> None:
    """Refuse a seed that is not an unsigned 64-bit integer.

    Raises:
        UserError: the seed is out of range.
    """
    if not 0 <= seed <= MAX_SEED:
        raise UserError(f"seed={seed}", "the seed is out of range", f"Give 0 to {MAX_SEED}")


def check_share(name: str, value: float) -> None:
    """Refuse a share that is not from 0 to 1.

    Raises:
        UserError: the value is out of range.
    """
    if not 0 <= value <= 1:
        raise UserError(f"{name}={value}", "it is not a share", "Give 0 to 1")
