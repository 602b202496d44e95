"""The digests of the documents that a data set has, which all workers look up."""

from corpusmill.corpus.filters.dropping import Step
from corpusmill.corpus.filters.known_texts import drop_known
from transforms.stored_files import StoredFile


class StoredDigests(StoredFile):
    """A file with the digests of documents (`corpusmill.corpus.filters.known_texts`)."""

    def load(self) -> Step:
        """Make the step that drops documents with these digests.

        Raises:
            DamagedFileError: the file is damaged.
        """
        return drop_known(self.read())
