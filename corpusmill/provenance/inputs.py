"""Where the files are that a data set was built from."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from corpusmill.errors import option
from corpusmill.location import Location, locate
from corpusmill.provenance.records import UnreadableTextError


@dataclass(frozen=True)
class Inputs:
    """Where the files of a corpus are.

    Attributes:
        places: files, folders and URLs of folders, as a build takes them; none is the present
            folder without the folders in it, which may hold any number of other files.
    """

    places: Sequence[str] = ()

    def open(self, name: str) -> Iterator[BinaryIO]:
        """Open each file that may be the one of a name in the manifest, the likeliest first.

        Several have the same name where folders were given, or generations have one each.

        Raises:
            UnreadableTextError: there is none.
        """
        seen = set[tuple[str, str]]()
        for folder, known in self._candidates(name):
            if (place := (folder.url, known)) in seen:
                continue
            with suppress(OSError), folder.open(known) as stream:
                seen.add(place)
                yield stream
        if not seen:
            if not self.places:
                cause = f"{name} is not in the present folder: name another with {option('input')}"
                raise UnreadableTextError(cause)
            raise UnreadableTextError(f"{name} was not found in {', '.join(self.places)}")

    def _candidates(self, name: str) -> Iterator[tuple[Location, str]]:
        # Folders that all files have in common are not part of the name, but a source is.
        ends = list(dict.fromkeys([name, name.partition("/")[2] or name]))
        for file in self._files:
            if file.name == PurePosixPath(name).name:
                yield locate(str(file.parent)), file.name
        for folder in self._folders:
            yield folder, name
        for folder, files in self._listed:
            yield from ((folder, file) for end in ends for file in files
                        if file != name and (file.endswith(f"/{end}") or file == end))  # fmt: skip

    @property
    def _files(self) -> Iterator[Path]:
        return (Path(place) for place in self.places if Path(place).is_file())

    @property
    def _folders(self) -> Iterator[Location]:
        return (locate(place) for place in self.places or (".",) if not Path(place).is_file())

    @cached_property
    def _listed(self) -> list[tuple[Location, list[str]]]:
        """The files of each folder, which are listed if a file is not where its name says."""
        return [(folder, list(folder.list())) for folder in self._folders if self.places]
