"""The run of a command that writes a file, and its folder.

The folder's name follows from the file's, so that of two runs at once only one can begin in it. It
stays if the run is stopped after some of its work is finished.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from uuid import uuid4

from corpusmill.dataset.ownership import MARK, OwnFolder, put_file
from corpusmill.dataset.shards import RUN
from corpusmill.errors import RefusedError, UserError, option
from corpusmill.location import TEMPORARY, Location
from pipeline.folders.run_folder import describe_finished, empty_again, make_temporary_folder
from pipeline.folders.standing import UnfinishedRun, describe_process, hold_folder
from transforms.recovery import FAILED, begin_run, count_finished, end_run, read_run
from transforms.storage.file_systems import split_path
from transforms.storage.files import locate

# Lists the files that a run puts in their places at its end, with their digests.
_PLACED = "placed.json"
# Holds a digest of all that the file depends on.
_IDENTITY = "identity"


@dataclass(frozen=True)
class FileRun:
    """A run that writes a file, and perhaps others beside it.

    Attributes:
        output: the file.
        temp_location: where temporary folders are made; beside the file by default.
        token: its own.
    """

    output: Location
    temp_location: Location | None
    token: str = field(default_factory=lambda: uuid4().hex)

    @property
    def path(self) -> str:
        """The path of the run's folder."""
        return self._place.url

    @cached_property
    def _parent(self) -> Location:
        return locate(split_path(self.output.url)[0])

    @cached_property
    def _place(self) -> Location:
        name = TEMPORARY + _digest(self.output.url.encode())[:32]
        return (self.temp_location or self._parent) / name

    def has_placed(self, place: Location) -> bool:
        """Whether a file is what a run that was stopped has put there at its end."""
        content = place.read_any()
        placed = json.loads(self._place.read_any(_PLACED) or b"{}")
        return content is not None and placed.get(place.url) == _digest(content)

    def identify(self, identity: object, resume: bool) -> None:
        """Note all that the file depends on, or compare it if the run is resumed.

        Args:
            identity: all that the file depends on, as JSON can hold it.
            resume: whether the run that was stopped is to be resumed.

        Raises:
            UserError: no run with this input and these options was stopped.
        """
        content = _digest(json.dumps(identity, sort_keys=True).encode()).encode()
        known = self._place.read_any(_IDENTITY)
        if resume and known != content:
            cause = "no run with this input and these options was stopped there"
            value = f"{option('output', self.output)} {option('resume')}"
            cure = f"Leave {option('resume')} out"
            if known:
                cure = f"Give those of the one that was, or {option('replace', True)} in its place"
            raise UserError(value, cause, cure)
        (self._place / _IDENTITY).write(content)

    def put(self, files: Mapping[Location, bytes]) -> None:
        """Put files in their places.

        Raises:
            UserError: another run has taken the folder.
        """
        run = read_run(self._place)
        if run is None or run.token != self.token:
            raise self._refuse_second()
        placed = {place.url: _digest(content) for place, content in files.items()}
        (self._place / _PLACED).write(json.dumps(placed).encode())
        for place, content in files.items():
            put_file(self._place, place, content)

    @contextmanager
    def open(self, resume: bool, replace: bool) -> Iterator[None]:
        """Make the folder of the run, and remove it at the end.

        If the run fails after some of its work is finished, the folder stays, and the error gets a
        note that says how to resume.

        Args:
            resume: whether to continue the run that was stopped, if it has finished any work.
            replace: whether to start over in that case.

        Raises:
            UserError: another run is at work, or was stopped after some of its work; or no folder
                can be made.
        """
        with empty_again(self.temp_location or self._parent):
            yield from self._open(resume, replace)

    def _open(self, resume: bool, replace: bool) -> Iterator[None]:
        place = self._place
        folder = OwnFolder(place, {"output": self.output.url})
        stopped = read_run(place) if folder.is_there() else None
        unfinished = UnfinishedRun(0, stopped, place, self.output) if stopped else None
        if unfinished:
            is_alive = unfinished.is_alive
            if is_alive or (is_alive is None and not (resume or replace)):
                cause = f"another run is at work on it, or was, {unfinished.who}"
                cure = f"Wait for it to end; if it has, add {option('resume', True)}"
                raise UserError(option("output", self.output), cause, cure)
            if count_finished(place.list()) and not (resume or replace):
                cause = "a run that writes this file was stopped"
                cure = f"Add {option('resume', True)} to continue it, or {option('replace', True)}"
                raise UserError(option("output", self.output), cause, cure)
        make_temporary_folder(folder, self._parent, self.temp_location)
        with hold_folder(place):
            if not begin_run(place, describe_process(self.token, self.path), stopped):
                raise self._refuse_second()
            if not resume:
                kept = {MARK, RUN, _PLACED}
                place.delete(name for name in place.list() if name not in kept)
            try:
                yield
            except BaseException as error:
                run = read_run(place)
                if run is None or run.token != self.token:
                    raise
                finished = count_finished(place.list())
                if not finished or isinstance(error, RefusedError):
                    folder.discard()
                    raise
                end_run(place, self.token, FAILED)
                error.add_note(describe_finished(finished, self.path))
                raise
            folder.discard()

    def _refuse_second(self) -> UserError:
        cause, cure = "another run writes this file", "Wait for it to end"
        return UserError(option("output", self.output), cause, cure)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
