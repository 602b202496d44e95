"""The interface of a bucket in an object store."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar, Literal, NamedTuple, Protocol

from corpusmill.errors import OutageError, UserError

# What an error of a store's client means, or its cause and its cure.
Fault = (
    Literal["refused", "no bucket", "no object", "exists", "out of reach", "not taken"]
    | tuple[str, str]
)


class ListedFile(NamedTuple):
    """A file or object that exists.

    Attributes:
        path: path of the file.
        bytes: size of the file.
        modified: when it was written, in seconds since 1970; 0 if this is not known.
    """

    path: str
    bytes: int
    modified: float


class Upload(Protocol):
    """An object that is written in parts; nobody sees it before `close`.

    Its methods raise the errors of the store's client (see `Store.explained`).
    """

    def write(self, part: bytes) -> object:
        """Send the next part."""

    def close(self) -> None:
        """Make the object visible."""

    def terminate(self) -> None:
        """Remove the parts."""


class Store(ABC):
    """A bucket.

    Every method raises UserError if the bucket does not exist or refuses, OutageError if it cannot
    be reached, and FileNotFoundError if an object that it reads does not exist. Each request that
    meets a temporary fault is made again (`corpusmill.outages`).

    Args:
        bucket: name of the bucket.

    Attributes:
        scheme: scheme of the paths, such as "gs".
        deletes_per_request: largest number of objects that one request deletes.
        log_in: how the user makes credentials known.
        bucket: name of the bucket.
        has_credentials: whether credentials were found.
    """

    scheme: ClassVar[str]
    deletes_per_request: ClassVar[int]
    log_in: ClassVar[str]

    def __init__(self, bucket: str) -> None:
        self.bucket = bucket
        self.has_credentials = True

    def path(self, name: str) -> str:
        """Return the full path of an object."""
        return f"{self.scheme}://{self.bucket}/{name}"

    @abstractmethod
    def find(self, name: str) -> ListedFile:
        """Find an object by its name."""

    @abstractmethod
    def read(self, name: str, start: int, end: int) -> bytes:
        """Read the bytes of an object from `start` to `end`, exclusive; at least one byte."""

    @abstractmethod
    def list(self, prefix: str) -> Iterator[ListedFile]:
        """List the objects whose names begin with a prefix, sorted by name."""

    @abstractmethod
    def read_tagged(self, name: str) -> tuple[bytes | None, str]:
        """Read a small object, with its tag for `put`; None and "" if there is none."""

    @abstractmethod
    def put(self, name: str, content: bytes, tag: str | None = None) -> None:
        """Write a small object in one request; an object of this name is replaced atomically.

        Args:
            name: name of the object.
            content: the whole content.
            tag: what the object must have that is replaced; of two writers at once only one
                succeeds. Empty if the name must be free, None to replace whatever has it.

        Raises:
            FileExistsError: the name is not free, or has another tag. This very call may have
                written the object, if the store's answer was lost.
            FileNotFoundError: the object that was to be replaced is gone.
        """

    def exchange(self, name: str, content: bytes, old: bytes | None) -> bool:
        """Write a small object in place of one that holds `old` (`Location.exchange`)."""
        held, tag = self.read_tagged(name)
        if held == old and held != content:
            try:
                self.put(name, content, tag)
            except (FileExistsError, FileNotFoundError):
                # Another writer was faster, or the answer to our own first attempt was lost.
                held = self.read_tagged(name)[0]
            else:
                return True
        return held == content

    @abstractmethod
    def begin_upload(self, name: str, new: bool = False) -> Upload:
        """Begin to write a large object.

        Args:
            name: name of the object.
            new: whether the name must be free when the object becomes visible; a FileExistsError
                says that it is not, as of `put`.
        """

    @abstractmethod
    def delete(self, names: Sequence[str]) -> None:
        """Delete objects, `deletes_per_request` at most; names without an object are ignored."""

    def abort_uploads(self, prefix: str) -> None:  # noqa: B027  most stores have nothing to do
        """Remove the parts that dead writers left for objects whose names begin with a prefix."""

    @abstractmethod
    def classify(self, error: Exception) -> Fault | None:
        """Say what an error of the store's client means; None for any other error."""

    @contextmanager
    def explained(self, name: str, missing: Fault = "no object") -> Iterator[None]:
        """Turn the errors of the store's client into those that the class promises.

        Args:
            name: name of the object that the block works on.
            missing: what is missing if the store says that something is.
        """
        try:
            yield
        except (UserError, FileNotFoundError, FileExistsError):
            raise
        except Exception as error:
            fault = self.classify(error)
            if fault is None:
                raise
            fault = missing if fault == "no object" else fault
            raise self.explain(fault, name, str(error)) from error

    def explain(self, fault: Fault, name: str, details: str = "") -> Exception:
        """Make the error that says what is wrong with an object or its bucket."""
        path, bucket = self.path(name), f"{self.scheme}://{self.bucket}"
        details = next(iter(details.strip().splitlines()), "no details").rstrip(".")[:300]
        match fault:
            case "no object":
                error: Exception = FileNotFoundError(2, "No such object", path)
            case "exists":
                error = FileExistsError(17, "Object exists", path)
            case "no bucket":
                cause = f"there is no bucket {self.bucket}"
                error = UserError(bucket, cause, "Check its name, or create it")
            case "out of reach":
                cause = f"the store cannot be reached or does not work ({details})"
                cure = "Check the network and the endpoint, then run again"
                error = OutageError(bucket, cause, cure)
            case "not taken":
                cause = f"the store does not take the request ({details})"
                error = UserError(path, cause, "Check the name, the endpoint and the options")
            case "refused":
                error = UserError(path, *self._explain_refusal(details))
            case _:
                error = UserError(path, *fault)
        return error

    def _explain_refusal(self, details: str) -> tuple[str, str]:
        if not self.has_credentials:
            cause = "no credentials were found on this machine, and it is not public"
            return cause, self.log_in
        cure = "Ask for permission to list, read and write objects there, or use other credentials"
        return f"access is denied ({details})", cure
