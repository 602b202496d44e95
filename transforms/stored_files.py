"""Files that a command writes before its job runs, and that all workers read."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Self

from transforms.checksums import read_blocks
from transforms.storage.files import write_file


@dataclass(frozen=True)
class StoredFile:
    """A file whose content is compared with its digest when it is read.

    Attributes:
        path: the file, which every worker can read.
        sha256: its hexadecimal digest.
    """

    path: str
    sha256: str

    @classmethod
    def write(cls, path: str, content: bytes) -> Self:
        """Write the file."""
        write_file(path, content)
        return cls(path, sha256(content).hexdigest())

    def read(self) -> bytes:
        """Read the file.

        Raises:
            DamagedFileError: it is damaged.
        """
        return b"".join(read_blocks(self.path, self.sha256))
