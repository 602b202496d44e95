"""What is finished, so that it is not done again: by a retried bundle, or by a run that goes on.

A unit of work (a task, a group, a shard) gives small elements that name files. When it is finished
they are written to a file of the unit's own, its *entry*, in the run's temporary folder. Whoever
finds an entry whose files are all there gives what it says, and works otherwise.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from corpusmill.errors import UserError
from transforms.elements import Candidates, RejectsFile, Segment, WrittenFile
from transforms.storage.files import create_file, find_file, list_files, open_file

# An element, and the tag of the collection that it belongs to.
Output = tuple[str, Any]

_ELEMENTS: dict[str, Callable[..., Any]] = {
    of.__name__: of for of in (Candidates, RejectsFile, Segment, WrittenFile)
}
_PREFIX = "done-"


def paths_of(outputs: Iterable[Output]) -> set[str]:
    """The files that elements name."""
    return {element.path for _, element in outputs if getattr(element, "path", "")}


class Journal:
    """The entries of a run.

    Args:
        temp_folder: of the run.
    """

    def __init__(self, temp_folder: str) -> None:
        self._temp_folder = temp_folder

    def once(
        self,
        name: str,
        work: Callable[[], Iterable[Output]],
        files_of: Callable[[Iterable[Output]], Iterable[str]] = paths_of,
    ) -> tuple[list[Output], bool]:
        """What a unit of work gives, and whether it was found finished.

        Args:
            name: of the unit, such as "task-12".
            work: does it; only where it is not finished.
            files_of: the files that the outputs refer to.
        """
        found = self._find(name)
        if found is not None:
            return found, True
        outputs = list(work())
        sizes = {path: _size_of(path) for path in sorted(files_of(outputs))}
        content = {"files": sizes, "outputs": [_encode(output) for output in outputs]}
        with create_file(self._path(name)) as stream:
            stream.write(json.dumps(content).encode())
        return outputs, False

    def _path(self, name: str) -> str:
        return str(FileSystems.join(self._temp_folder, f"{_PREFIX}{name}.json"))

    def _find(self, name: str) -> list[Output] | None:
        path = self._path(name)
        try:
            with open_file(path) as stream:
                content = json.loads(stream.read())
            # A machine that stopped may have kept a file's name, and lost its bytes.
            if any(_size_of(file) != size for file, size in content["files"].items()):
                return None
        except (ValueError, OSError, BeamIOError):
            return None
        return [_decode(output) for output in content["outputs"]]


def count_finished(temp_folder: str) -> dict[str, int]:
    """How many units of each kind are finished.

    Example:
        {"task": 12, "shard": 3}
    """
    try:
        found = list_files(str(FileSystems.join(temp_folder, f"{_PREFIX}*")))
    except (BeamIOError, UserError):
        return {}
    kinds: dict[str, int] = {}
    for path in found:
        kind = path.rsplit(_PREFIX, 1)[1].removesuffix(".json").split("-", 1)[0]
        kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def _size_of(path: str) -> int:
    return find_file(path).bytes


def _encode(output: Output) -> list[Any]:
    tag, element = output
    return [tag, type(element).__name__, element]


def _decode(output: list[Any]) -> Output:
    tag, kind, value = output
    if kind in _ELEMENTS:
        return tag, _ELEMENTS[kind](*value)
    return tag, tuple(value) if kind == "tuple" else value
