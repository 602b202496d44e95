"""Temporary folders of runs, which carry a mark: without it no folder is ever removed."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from corpusmill.dataset.ownership import OwnFolder, read_mark
from corpusmill.errors import UserError, option
from corpusmill.location import TEMPORARY, Location
from transforms.recovery import Claim
from transforms.storage.file_systems import join_path, split_path
from transforms.storage.files import locate

_NAME = re.compile(rf"{TEMPORARY}[0-9a-f]{{32}}")


def new_folder(output: Location, temp_location: Location | None) -> str:
    """Return the path of a temporary folder that no other run has.

    Args:
        output: the output folder.
        temp_location: where the folder will be; in the output folder by default.
    """
    return join_path((temp_location or output).url, f"{TEMPORARY}{uuid4().hex}")


def folder_of_run(place: Location, output: Location) -> OwnFolder:
    """Return the temporary folder of a run that writes into an output folder."""
    return OwnFolder(place, {"output": output.url})


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


def is_folder_of_run(folder: str, output: Location, temp_location: Location | None) -> bool:
    """Return whether a run into an output folder has made this temporary folder.

    Args:
        folder: the temporary folder, as a claim in the output folder names it.
        output: the output folder.
        temp_location: where temporary folders are made; in the output folder by default.
    """
    return is_place_of_run(folder, output, temp_location) and (
        folder_of_run(locate(folder), output).is_there()
    )


def is_place_of_run(folder: str, output: Location, temp_location: Location | None) -> bool:
    """Return whether a run into an output folder would make this temporary folder.

    The arguments are those of `is_folder_of_run`.
    """
    parent, name = split_path(folder) if folder else ("", "")
    return bool(_NAME.fullmatch(name)) and parent in {output.url, (temp_location or output).url}


def has_mark(folder: str) -> bool:
    """Return whether a folder is the temporary one of any run."""
    return read_mark(locate(folder)) is not None


def name_of_folder(claim: Claim) -> str:
    """Return the name of the temporary folder that a claim names; empty where it is no such name.

    A folder of this name beside the claim belongs to the claim's run: the temporary folder itself,
    or one for copies from another disk.
    """
    name = split_path(claim.temp_folder)[1] if claim.temp_folder else ""
    return name if _NAME.fullmatch(name) else ""


@contextmanager
def temporary_folder(output: Location, temp_location: Location | None) -> Iterator[str]:
    """Make a folder for a run that writes no data set, and remove it at the end of the block.

    Raises:
        UserError: it cannot be made.
    """
    folder = OwnFolder(locate(new_folder(output, temp_location)), {"output": ""})
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
