"""Batches that a thread reads ahead."""

import subprocess
import sys
import threading
from itertools import count
from threading import Thread
from types import FrameType
from typing import Any

from corpusmill.reading.load import batches as background
from corpusmill.reading.load import loader as prefetching
from corpusmill.reading.load.loader import prefetch
from tests.conftest import CHECKOUT


def called_by_prefetch(frame: FrameType | None) -> bool:
    """Return whether a step is one of `prefetch`, its thread, or a lock that they use."""
    while frame and frame.f_code.co_filename == threading.__file__:
        if frame.f_code.co_name in {"start", "join", "_bootstrap"}:
            return False  # Python's own threads do not survive it
        frame = frame.f_back
    ours = {prefetching.__file__, background.__file__}
    return frame is not None and frame.f_code.co_filename in ours


def read_until_interrupted(step: int) -> int:
    """Read ahead, and raise KeyboardInterrupt at a step of this thread; return the steps made."""
    steps = count(1)
    made = 0

    def interrupt(frame: FrameType, *_: object) -> Any:
        nonlocal made
        if called_by_prefetch(frame):
            made = next(steps)
            if made == step:
                raise KeyboardInterrupt
        return interrupt

    sys.settrace(interrupt)
    try:
        for _ in prefetch((number for number in range(6)), capacity=2):
            pass
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return made


def test_an_interruption_at_any_moment_ends_the_loop() -> None:
    """Ctrl-C may come between any two steps of the interpreter, and must leave no lock held."""
    made: list[int] = []

    def read(step: int) -> None:
        made.append(read_until_interrupted(step))

    for step in count(1):
        reader = Thread(target=read, args=(step,), daemon=True)
        reader.start()
        reader.join(60)
        assert not reader.is_alive(), f"the loop hangs after an interruption at step {step}"
        if made[-1] < step:
            return


# What reads ahead is inside a generator that waits; a thread unpacks for it. Neither has ended.
_PROGRAM = """
from threading import Event
from corpusmill.reading.load.batches import BackgroundThread
from corpusmill.reading.load.loader import prefetch

stopped = Event()

def unpack():
    stopped.wait()
    print("unpacking has ended")

def read():
    thread = BackgroundThread(unpack, "unpack-ahead", stopped.set)
    thread.start()
    try:
        while True:
            yield "batch"
    finally:
        thread.end()
        print("reading has ended")

batches = prefetch(read(), 2)
print(next(batches))
"""


def test_threads_end_before_python_does() -> None:
    """Those that Python leaves running abort it once in a while."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(CHECKOUT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["batch", "unpacking has ended", "reading has ended"]
