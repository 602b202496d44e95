"""Make a data set of finished files: the step of the commit that others see.

An attempt at the commit may be killed at any moment and made again, and on an engine that lost
sight of it, it may still run while another attempt is made. So each step does no harm if it has
been done before, and nothing is removed, not even for a moment, that another attempt may just have
put there.

A data set in the folder stays whole until the new one is, which is first complete in a folder of
its own, a *generation*. One write to `_SUCCESS` passes the readers on to it. Then the files of the
old data set are replaced, and at last the generation is removed.
"""

from collections.abc import Iterable, Mapping, Sequence

from apache_beam.io.filesystems import FileSystems

from corpusmill.dataset.generations import generation_of, is_generation, refer_to
from corpusmill.dataset.manifest import SUCCESS
from transforms.recovery.publish import Move, duplicate, publish, transfer_folder
from transforms.storage.files import (
    delete_files,
    file_exists,
    new_path,
    read_file,
    remove_folder,
    write_file,
)
from transforms.storage.objects import is_object_path


def reveal(
    output: str,
    temp_folder: str,
    moves: Sequence[Move],
    contents: Mapping[str, bytes],
    stale: Iterable[str],
) -> None:
    """Make a data set of finished files; readers see the old one or the new one at every moment.

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
    ours = contents[SUCCESS]
    generations = {generation_of(ours), *filter(is_generation, (n.split("/")[0] for n in stale))}
    if _read(_final(output, SUCCESS)) not in {None, ours}:
        _complete(output, temp_folder, moves, contents)
    final = {*(_final(output, name) for name in contents), *(move.destination for move in moves)}
    _make_folders(final)
    files = (name for name in stale if name.split("/")[0] not in generations)
    delete_files(sorted({_final(output, name) for name in files} - final))
    publish(moves)
    _write_all(output, temp_folder, contents)
    for generation in sorted(generations):
        remove_folder(_final(output, generation))
    if not is_object_path(output):
        for folder in {str(transfer_folder(move)) for move in moves} - {temp_folder}:
            remove_folder(folder)


def _complete(
    output: str, temp_folder: str, moves: Sequence[Move], contents: Mapping[str, bytes]
) -> None:
    """Complete the new data set in a generation, and pass readers on to it."""
    ours = contents[SUCCESS]
    root, begin = _final(output, generation_of(ours)), len(_final(output, "x")) - 1
    copies = [move._replace(destination=_final(root, move.destination[begin:])) for move in moves]
    _make_folders({*(_final(root, name) for name in contents), *(m.destination for m in copies)})
    duplicate(copies)
    _write_all(root, temp_folder, contents)
    # Another attempt may be through.
    if _read(_final(output, SUCCESS)) != ours:
        _write(_final(output, SUCCESS), temp_folder, refer_to(ours))


def _write_all(folder: str, temp_folder: str, contents: Mapping[str, bytes]) -> None:
    """Write the small files that a folder lacks, in their order."""
    for name, content in contents.items():
        if _read(_final(folder, name)) != content:
            _write(_final(folder, name), temp_folder, content)


def _write(path: str, temp_folder: str, content: bytes) -> None:
    if is_object_path(path):
        write_file(path, content)
        return
    # A name of this attempt's own: another attempt may be writing the same file.
    temporary = new_path(temp_folder, "commit")
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
        return read_file(path)
    except OSError:
        if file_exists(path):
            raise
        return None


def _final(output: str, name: str) -> str:
    return str(FileSystems.join(output, *name.split("/")))
