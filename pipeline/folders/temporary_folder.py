"""Temporary folders of runs, which carry a mark: without it no folder is ever removed."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from corpusmill.dataset.ownership import OwnFolder
from corpusmill.errors import UserError, option
from corpusmill.location import TEMPORARY, Location
from transforms.storage.file_systems import join_path
from transforms.storage.files import locate


def new_folder(parent: Location) -> str:
    """Return the path of a temporary folder in another one that no other run has."""
    return join_path(parent.url, f"{TEMPORARY}{uuid4().hex}")


def make_temporary_folder(
    folder: OwnFolder, output: Location, temp_location: Location | None
) -> None:
    """Make a folder for one run, in the output folder or another one, unless it exists.

    Args:
        folder: the folder.
        output: the output folder.
        temp_location: the other one.

    Raises:
        UserError: it cannot be made, or something that is not ours is in its place.
    """
    flag = option("temp_location", temp_location) if temp_location else option("output", output)
    made = list_missing(folder.place)[1:]
    try:
        folder.make()
    except FileExistsError:
        if not folder.is_there():
            cause = f"a folder {folder.place} is there, which is not ours"
            raise UserError(flag, cause, "Move it away") from None
    except OSError as error:
        folder.discard()
        remove_empty(made)
        raise UserError(
            flag,
            f"no folder can be made there ({error.strerror})",
            "Give a folder you can write to",
        ) from None
    except UserError as error:
        raise error.about(flag) from None


@contextmanager
def temporary_folder(output: Location, temp_location: Location | None) -> Iterator[str]:
    """Make a folder for a run that writes no data set, and remove it at the end of the block.

    Raises:
        UserError: it cannot be made.
    """
    folder = OwnFolder(locate(new_folder(temp_location or output)), {"output": ""})
    with empty_again(temp_location or output):
        make_temporary_folder(folder, output, temp_location)
        try:
            yield folder.place.url
        finally:
            folder.discard()


@contextmanager
def empty_again(folder: Location) -> Iterator[None]:
    """Remove a folder at the end of a block, if the block has made it and left it empty."""
    missing = list_missing(folder)
    try:
        yield
    finally:
        remove_empty(missing)


def list_missing(folder: Location) -> list[Path]:
    """List a folder of this machine and those around it that do not exist, the innermost first."""
    path = folder.local_path()
    return [each for each in (path, *path.parents) if not each.exists()] if path else []


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove folders that are empty."""
    for folder in folders:
        with suppress(OSError):  # it is not, or was not made
            folder.rmdir()
