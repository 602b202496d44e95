"""The entry of a manifest about documents that were left out."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NamedFilter:
    """A filter.

    Attributes:
        name: as the user gave it.
        package: the installed package that provides it, with its version; None where there is none.
    """

    name: str
    package: str | None = None


@dataclass(frozen=True)
class EvaluationFile:
    """A file of an evaluation set.

    Attributes:
        path: its name below the folder of all of them.
        bytes: its size.
        sha256: hexadecimal digest of its bytes.
    """

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Evaluation:
    """An evaluation set that documents were compared with.

    Attributes:
        files: sorted by path.
        passages: number of passages that were compared.
        ignored: number of passages that were too short.
        runs: number of different runs of words.
        sha256: hexadecimal digest of the runs' hashes.
    """

    files: tuple[EvaluationFile, ...]
    passages: int
    ignored: int
    runs: int
    sha256: str


@dataclass(frozen=True)
class Filtering:
    """Which documents were left out.

    Attributes:
        filters: in the order in which they were asked.
        drop_duplicates: whether all but the first of equal documents were.
        evaluation: what documents were compared with, and dropped if they share a run of words.
    """

    filters: tuple[NamedFilter, ...] = ()
    drop_duplicates: bool = False
    evaluation: Evaluation | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The options of filters, as a command line has them."""
        duplicates = {"drop_duplicates": True} if self.drop_duplicates else {}
        files = self.evaluation.files if self.evaluation else ()
        return {
            "filter": [entry.name for entry in self.filters],
            **duplicates,
            "drop_overlap_with": [file.path for file in files],
        }
