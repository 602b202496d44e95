"""Finds the data files in folders that Hugging Face's `Dataset.save_to_disk` wrote."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from corpusmill.errors import UserError
from transforms.storage.store import StoredFile

_STATE, _INFO, _SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"


def choose_data_files(
    path: str, files: Mapping[str, StoredFile], read_bytes: Callable[[str], bytes | None]
) -> dict[str, StoredFile]:
    """Choose the files with the data if a folder is such a data set.

    Other Arrow files in it are caches of what was once computed from the data.

    Args:
        path: the input, as the user named it.
        files: what is known of each of its files, by path.
        read_bytes: reads a small file.

    Returns:
        The chosen files; all of them if the folder is not such a data set.

    Raises:
        UserError: the data set has several splits, or is incomplete.
    """
    folder = _common_folder(files)
    splits = f"{folder}/{_SPLITS}"
    if splits in files:
        names = _read(path, splits, read_bytes).get("splits", [])
        if len(names) != 1:
            cause = f"it is a data set with {len(names)} splits: {', '.join(names) or 'none'}"
            name = "train" if "train" in names else [*names, "split"][0]
            cure = f"Give the folder of one split, such as {path.rstrip('/')}/{name}"
            raise UserError(f"--input {path}", cause, cure)
        folder = f"{folder}/{names[0]}"
    state = f"{folder}/{_STATE}"
    if state not in files or f"{folder}/{_INFO}" not in files:
        return dict(files)
    content = _read(path, state, read_bytes)
    if content.get("_indices_data_files"):
        cause = f"{state} refers to a selection of rows in a file of its own, as old releases of "
        cause += "datasets saved it"
        raise UserError(f"--input {path}", cause, "Load and save it again with a newer release")
    listed = [f"{folder}/{entry['filename']}" for entry in content.get("_data_files", [])]
    missing = [file for file in listed if file not in files]
    if missing or not listed:
        cause = f"{state} lists {missing[0]}, which is missing" if missing else "it has no rows"
        raise UserError(f"--input {path}", cause, "Save the data set again")
    return {file: files[file] for file in listed}


def _common_folder(files: Iterable[str]) -> str:
    """Return the folder nearest to the root that has one of the files."""
    return min((file.rsplit("/", 1)[0] for file in files), key=lambda file: file.count("/"))


def _read(path: str, file: str, read_bytes: Callable[[str], bytes | None]) -> Any:
    try:
        return json.loads(read_bytes(file) or b"")
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"--input {path}", f"{file} is not valid JSON ({error})", "Save the data set again"
        ) from None
