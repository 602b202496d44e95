"""Finds the data files in folders that Hugging Face's `Dataset.save_to_disk` wrote."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from corpusmill.errors import UserError

_STATE, _INFO, _SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"


def choose_data_files(
    path: str, sizes: Mapping[str, int], read_bytes: Callable[[str], bytes | None]
) -> dict[str, int]:
    """Choose the files with the data if a folder is such a data set.

    Other Arrow files in it are caches of what was once computed from the data.

    Args:
        path: the input, as the user named it.
        sizes: the size of each of its files, by path.
        read_bytes: reads a small file.

    Returns:
        The sizes of the chosen files; all sizes if the folder is not such a data set.

    Raises:
        UserError: the data set has several splits, or is incomplete.
    """
    folder = _common_folder(sizes)
    splits = f"{folder}/{_SPLITS}"
    if splits in sizes:
        names = _read(path, splits, read_bytes).get("splits", [])
        if len(names) != 1:
            cause = f"it is a data set with {len(names)} splits: {', '.join(names) or 'none'}"
            name = "train" if "train" in names else [*names, "split"][0]
            cure = f"Give the folder of one split, such as {path.rstrip('/')}/{name}"
            raise UserError(f"--input {path}", cause, cure)
        folder = f"{folder}/{names[0]}"
    state = f"{folder}/{_STATE}"
    if state not in sizes or f"{folder}/{_INFO}" not in sizes:
        return dict(sizes)
    content = _read(path, state, read_bytes)
    if content.get("_indices_data_files"):
        cause = f"{state} refers to a selection of rows in a file of its own, as old releases of "
        cause += "datasets saved it"
        raise UserError(f"--input {path}", cause, "Load and save it again with a newer release")
    files = [f"{folder}/{entry['filename']}" for entry in content.get("_data_files", [])]
    missing = [file for file in files if file not in sizes]
    if missing or not files:
        cause = f"{state} lists {missing[0]}, which is missing" if missing else "it has no rows"
        raise UserError(f"--input {path}", cause, "Save the data set again")
    return {file: sizes[file] for file in files}


def _common_folder(sizes: Mapping[str, int]) -> str:
    """Return the folder nearest to the root that has one of the files."""
    return min((file.rsplit("/", 1)[0] for file in sizes), key=lambda file: file.count("/"))


def _read(path: str, file: str, read_bytes: Callable[[str], bytes | None]) -> Any:
    try:
        return json.loads(read_bytes(file) or b"")
    except ValueError as error:
        raise UserError(
            f"--input {path}", f"{file} is not valid JSON ({error})", "Save the data set again"
        ) from None
