"""How long a server is waited for, by a clock of the test's own."""

import pytest

from corpusmill import outages
from corpusmill.outages import Patience, parse_wait


class Clock:
    """A clock that moves on when somebody waits."""

    def __init__(self) -> None:
        self.now = 1000.0

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


def fail_until(clock: Clock, end: float, error: type[Exception] = ConnectionError) -> Patience:
    """Return what asks a server that does not answer until then."""
    patience = Patience(lambda error: 0.0 if isinstance(error, ConnectionError) else None)
    patience.has_answered = True

    def request() -> float:
        if clock.now < end:
            raise error
        return clock.now

    patience(request)()
    return patience


def test_an_outage_of_almost_two_minutes_is_waited_out(clock: Clock) -> None:
    fail_until(clock, 1119)
    assert 1119 <= clock.now < 1130


def test_a_longer_one_is_the_error_of_the_last_attempt(clock: Clock) -> None:
    with pytest.raises(ConnectionError):
        fail_until(clock, 5000)
    assert 1110 < clock.now < 1130


def test_what_would_fail_again_is_not_tried_again(clock: Clock) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  it has no message
        fail_until(clock, 1001, ValueError)
    assert clock.now == 1000


def test_a_server_that_has_never_answered_is_given_up_sooner(clock: Clock) -> None:
    patience = Patience(lambda _: 0.0)

    def request() -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        patience(request)()
    assert 1015 < clock.now < 1031


def test_slow_attempts_count_as_time(clock: Clock) -> None:
    patience = Patience(lambda _: 0.0, has_answered=True)
    attempts = []

    def request() -> None:
        attempts.append(clock.now)
        clock.now += 60
        raise TimeoutError

    with pytest.raises(TimeoutError):
        patience(request)()
    assert len(attempts) == 3


def test_what_the_server_asks_for_is_kept(clock: Clock) -> None:
    patience = Patience(lambda _: 250.0, has_answered=True)
    asked = []

    def request() -> None:
        asked.append(clock.now)
        if len(asked) < 3:
            raise ConnectionError

    patience(request)()
    assert asked[1] >= 1250
    assert asked[2] >= asked[1] + 250


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("Thu, 01 Jan 1970 00:00:09 GMT", 9.0), (None, 0.0), ("soon", 0.0)],
)
def test_the_header_holds_seconds_or_a_date(
    clock: Clock, header: str | None, seconds: float
) -> None:
    assert parse_wait(header) == seconds
    assert clock.now == 1000
