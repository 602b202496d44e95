"""Outages of object stores and of the hub: how long a server is waited for.

The clients' own repetitions are switched off where they can be, so that what is promised here
holds: a request is made again for two minutes after it first failed, however long each attempt
takes, and as long as the server itself asks for.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import wraps
from typing import ClassVar, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# What a server answers that cannot work now, or that meets another request for the same thing.
TEMPORARY_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504})

_SECONDS = 120.0
# Servers ask for up to five minutes, after which a limit of requests begins anew.
_MOST_SECONDS = 600.0
_SHORTEST_WAIT, _LONGEST_WAIT = 0.25, 10.0


@dataclass
class Patience:
    """Makes requests of one server again that fail for the time being.

    Called with a function, it returns the function that does so; this is also how Google's client
    takes it. Threads may share it.

    Attributes:
        judge: returns how many seconds the server asks to wait after an error, or 0 where it does
            not say; None if the request would fail again.
        has_answered: whether the server has ever answered this process.
        first_seconds: how long it is waited for until then, as its name may be a mistake. Workers
            wait for longer, as the process that has started them knows the name.
    """

    judge: Callable[[Exception], float | None]
    has_answered: bool = False
    first_seconds: ClassVar[float] = 20.0

    def __call__(self, request: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        """Return a function that makes a request, and makes it again while faults are temporary."""

        @wraps(request)
        def ask(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
            began, wait = 0.0, _SHORTEST_WAIT
            while True:
                try:
                    result = request(*arguments, **named)
                except Exception as error:
                    asked = self.judge(error)
                    now = time.monotonic()
                    began = began or now
                    if asked is None or not self._waits(now - began, asked):
                        raise
                    # Many workers would otherwise come back at the same moment.
                    time.sleep(asked + wait * random.uniform(0.5, 1))  # noqa: S311
                    wait = min(_LONGEST_WAIT, 2 * wait)
                else:
                    self.has_answered = True
                    return result

        return ask

    def _waits(self, passed: float, asked: float) -> bool:
        """Whether a request is made again that began to fail some seconds ago."""
        if asked:
            return passed + asked <= _MOST_SECONDS
        return passed < (_SECONDS if self.has_answered else min(_SECONDS, self.first_seconds))


def parse_wait(header: str | None) -> float:
    """Return how many seconds the header Retry-After asks to wait; 0 where it says nothing.

    Args:
        header: a number of seconds, or a date.
    """
    text = (header or "").strip()
    if text.isdecimal():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError):
        return 0.0
