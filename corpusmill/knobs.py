"""Thresholds: sizes at which the code takes another way, constants of the modules that use them.

A test crosses a threshold with kilobytes, by the value that is written beside it. The environment
variable CORPUSMILL_THRESHOLDS gives it to a process and all that it starts, as their modules are
imported: `test` stands for the test values of all thresholds, and `fan_in=3` for one value.
`python -m tests.tools.knobs` prints the table of them.
"""

import os

VARIABLE = "CORPUSMILL_THRESHOLDS"


def knob(name: str, usual: int, test: int | None = None) -> int:
    """Return the value of a threshold in this process.

    Args:
        name: that of the constant, in lower case.
        usual: the value for every run.
        test: a value that a few kilobytes, or a few rows, cross. None where results depend on it,
            so that `test` leaves it: tests give it by name.

    Example:
        FAN_IN = knob("fan_in", 1000, test=3)
    """
    words = os.environ.get(VARIABLE, "").split()
    values = dict(word.split("=", 1) for word in words if "=" in word)
    return int(values.get(name, usual if test is None or "test" not in words else test))
