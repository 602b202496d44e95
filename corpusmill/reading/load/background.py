"""Threads that end before Python does."""

import atexit
import sys
from collections.abc import Callable
from threading import Thread, current_thread


class BackgroundThread(Thread):
    """A thread that ends with the program at the latest.

    Python waits for threads when a program ends, for ever if nobody tells them to stop. It does not
    wait for daemon threads, but one that is in native code then may abort the whole process, with
    "terminate called without an active exception".

    Args:
        work: what the thread does.
        name: its name.
        stop: makes the work end soon; called from any thread, and more than once.
    """

    def __init__(self, work: Callable[[], None], name: str, stop: Callable[[], None]) -> None:
        super().__init__(target=work, name=name, daemon=True)
        self._make_work_end = stop

    def start(self) -> None:
        """Start the thread."""
        super().start()
        atexit.register(self.end)

    def end(self) -> None:
        """Tell the thread to stop, and wait until it has, unless this is the thread itself."""
        self._make_work_end()
        # No thread ends once Python finalizes.
        if self is not current_thread() and not sys.is_finalizing():
            self.join()
        atexit.unregister(self.end)
