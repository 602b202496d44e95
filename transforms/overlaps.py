"""The runs of words of an evaluation set, which all workers look up."""

from dataclasses import dataclass

from corpusmill.corpus.filters.dropping import Step
from corpusmill.corpus.filters.overlaps import load_overlaps
from transforms.checksums import read_blocks


@dataclass(frozen=True)
class StoredPassages:
    """A file with the passages of an evaluation set (`corpusmill.corpus.filters.overlaps`).

    Attributes:
        path: the file, which every worker can read.
        sha256: its hexadecimal digest.
    """

    path: str
    sha256: str

    def load(self) -> Step:
        """Make the step that drops documents that overlap with it.

        Raises:
            DamagedFileError: the file is damaged.
        """
        return load_overlaps(b"".join(read_blocks(self.path, self.sha256)))
