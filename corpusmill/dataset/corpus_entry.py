"""The entry of a manifest about the text that was read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta

from corpusmill.dataset.filtering import Filtering

Number = Annotated[int, Meta(ge=0, le=2**62)]
# Of a part that is added to a data set; names of its shards hold it.
ADDED_TAG = r"more\d+"
# Of a source; names of shards and of counts hold it, and tags must be told from it.
SOURCE_NAME = "[A-Za-z][A-Za-z0-9_]*"
SourceName = Annotated[str, Meta(pattern=rf"\A(?!{ADDED_TAG}\Z){SOURCE_NAME}\Z")]
MAX_REPEAT = 1000
_Checksum = Annotated[str, Meta(pattern=r"\A[0-9a-f]{8}\Z")]


@dataclass(frozen=True)
class SourceFile:
    """A file of the corpus.

    Attributes:
        path: its name below the input.
        bytes: its size.
        crc32c: checksum of its bytes, in hexadecimal; None where it was not computed, as for files
            on the hub, whose names hold the commit.
    """

    path: str
    bytes: Number
    crc32c: _Checksum | None = None


@dataclass(frozen=True)
class Source:
    """A part of the corpus with a name.

    Attributes:
        name: as the user named it; the names of its files begin with it and a slash.
        repeat: how often each of its documents was taken; the part after the decimal point is the
            probability of once more. Where parts of a data set took them differently, it is the
            mean by bytes.
        files: number of its files.
        bytes: their size.
        counts: of its own text, as those of all stages are in the manifest.
    """

    name: SourceName
    repeat: Annotated[float, Meta(gt=0, le=MAX_REPEAT)]
    files: Number
    bytes: Number
    counts: Mapping[str, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class CorpusEntry:
    """What was read.

    Attributes:
        options: how documents and sentences were found.
        sentence_splitter: name and version of the splitter; None where lines are sentences.
        bytes: size of all files.
        files: sorted by path.
        package: the installed package that provides the input format; None for ours.
        filtering: which documents were left out; None where all were kept.
        sources: sorted by name; empty where no part of the corpus has a name.
    """

    options: Mapping[str, Any]
    sentence_splitter: str | None
    bytes: Number
    files: tuple[SourceFile, ...]
    package: str | None = None
    filtering: Filtering | None = None
    sources: tuple[Source, ...] = ()

    def source_of(self, file: int) -> str | None:
        """Return the name of the source of a file, by the file's number.

        None where no source has a name.
        """
        return self.files[file].path.partition("/")[0] if self.sources else None
