"""The options of a plan: those of a build, and the size of the corpus."""

from dataclasses import dataclass

from corpusmill.errors import UserError, option
from pipeline.job_options import DatasetOptions, parse_size
from pipeline.recipe.build_options import BuildOptions

# To list more files, even without their names, takes gigabytes of memory.
_MOST_FILES = 10**8
_LEAST_SAMPLE_BYTES, _MOST_SAMPLE_BYTES = 10**5, 10**9


@dataclass(frozen=True, kw_only=True)
class PlannedCorpus(DatasetOptions):
    """What would be read and written: the options of a build, and the size of the corpus."""

    input: tuple[str, ...] = ()
    """The corpus or a part of it: the rates are measured on a sample of it. Files, globs or folders
    as for a build. Without it they are measured on English text."""
    output: str = ""
    """Folder of the data set. Nothing is written there: it tells on which disk the data set would
    be, or whether it would be in an object store."""
    corpus_bytes: int | str | None = None
    """Size of the corpus as its files are stored, such as 300GB, 5TB or 1.5TiB; by default that of
    the input."""
    file_bytes: int | str = "1GB"
    """Size of each of the corpus' files if --corpus-bytes is given."""
    sample_bytes: int | str = "8MB"
    """Size of the sample that is built to measure the rates."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value is not valid, or nothing tells the size of the corpus.
        """
        super().__post_init__()
        if self.source and self.corpus_bytes is not None:
            cause = "the size of each source is that of its files"
            raise UserError(
                f"{option('source')} {option('corpus_bytes')}", cause, "Give one of them"
            )
        if not self.parts and self.corpus_bytes is None:
            cure = f"Give {option('corpus_bytes')}, such as 5TB, or the corpus as {option('input')}"
            raise UserError(option("corpus_bytes"), "nothing tells the size of the corpus", cure)
        if not _LEAST_SAMPLE_BYTES <= self.sample <= _MOST_SAMPLE_BYTES:
            cause = "the sample would be too small to be measured, or too large to be quick"
            cure = "Give 100kB to 1GB; the default is right for most corpora"
            raise UserError(option("sample_bytes", self.sample_bytes), cause, cure)
        number = (self.total or 0) // self.file
        if number > _MOST_FILES:
            cause = f"in files of {self.file_bytes} these are {number:,} files"
            cure = f"Give a larger {option('file_bytes')}"
            raise UserError(option("corpus_bytes", self.corpus_bytes), cause, cure)

    @property
    def parts(self) -> tuple[str, ...]:
        """What there is of the corpus, as the user named it."""
        return self.input or self.source

    @property
    def total(self) -> int | None:
        """Size of the corpus; None for that of the input."""
        return None if self.corpus_bytes is None else parse_size("corpus_bytes", self.corpus_bytes)

    @property
    def file(self) -> int:
        """Size of a file."""
        return parse_size("file_bytes", self.file_bytes)

    @property
    def sample(self) -> int:
        """Size of the sample."""
        return parse_size("sample_bytes", self.sample_bytes)


@dataclass(frozen=True, kw_only=True)
class PlanOptions(BuildOptions):
    """Plan a build of any size: what it takes, and which bounds it would exceed.

    Nothing is built but a small sample, and nothing but the input is looked at.
    """

    dataset: PlannedCorpus
    json: bool = False
    """Print all numbers as JSON (docs/how-to/plan-a-build.md)."""
