"""Make a data set of finished files: the step of the commit that others see.

An attempt at the commit may be killed at any moment and made again, and on an engine that lost
sight of it, it may still run while another attempt is made. So each step does no harm if it has
been done before, and nothing is removed, not even for a moment, that another attempt may just have
put there.
"""

from collections.abc import Iterable, Mapping, Sequence
from uuid import uuid4

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from corpusmill.dataset.manifest import SUCCESS
from transforms.recovery.publish import Move, publish, transfer_folder
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
        output: folder of the data set.
        temp_folder: folder in which further files are prepared.
        moves: the large files.
        contents: {name: content} of the small files, in the order in which they are written; the
            last is `_SUCCESS`.
        stale: names of the files of an earlier data set, which are removed unless they are
            replaced.

    Raises:
        RuntimeError: a large file has neither its temporary nor its final name.
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
        for folder in {str(transfer_folder(move)) for move in moves} - {temp_folder}:
            remove_folder(folder)


def _remove_seal(output: str, temp_folder: str, ours: bytes) -> None:
    """Remove the `_SUCCESS` of another data set; our own means that an attempt came this far."""
    seal = _final(output, SUCCESS)
    if _read(seal) in {None, ours}:
        return
    aside = _new_path(temp_folder)
    if FileSystems.get_scheme(seal) != FileSystems.get_scheme(aside) or is_object_path(seal):
        delete_files([seal])
        return
    try:
        FileSystems.rename([seal], [aside])
    except BeamIOError:
        if not file_exists(temp_folder):
            raise
        delete_files([seal])  # the temporary folder is on another disk
        return
    # Another attempt may just have put ours there.
    if _read(aside) == ours:
        FileSystems.rename([aside], [seal])


def _write(path: str, temp_folder: str, content: bytes) -> None:
    if is_object_path(path):
        write_file(path, content)
        return
    # A name of this attempt's own: another attempt may be writing the same file.
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
