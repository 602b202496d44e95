"""Where a run works, whether it still may, and the signs of life that its workers give there."""

import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread

from corpusmill.dataset.manifest import SUCCESS
from corpusmill.dataset.ownership import remove_named
from corpusmill.errors import UserError
from transforms.recovery.claim import COMMITTED, FAILED, drop_claim, end_claim, read_claim
from transforms.storage.file_systems import join_path
from transforms.storage.files import file_exists, last_written, locate, write_file

# First part of the names of files that workers write again and again.
SIGN = "alive-"
_SECONDS_BETWEEN_SIGNS = 30.0

_LOG = logging.getLogger(__name__)
# When this process has given its last sign of life, by temporary folder.
_given: dict[str, float] = {}


@dataclass(frozen=True)
class Workplace:
    """Where a run works.

    Attributes:
        temp_folder: folder of its temporary files; every worker must reach it.
        output: folder of its data set; empty for a run that builds none, and so has no claim.
        token: token of its claim on that folder.
        outlives: whether the job may continue without the command that started it; then workers
            give signs of life.
    """

    temp_folder: str
    output: str = ""
    token: str = ""
    outlives: bool = False

    def is_over(self) -> bool:
        """Return whether the run has ended, so that a worker has nothing left to do.

        An engine that loses a machine repeats work of that machine, even if a process there has
        meanwhile finished the data set and removed the temporary files.
        """
        if not self.output:
            return False
        claim = read_claim(self.output)
        if claim is None:
            return file_exists(join_path(self.output, SUCCESS))
        return claim.token != self.token or bool(claim.ended)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Give signs of life for the length of a block, and end the run at a mistake of the user's.

        Engines repeat what fails, but this would fail again.
        """
        try:
            if not self.outlives:
                yield
                return
            if time.monotonic() - _given.get(self.temp_folder, -1e9) >= _SECONDS_BETWEEN_SIGNS:
                self.give_sign()
            with self.alive():
                yield
        except UserError as error:
            self.give_up(error)
            raise

    def give_up(self, mistake: UserError | None = None) -> None:
        """Note that the run has failed, if that can be noted: a full disk may be the reason.

        Args:
            mistake: the mistake of the user's that has ended it.
        """
        with suppress(OSError, UserError):
            if self.output:
                end_claim(self.output, self.token, FAILED, mistake)

    def has_committed(self) -> bool:
        """Return whether a run that is over has finished its data set."""
        claim = read_claim(self.output)
        return claim is None or (claim.token, claim.ended) == (self.token, COMMITTED)

    def clean_up(self) -> None:
        """Remove the temporary files of a run that has committed, and then its claim."""
        if self.has_committed() and read_claim(self.output) is not None:
            remove_named(locate(self.temp_folder))
            drop_claim(self.output, self.token)

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Give signs of life for the length of a block, for those who cannot ask this process."""
        ended = Event()
        thread = Thread(target=self._give_signs, args=(ended,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _give_signs(self, ended: Event) -> None:
        while not ended.wait(_SECONDS_BETWEEN_SIGNS):
            self.give_sign()

    def give_sign(self) -> None:
        """Write a sign of life of this process; if that fails, the next one may not."""
        _given[self.temp_folder] = time.monotonic()
        name = f"{SIGN}{socket.gethostname()}-{os.getpid()}"
        try:
            write_file(join_path(self.temp_folder, name), str(time.time()).encode())
        except Exception as error:  # whatever a store's client raises
            _LOG.debug("no sign of life: %s", error)


def last_sign(temp_folder: str) -> float:
    """Return when a run has given its last sign of life, in seconds since 1970; 0 for none."""
    return last_written(join_path(temp_folder, SIGN))
