"""Threads in the background, when the program ends before they do."""

import subprocess
import sys

from tests.conftest import CHECKOUT

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
