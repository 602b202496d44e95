"""What a bucket can do, whoever keeps it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from corpusmill.errors import UserError


class Found(NamedTuple):
    """An object that is there.

    Attributes:
        name: in its bucket.
        bytes: its size.
        modified: when it was written, in seconds since 1970.
    """

    name: str
    bytes: int
    modified: float


class Upload(ABC):
    """An object that is written in parts; nobody sees it before `finish`."""

    @abstractmethod
    def add(self, part: bytes) -> None:
        """Send the next part."""

    @abstractmethod
    def finish(self) -> None:
        """Make the object visible."""

    @abstractmethod
    def abort(self) -> None:
        """Leave nothing of it."""


class Store(ABC):
    """A bucket.

    Every method raises UserError where the bucket is not there, cannot be reached or refuses, and
    FileNotFoundError where an object that it reads is not there. Faults that pass are retried
    inside, for up to about two minutes.

    Args:
        bucket: its name.

    Attributes:
        scheme: of its paths, such as "gs".
        bucket: its name.
        answered: whether it ever did; one that never did is not waited for so long.
    """

    scheme: str

    def __init__(self, bucket: str) -> None:
        self.bucket = bucket
        self.answered = False

    def path(self, name: str) -> str:
        """The whole path of an object."""
        return f"{self.scheme}://{self.bucket}/{name}"

    @abstractmethod
    def find(self, name: str) -> Found:
        """An object by its name."""

    @abstractmethod
    def read(self, name: str, start: int, end: int) -> bytes:
        """The bytes of an object from `start` up to, not including, `end`; at least one."""

    @abstractmethod
    def list(self, prefix: str) -> Iterator[Found]:
        """All objects whose names begin so, in the order of their names."""

    @abstractmethod
    def put(self, name: str, content: bytes, new: bool = False) -> None:
        """Write a small object in one request; what had this name is replaced at once.

        Args:
            name: of the object.
            content: all of it.
            new: whether nothing may have this name; of two writers at once one gets it.

        Raises:
            FileExistsError: something has the name of a new object; it may be one that this very
                call has written, if the store's answer was lost.
        """

    @abstractmethod
    def begin_upload(self, name: str) -> Upload:
        """Begin to write a large object."""

    @abstractmethod
    def copy(self, source: "Store", source_name: str, name: str, size: int) -> None:
        """Copy an object inside the store, without its bytes passing through here.

        Args:
            source: bucket of the same kind of store.
            source_name: of the object to copy.
            name: of the copy; what had this name is replaced at once.
            size: bytes of the object.
        """

    @abstractmethod
    def delete(self, names: Sequence[str]) -> None:
        """Delete objects; one that is not there is fine."""

    def abort_uploads(self, prefix: str) -> None:  # noqa: B027  most stores have nothing to do
        """Remove what dead writers have left of objects whose names begin so."""

    @abstractmethod
    def explain(self, error: Exception, name: str) -> Exception | None:
        """The store's own error as what this class raises; None where it is no error of a store."""

    @contextmanager
    def explained(self, name: str) -> Iterator[None]:
        """Raise the store's own errors as this class says."""
        try:
            yield
        except (UserError, FileNotFoundError, FileExistsError):
            raise
        except Exception as error:
            meant = self.explain(error, name)
            if meant is None:
                raise
            raise meant from error
        self.answered = True

    def no_bucket(self) -> UserError:
        """There is no such bucket."""
        cause = f"there is no bucket {self.bucket}"
        return UserError(f"{self.scheme}://{self.bucket}", cause, "Check its name, or create it")

    def no_object(self, name: str) -> FileNotFoundError:
        """There is no such object."""
        return FileNotFoundError(2, "No such object", self.path(name))

    def taken(self, name: str) -> FileExistsError:
        """Something has the name of a new object."""
        return FileExistsError(17, "Object exists", self.path(name))

    def denied(self, name: str, said: str, has_credentials: bool, log_in: str) -> UserError:
        """The bucket refuses, or knows nobody to allow."""
        if not has_credentials:
            cause = "no credentials were found on this machine, and it is not public"
            return UserError(self.path(name), cause, log_in)
        cause = f"access is denied ({_first_line(said)})"
        cure = "Ask for the permission to list, read and write objects there, or use others' keys"
        return UserError(self.path(name), cause, cure)

    def out_of_reach(self, error: Exception) -> UserError:
        """Nothing answers, or only with errors."""
        cause = f"the store cannot be reached or does not work ({_first_line(str(error))})"
        place = f"{self.scheme}://{self.bucket}"
        return UserError(place, cause, "Check the network and the endpoint, then run again")


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "no details").rstrip(".")[:300]
