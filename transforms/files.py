"""Files of any of Beam's filesystems, and of the hub."""

from contextlib import suppress
from typing import BinaryIO

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from corpusmill.corpus.hub_files import is_hub_path, open_hub_file


def open_file(path: str) -> BinaryIO:
    """Open a file of any of Beam's filesystems or the hub for reading, compressed bytes as is."""
    if is_hub_path(path):
        return open_hub_file(path)
    stream: BinaryIO = FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    return stream


def create_file(path: str) -> BinaryIO:
    """Create a file on any of Beam's filesystems, to be written as it is."""
    stream: BinaryIO = FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED)
    return stream


def remove_folder(path: str) -> None:
    """Remove a folder and all that is in it; one that is not there, or goes meanwhile, is fine."""
    with suppress(BeamIOError, OSError):
        FileSystems.delete([path])
