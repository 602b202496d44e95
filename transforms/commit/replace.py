"""Make a data set of finished files: the steps of the commit that others see.

An attempt at a step may be killed at any moment and made again, and on an engine that lost sight of
it, it may still run while another attempt is made, or while later steps are. So each does no harm
if it has been done before, and nothing is removed, not even for a moment, that another attempt may
just have put there.

What is added to a data set is moved beside its files, which nobody reads before the manifest names
them; then readers are passed on to the small files of the new one.

A data set in the folder stays whole until the new one is, which is first complete in a folder of
its own, a *generation*. One write to `_SUCCESS` passes the readers on to it. Then the files of the
old data set are replaced, and at last the generation is removed.

Copying and moving can be done by several tasks, each with some of the files; each step begins when
the one before has ended.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from apache_beam.io.filesystems import FileSystems

from corpusmill.dataset.manifest import MANIFEST, SUCCESS
from corpusmill.dataset.ownership import delete_own, names_in, remove_generation, remove_named
from corpusmill.dataset.shards import generation_of, refer_to
from corpusmill.errors import UserError, option
from transforms.commit.rename import Move, duplicate, publish
from transforms.storage.file_systems import join_path, split_path
from transforms.storage.files import locate, new_path, read_existing, write_file
from transforms.storage.objects import is_object_path


def reveal(
    output: str,
    temp_folder: str,
    moves: Sequence[Move],
    contents: Mapping[str, bytes],
    stale: Iterable[str],
    appends: bool = False,
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
        appends: whether the files are added to those of the earlier data set.

    Raises:
        RuntimeError: a large file has neither its temporary nor its final name.
    """
    steps, stale = Reveal(output, temp_folder, contents[SUCCESS], appends), list(stale)
    steps.record(moves, contents, stale)
    steps.copy(moves)
    steps.pass_on(contents)
    steps.move(moves, steps.list_removed(stale, moves, contents))
    steps.finish(contents)


@dataclass(frozen=True)
class Reveal:
    """The steps of `reveal`.

    Attributes:
        output: folder of the data set.
        temp_folder: folder in which further files are prepared.
        seal: the content of the data set's `_SUCCESS`.
        appends: whether files are added to those of an earlier data set.
    """

    output: str
    temp_folder: str
    seal: bytes
    appends: bool = False

    def record(
        self, moves: Sequence[Move], contents: Mapping[str, bytes], stale: Iterable[str]
    ) -> None:
        """Write the manifest, by which the files are known as ours before they are there.

        Beside a whole data set it is in the generation, and otherwise in its final place.

        Args:
            moves: the large files.
            contents: {name: content} of the small files.
            stale: names of the files of an earlier data set.

        Raises:
            UserError: a file that is not ours is in the place of a new one.
        """
        folder = self._generation if self._is_replacing() else self.output
        # Another attempt may already have written the record, and what it lists after that.
        listed = locate(self.output).list()
        if read_existing(_final(folder, MANIFEST)) == contents[MANIFEST]:
            return
        begin = len(_final(self.output, "x")) - 1
        names = {*contents, *(move.destination[begin:] for move in moves)}
        owned = {*stale} | names_in(locate(self.output))
        if foreign := sorted((names & listed.keys()) - owned):
            cause = f"it has a file {foreign[0]} that is not ours, in the place of a new one"
            raise UserError(option("output", self.output), cause, "Move that file away")
        _make_folders({_final(folder, MANIFEST)})
        self._write(_final(folder, MANIFEST), contents[MANIFEST])

    def copy(self, moves: Sequence[Move]) -> None:
        """Copy large files into the generation, if an earlier data set is to be replaced.

        Files that are added take no place of others, and get their final names now.
        """
        if self.appends:
            publish_files(moves, self._scratch)
            return
        if not self._is_replacing():
            return
        begin = len(_final(self.output, "x")) - 1
        copies = [
            move._replace(destination=_final(self._generation, move.destination[begin:]))
            for move in moves
        ]
        _make_folders({move.destination for move in copies})
        duplicate(copies, self._scratch)
        # Another attempt may have finished meanwhile, and nobody else would remove the copies.
        if self._is_finished():
            self._remove_generation(None)

    def pass_on(self, contents: Mapping[str, bytes]) -> None:
        """Complete the generation, and pass readers on to it, if a data set is to be replaced."""
        if not self._is_replacing():
            return
        _make_folders({_final(self._generation, name) for name in contents})
        self._write_all(self._generation, contents)
        if not self._is_finished():
            self._write(_final(self.output, SUCCESS), refer_to(self.seal))
        # An attempt that finished just before that write has removed the generation. The manifest
        # is the last file before `_SUCCESS`.
        if read_existing(_final(self.output, MANIFEST)) == contents[MANIFEST]:
            self._write(_final(self.output, SUCCESS), self.seal)

    def move(self, moves: Sequence[Move], removed: Sequence[str]) -> None:
        """Give large files their final names, unless they have been added by `copy`.

        Args:
            moves: the files.
            removed: names of files of the earlier data set, which are deleted.

        Raises:
            RuntimeError: a file has neither its temporary nor its final name.
        """
        delete_own(locate(self.output), removed, removed)
        if not self.appends:
            publish_files(moves, self._scratch)

    def finish(self, contents: Mapping[str, bytes]) -> None:
        """Write the small files, and remove what is left of the steps."""
        _make_folders({_final(self.output, name) for name in contents})
        self._write_all(self.output, contents)
        # The generation of what is added holds small files alone.
        self._remove_generation(contents if self.appends else None)
        if self._scratch != self.temp_folder:
            remove_named(locate(self._scratch))

    def _remove_generation(self, names: Iterable[str] | None) -> None:
        remove_generation(locate(self.output), generation_of(self.seal), names)

    def list_removed(
        self, stale: Iterable[str], moves: Iterable[Move], contents: Iterable[str]
    ) -> list[str]:
        """List the names of an earlier data set that are not replaced."""
        begin = len(_final(self.output, "x")) - 1
        return sorted({*stale} - {*contents, *(move.destination[begin:] for move in moves)})

    @property
    def _scratch(self) -> str:
        """The folder of the run on the disk of the output, its temporary folder where that is."""
        return _final(self.output, split_path(self.temp_folder)[1])

    @property
    def _generation(self) -> str:
        return _final(self.output, generation_of(self.seal))

    def _is_replacing(self) -> bool:
        return read_existing(_final(self.output, SUCCESS)) not in {None, self.seal}

    def _is_finished(self) -> bool:
        return read_existing(_final(self.output, SUCCESS)) == self.seal

    def _write_all(self, folder: str, contents: Mapping[str, bytes]) -> None:
        """Write the small files that a folder lacks, in their order."""
        for name, content in contents.items():
            if read_existing(_final(folder, name)) != content:
                self._write(_final(folder, name), content)

    def _write(self, path: str, content: bytes) -> None:
        if is_object_path(path):
            write_file(path, content)
            return
        # A name of this attempt's own: another attempt may be writing the same file.
        temporary = new_path(self.temp_folder, "commit")
        write_file(temporary, content)
        publish([Move(temporary, path, len(content))], self._scratch)


def publish_files(moves: Sequence[Move], scratch: str) -> None:
    """Give files their final names, in folders that need not exist (`publish`)."""
    _make_folders({move.destination for move in moves})
    publish(moves, scratch)


def _make_folders(files: Iterable[str]) -> None:
    for folder in sorted({split_path(file)[0] for file in files}):
        if is_object_path(folder) or FileSystems.exists(folder):
            continue
        try:
            FileSystems.mkdirs(folder)
        except OSError:  # another attempt may have made it
            if not FileSystems.exists(folder):
                raise


def _final(output: str, name: str) -> str:
    return join_path(output, *name.split("/"))
