"""The digests of the documents that a data set has, which all workers look up."""

from dataclasses import dataclass

from corpusmill.corpus.filters.dropping import Step
from corpusmill.corpus.filters.known_texts import drop_known
from transforms.checksums import read_blocks


@dataclass(frozen=True)
class StoredDigests:
    """A file with the digests of documents (`corpusmill.corpus.filters.known_texts`).

    Attributes:
        path: the file, which every worker can read.
        sha256: its hexadecimal digest.
    """

    path: str
    sha256: str

    def load(self) -> Step:
        """Make the step that drops documents with these digests.

        Raises:
            DamagedFileError: the file is damaged.
        """
        return drop_known(b"".join(read_blocks(self.path, self.sha256)))
