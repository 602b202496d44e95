"""Writers that exchange one file at once."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from corpusmill.location import Location


def race(place: Location, writers: int, rounds: int) -> bytes | None:
    """Let threads exchange a file, of which one must win each round; return its last content."""
    held: bytes | None = None
    for number in range(rounds):
        contents = [b"%d of %d" % (writer, number) for writer in range(writers)]
        with ThreadPoolExecutor(writers) as threads:
            won = list(threads.map(partial(place.exchange, old=held), contents))
        assert won.count(True) == 1
        held = contents[won.index(True)]
        assert place.read() == held
    return held
