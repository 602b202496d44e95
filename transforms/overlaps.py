"""The runs of words of an evaluation set, which all workers look up."""

from corpusmill.corpus.filters.dropping import Step
from corpusmill.corpus.filters.overlaps import load_overlaps
from transforms.stored_files import StoredFile


class StoredPassages(StoredFile):
    """A file with the passages of an evaluation set (`corpusmill.corpus.filters.overlaps`)."""

    def load(self) -> Step:
        """Make the step that drops documents that overlap with it.

        Raises:
            DamagedFileError: the file is damaged.
        """
        return load_overlaps(self.read())
