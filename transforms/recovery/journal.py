"""A journal of finished work, so that neither a retried bundle nor a resumed run repeats it.

A unit of work (a task, a merge, a shard) produces small elements that name files. When it is
finished, they are written to an *entry*: a file of the unit's own in the run's temporary folder.
Whoever comes later takes the elements of the entry if all of its files still exist, and does the
work otherwise.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from corpusmill.errors import UserError
from transforms.elements import Candidates, RejectsFile, Segment, WrittenFile
from transforms.storage.files import create_file, file_size, list_files, open_file

# An element, and the tag of the collection that it belongs to.
Output = tuple[str, Any]

_ELEMENTS: dict[str, Callable[..., Any]] = {
    kind.__name__: kind for kind in (Candidates, RejectsFile, Segment, WrittenFile)
}
_PREFIX = "done-"


def named_paths(outputs: Iterable[Output]) -> set[str]:
    """Return the files that elements name."""
    return {element.path for _, element in outputs if getattr(element, "path", "")}


class Journal:
    """The entries of a run.

    Args:
        temp_folder: temporary folder of the run.
    """

    def __init__(self, temp_folder: str) -> None:
        self._temp_folder = temp_folder

    def once(
        self,
        name: str,
        work: Callable[[], Iterable[Output]],
        list_paths: Callable[[Iterable[Output]], Iterable[str]] = named_paths,
    ) -> tuple[list[Output], bool]:
        """Return the outputs of a unit of work, and whether it was finished before.

        Args:
            name: name of the unit, such as "task-12".
            work: does the work; called only if it is not finished.
            list_paths: lists the files that the outputs refer to.
        """
        earlier = self._read_entry(name)
        if earlier is not None:
            return earlier, True
        outputs = list(work())
        sizes = {path: file_size(path) for path in sorted(list_paths(outputs))}
        content = {
            "files": sizes,
            "outputs": [(tag, type(element).__name__, element) for tag, element in outputs],
        }
        with create_file(self._path(name)) as stream:
            stream.write(json.dumps(content).encode())
        return outputs, False

    def _path(self, name: str) -> str:
        return str(FileSystems.join(self._temp_folder, f"{_PREFIX}{name}.json"))

    def _read_entry(self, name: str) -> list[Output] | None:
        try:
            with open_file(self._path(name)) as stream:
                content = json.loads(stream.read())
            # A machine that stopped may have kept a file's name, and lost its bytes.
            if any(file_size(file) != size for file, size in content["files"].items()):
                return None
        except (ValueError, OSError, BeamIOError):
            return None
        return [(tag, _decode(kind, value)) for tag, kind, value in content["outputs"]]


def count_finished(temp_folder: str) -> dict[str, int]:
    """Return how many units of each kind are finished.

    Example:
        {"task": 12, "shard": 3}
    """
    try:
        entries = list_files(str(FileSystems.join(temp_folder, f"{_PREFIX}*")))
    except (BeamIOError, UserError):
        return {}
    kinds: dict[str, int] = {}
    for path in entries:
        kind = path.rsplit(_PREFIX, 1)[1].removesuffix(".json").split("-", 1)[0]
        kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def _decode(kind: str, value: Any) -> Any:
    if kind in _ELEMENTS:
        return _ELEMENTS[kind](*value)
    return tuple(value) if kind == "tuple" else value
