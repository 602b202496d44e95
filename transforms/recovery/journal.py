"""A journal of finished work, so that neither a retried bundle nor a resumed run repeats it.

A unit of work (a task, a merge, a shard) produces small elements that name files. When it is
finished, they are written to an *entry*: a file of the unit's own in the run's temporary folder.
Whoever comes later takes the elements of the entry if all of its files still hold what was written,
and does the work otherwise.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

from corpusmill.errors import UserError
from transforms.elements import Candidates, LinesFile, ReadRange, Segment, WrittenFile
from transforms.recovery.workplace import Workplace
from transforms.storage.checksums import DamagedFileError, are_intact, has_digest, seal, unseal
from transforms.storage.file_systems import join_path, split_path
from transforms.storage.files import list_folder, open_file, write_file

# An element, and the tag of the collection that it belongs to.
Output = tuple[str, Any]

_ELEMENTS: dict[str, Callable[..., Any]] = {
    kind.__name__: kind for kind in (Candidates, ReadRange, LinesFile, Segment, WrittenFile)
}
_PREFIX = "done-"


def _are_intact(outputs: Iterable[Output]) -> bool:
    """Return whether the files that elements name are there and hold what was written."""
    elements = [element for _, element in outputs]
    files = [element for element in elements if isinstance(element, WrittenFile | LinesFile)]
    parts = [part for element in elements for part in getattr(element, "parts", ()) if part.path]
    return are_intact(parts) and all(
        has_digest(file.path, file.bytes, file.sha256) for file in files
    )


class Journal:
    """The entries of a run.

    Args:
        place: where the run works.
    """

    def __init__(self, place: Workplace) -> None:
        self._place = place

    def once(
        self,
        name: str,
        work: Callable[[], Iterable[Output]],
        is_intact: Callable[[Iterable[Output]], bool] = _are_intact,
    ) -> tuple[list[Output], bool]:
        """Return the outputs of a unit of work, and whether it was finished before.

        There are none if the run is over.

        Args:
            name: name of the unit, such as "task-12".
            work: does the work; called only if it is not finished.
            is_intact: says whether the files that the outputs name hold what was written.
        """
        if self._place.is_over():
            return [], True
        earlier = self._read_entry(name, is_intact)
        if earlier is not None:
            return earlier, True
        with self._place.at_work():
            outputs = list(work())
            entry = [(tag, type(element).__name__, element) for tag, element in outputs]
            write_file(self._path(name), seal(json.dumps(entry).encode()))
        return outputs, False

    def _path(self, name: str) -> str:
        return join_path(self._place.temp_folder, f"{_PREFIX}{name}.json")

    def _read_entry(
        self, name: str, is_intact: Callable[[Iterable[Output]], bool]
    ) -> list[Output] | None:
        path = self._path(name)
        try:
            with open_file(path) as stream:
                entry = json.loads(unseal(stream.read(), path))
            outputs = [(tag, _decode(kind, value)) for tag, kind, value in entry]
            # A machine that stopped may have kept a file's name, and lost its bytes.
            return outputs if is_intact(outputs) else None
        except (OSError, DamagedFileError):
            return None


def count_finished(temp_folder: str) -> dict[str, int]:
    """Return how many units of each kind are finished.

    Example:
        {"task": 12, "shard": 3}
    """
    try:
        return count_entries(list_folder(temp_folder))
    except (OSError, UserError):
        return {}


def count_entries(paths: Iterable[str]) -> dict[str, int]:
    """Return how many entries of each kind are among the files of a run, as `count_finished`."""
    kinds: dict[str, int] = {}
    for path in paths:
        name = split_path(path)[1]
        if name.startswith(_PREFIX):
            kind = name.removeprefix(_PREFIX).removesuffix(".json").split("-", 1)[0]
            kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def _decode(kind: str, value: Any) -> Any:
    if kind in _ELEMENTS:
        return _ELEMENTS[kind](*value)
    return tuple(value) if kind == "tuple" else value
