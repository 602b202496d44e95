"""Finished files to a data set: the step of the commit that others see.

An attempt at it may be killed at any moment and made again, and on an engine that lost sight of it
it may still go on while another one is made. So each step does no harm where it has been done, and
nothing is taken away, not even for a moment, that another attempt may just have put there.
"""

from collections.abc import Iterable, Mapping, Sequence
from uuid import uuid4

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from corpusmill.dataset.manifest import SUCCESS
from transforms.recovery.publish import Move, beside, publish
from transforms.storage.files import delete_files, file_exists, open_file, remove_folder, write_file
from transforms.storage.objects import is_object_path


def reveal(
    output: str,
    temp_folder: str,
    moves: Sequence[Move],
    contents: Mapping[str, bytes],
    stale: Iterable[str],
) -> None:
    """Make a data set of finished files; whoever sees `_SUCCESS` sees all of it.

    Args:
        output: the data set's folder.
        temp_folder: where further files are prepared.
        moves: the large files.
        contents: the small ones by their names, in the order in which they are written; the last is
            `_SUCCESS`.
        stale: files of an earlier data set; those that do not come again are removed.

    Raises:
        RuntimeError: a large file is neither under its temporary nor under its final name.
    """
    _remove_seal(output, temp_folder, contents[SUCCESS])
    final = {*(_final(output, name) for name in contents), *(move.destination for move in moves)}
    _make_folders(final)
    delete_files(sorted({_final(output, name) for name in stale} - final))
    publish(moves)
    for name, content in contents.items():
        if _read(_final(output, name)) != content:
            _write(_final(output, name), temp_folder, content)
    if not is_object_path(output):
        for folder in {str(beside(move)) for move in moves} - {temp_folder}:
            remove_folder(folder)


def _remove_seal(output: str, temp_folder: str, ours: bytes) -> None:
    """Remove the `_SUCCESS` of another data set; our own says that an attempt had come so far."""
    seal = _final(output, SUCCESS)
    if _read(seal) in {None, ours}:
        return
    taken = _new_path(temp_folder)
    if FileSystems.get_scheme(seal) != FileSystems.get_scheme(taken) or is_object_path(seal):
        delete_files([seal])
        return
    try:
        FileSystems.rename([seal], [taken])
    except BeamIOError:
        if not file_exists(temp_folder):
            raise
        delete_files([seal])  # the temporary folder is on another disk
        return
    # Another attempt may just have put ours there.
    if _read(taken) == ours:
        FileSystems.rename([taken], [seal])


def _write(path: str, temp_folder: str, content: bytes) -> None:
    if is_object_path(path):
        write_file(path, content)
        return
    # A name of this attempt's own: another one may be writing the same file.
    temporary = _new_path(temp_folder)
    write_file(temporary, content)
    publish([Move(temporary, path, len(content))])


def _make_folders(files: Iterable[str]) -> None:
    for folder in sorted({str(FileSystems.split(file)[0]) for file in files}):
        if is_object_path(folder) or FileSystems.exists(folder):
            continue
        try:
            FileSystems.mkdirs(folder)
        except OSError:  # another attempt may have made it
            if not FileSystems.exists(folder):
                raise


def _read(path: str) -> bytes | None:
    try:
        with open_file(path) as stream:
            return stream.read()
    except OSError:
        if file_exists(path):
            raise
        return None


def _final(output: str, name: str) -> str:
    return str(FileSystems.join(output, *name.split("/")))


def _new_path(temp_folder: str) -> str:
    return str(FileSystems.join(temp_folder, f"commit-{uuid4().hex}"))
