"""How long a server is waited for, by a clock of the test's own."""

import pytest

from corpusmill import outages
from corpusmill.outages import Patience, parse_wait


class Clock:
    """A clock that moves on when somebody waits."""

    def __init__(self) -> None:
        self.now, self.asked = 1000.0, list[float]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def time(self) -> float:
        return 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(outages, "time", clock)
    return clock


def ask(
    clock: Clock, end: float, error: type[Exception] = ConnectionError, wait: float = 0.0,
    is_known: bool = True, takes: float = 0.0,
) -> None:  # fmt: skip
    """Ask a server that does not answer until a time.

    Args:
        clock: the clock, which notes when the server is asked.
        end: when it answers.
        error: what it raises before.
        wait: the seconds that it asks for.
        is_known: whether it has ever answered.
        takes: the seconds of an attempt.
    """

    def request() -> None:
        clock.asked.append(clock.now)
        clock.now += takes
        if clock.now < end:
            raise error

    judge: dict[type, float] = {ConnectionError: wait, TimeoutError: wait}
    Patience(lambda error: judge.get(type(error)), has_answered=is_known)(request)()


def test_an_outage_of_almost_two_minutes_is_waited_out(clock: Clock) -> None:
    ask(clock, 1119)
    assert 1119 <= clock.now < 1130


def test_a_longer_one_is_the_error_of_the_last_attempt(clock: Clock) -> None:
    with pytest.raises(ConnectionError):
        ask(clock, 5000)
    assert 1110 < clock.now < 1130


def test_what_would_fail_again_is_not_tried_again(clock: Clock) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  it has no message
        ask(clock, 1001, ValueError)
    assert clock.asked == [1000]


def test_a_server_that_has_never_answered_is_given_up_sooner(clock: Clock) -> None:
    with pytest.raises(ConnectionError):
        ask(clock, 5000, is_known=False)
    assert 1015 < clock.now < 1031


def test_slow_attempts_count_as_time(clock: Clock) -> None:
    with pytest.raises(TimeoutError):
        ask(clock, 5000, TimeoutError, takes=60)
    assert len(clock.asked) == 3


def test_what_the_server_asks_for_is_kept(clock: Clock) -> None:
    ask(clock, 1260, wait=250.0)
    first, second, third = clock.asked
    assert second >= first + 250
    assert third >= second + 250


def test_the_header_holds_seconds_or_a_date(clock: Clock) -> None:
    headers = ("7", "Thu, 01 Jan 1970 00:00:09 GMT", None, "soon")
    assert [parse_wait(header) for header in headers] == [7.0, 9.0, 0.0, 0.0]
    assert clock.now == 1000
