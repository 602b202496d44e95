"""Temporary folders of runs, which carry a mark: without it no folder is ever removed."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

from corpusmill.errors import UserError, option
from corpusmill.location import TEMPORARY, Location
from transforms.storage.file_systems import split_path
from transforms.storage.files import locate, remove_folder, write_file

# Says into which output folder a run writes.
_MARK = "corpusmill-run.json"
_NAME = re.compile(rf"{TEMPORARY}[0-9a-f]{{32}}")


def make_temporary_folder(output: Location, temp_location: Location | None, name: str = "") -> str:
    """Make a new folder for one run, in the output folder or another one.

    Args:
        output: the output folder.
        temp_location: the other one.
        name: of the new folder; by default no other run has the same.

    Raises:
        UserError: it cannot be made.
    """
    name = name or f"{TEMPORARY}{uuid4().hex}"
    folder = (temp_location or output) / name
    flag = option("temp_location", temp_location) if temp_location else option("output", output)
    path = folder.local_path()
    made = [above for above in (path.parents if path else ()) if not above.exists()]
    try:
        if path:
            path.mkdir(parents=True)
        # A store has no folders; only a write shows whether one may write there.
        write_file((folder / _MARK).url, json.dumps({"output": output.url}).encode())
    except OSError as error:
        remove_folder(folder.url)
        with suppress(OSError):
            for above in made:
                above.rmdir()
        raise UserError(
            flag, f"no folder can be made there ({error})", "Give a folder you can write to"
        ) from None
    except UserError as error:
        raise UserError(flag, *error.args[1:]) from None
    return folder.url


def is_folder_of_run(folder: str, output: Location, temp_location: Location | None) -> bool:
    """Return whether a run into an output folder has made this temporary folder.

    Args:
        folder: the temporary folder, as a claim names it.
        output: the output folder.
        temp_location: where temporary folders are made; in the output folder by default.
    """
    if not is_place_of_run(folder, output, temp_location):
        return False
    mark = locate(folder).read_any(_MARK)
    try:
        return bool(json.loads(mark or b"")["output"] == output.url)
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def is_place_of_run(folder: str, output: Location, temp_location: Location | None) -> bool:
    """Return whether a run into an output folder would make this temporary folder.

    The arguments are those of `is_folder_of_run`.
    """
    parent, name = split_path(folder) if folder else ("", "")
    return bool(_NAME.fullmatch(name)) and parent in {output.url, (temp_location or output).url}


def is_removed(folder: str, output: Location, temp_location: Location | None) -> bool:
    """Return whether a run into an output folder has no temporary folder any more.

    The arguments are those of `is_folder_of_run`.
    """
    is_ours = is_place_of_run(folder, output, temp_location)
    return is_ours and locate(folder).read_any(_MARK) is None


def find_temporary_folders(names: Collection[str]) -> dict[str, int]:
    """Find the temporary folders of runs among the names of all files below an output folder.

    Returns:
        {folder: number of its files besides the mark}, where 0 means that the run has not begun to
        work.
    """
    marked = (name.removesuffix(f"/{_MARK}") for name in names if name.endswith(f"/{_MARK}"))
    files = Counter(name.split("/")[0] for name in names)
    return {folder: files[folder] - 1 for folder in marked if _NAME.fullmatch(folder)}


@contextmanager
def temporary_folder(output: Location, temp_location: Location | None) -> Iterator[str]:
    """Make a folder for a run that writes no data set, and remove it at the end of the block.

    Raises:
        UserError: it cannot be made.
    """
    parent = (temp_location or output).local_path()
    is_new = parent is not None and not parent.exists()
    folder = make_temporary_folder(output, temp_location)
    try:
        yield folder
    finally:
        remove_folder(folder)
        remove_empty_folders(output)
        if parent and is_new and not any(parent.iterdir()):
            parent.rmdir()


def remove_empty_folders(output: Location) -> None:
    """Remove temporary folders of earlier runs that have no files left, as after --replace."""
    root = output.local_path()
    for folder in root.glob(f"{TEMPORARY}*") if root else ():
        files = (path for path in folder.rglob("*") if path.is_file())
        if _NAME.fullmatch(folder.name) and all(path == folder / _MARK for path in files):
            shutil.rmtree(folder)
