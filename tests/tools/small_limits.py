"""Thresholds that a test crosses with a few rows."""

from corpusmill.limits import Limits, RefusalLimits


def refusal_limits(**values: int) -> Limits:
    """Return the thresholds of a run, with some other values for what is refused."""
    return Limits(refusals=RefusalLimits(**values))
