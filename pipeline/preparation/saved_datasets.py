"""Folders that `datasets.Dataset.save_to_disk` of Hugging Face wrote: which files hold the data."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from corpusmill.errors import UserError

_STATE, _INFO, _SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"


def choose_data_files(
    given: str, sizes: Mapping[str, int], read_bytes: Callable[[str], bytes | None]
) -> dict[str, int]:
    """Only the files that hold the data, where a folder is such a data set.

    Other Arrow files in it are caches of what was once computed from the data.

    Args:
        given: what the user named.
        sizes: size of each file found there, by its path.
        read_bytes: reads a small file.

    Returns:
        Some of the sizes; all of them where this is no such folder.

    Raises:
        UserError: it holds several splits, or is not whole.
    """
    folder = _common_folder(sizes)
    splits = f"{folder}/{_SPLITS}"
    if splits in sizes:
        names = _read(given, splits, read_bytes).get("splits", [])
        if len(names) != 1:
            cause = f"it is a data set with {len(names)} splits: {', '.join(names) or 'none'}"
            example = f"{given.rstrip('/')}/{'train' if 'train' in names else [*names, 'split'][0]}"
            raise UserError(f"--input {given}", cause, f"Give the folder of one, say {example}")
        folder = f"{folder}/{names[0]}"
    state = f"{folder}/{_STATE}"
    if state not in sizes or f"{folder}/{_INFO}" not in sizes:
        return dict(sizes)
    content = _read(given, state, read_bytes)
    if content.get("_indices_data_files"):
        cause = f"{state} refers to a choice of rows, which early releases of datasets kept apart"
        raise UserError(f"--input {given}", cause, "Load it and save it again with a newer one")
    paths = [f"{folder}/{of['filename']}" for of in content.get("_data_files", [])]
    missing = [path for path in paths if path not in sizes]
    if missing or not paths:
        cause = f"{state} lists {missing[0]}, which is not there" if missing else "it has no rows"
        raise UserError(f"--input {given}", cause, "Save the data set again")
    return {path: sizes[path] for path in paths}


def _common_folder(sizes: Mapping[str, int]) -> str:
    """The folder nearest to the root that holds a file of them."""
    return min((path.rsplit("/", 1)[0] for path in sizes), key=lambda path: path.count("/"))


def _read(given: str, path: str, read_bytes: Callable[[str], bytes | None]) -> Any:
    try:
        return json.loads(read_bytes(path) or b"")
    except ValueError as error:
        raise UserError(
            f"--input {given}", f"{path} is no JSON ({error})", "Save the data set again"
        ) from None
