"""The files of commands, reached through Beam's file systems and object stores."""

from dataclasses import dataclass

from corpusmill.commands.files import DatedFolder, UrlFiles, replace_file
from pipeline.preparation.beam_folder import BeamFolder
from pipeline.preparation.inputs import absolute, is_local
from transforms.storage.file_systems import beam_errors, beam_file_systems
from transforms.storage.files import write_file


@dataclass(frozen=True)
class BeamFiles:
    """A `corpusmill.commands.files.Files` for all URLs that Beam or fsspec knows.

    Where both know a URL, Beam reads it with the credentials and options that builds use.
    """

    def open_folder(self, path: str) -> DatedFolder:
        """Return the folder at a path or a URL."""
        return BeamFolder(path) if _is_known(path) else UrlFiles().open_folder(path)

    def write(self, path: str, content: bytes) -> None:
        """Write a small file; a store shows it whole or not at all."""
        if is_local(path):
            replace_file(path, content)
        else:
            write_file(absolute(path), content)


def _is_known(path: str) -> bool:
    """Whether Beam has a file system for a path, which may lack a package."""
    if is_local(path):
        return True
    try:
        beam_file_systems().get_filesystem(path)
    except ValueError:
        return False
    except beam_errors():
        return True
    return True
