"""The command that measures a corpus, and estimates what a build of it would give."""

from dataclasses import dataclass
from typing import Annotated

from corpusmill.commands.command import Command
from corpusmill.errors import UserError, option
from corpusmill.settings.constraints import CheckedOptions, Range
from pipeline.commands.builds import FORMAT_NAMES, make_commands
from pipeline.job_options import BuildOptions, parse_size

_MOST_SAMPLE_TOKENS = 10**9
# A corpus has fewer than 2**24 files, of 1 GB each where only its size is known.
_LARGEST = 16 * 10**15


@dataclass(frozen=True, kw_only=True)
class InspectCorpus(BuildOptions, CheckedOptions):
    """Measure a corpus, and estimate what a build of it would give, without building it.

    The name of an objective, which may follow the command, says what a build would make.

    Temporary files are in the system's folder for them, or under --temp-location.
    """

    sample_tokens: Annotated[int, Range(1, _MOST_SAMPLE_TOKENS)] = 4_000_000
    """Size of the sample, in tokens, that is built to estimate what a build would give. For a
    corpus with fewer tokens the numbers are exact."""
    scale_to: int | str | None = None
    """Say what a build takes for a corpus of this size, such as 50TB, of which the input is a part:
    files of 1 GB like the input's, and the --workers that it asks for. By default, for the
    input."""
    html: str | None = None
    """Also write the report as one HTML page with plots to this file."""
    json: str | None = None
    """Also write all numbers to this file. corpusmill/inspection/corpus_numbers.py lists them."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: the sample is empty, or too large to be built in memory; the size that is
                named is none, or larger than a corpus can be.
        """
        super().__post_init__()
        if (self.named_size or 0) > _LARGEST:
            value, cause = option("scale_to", self.scale_to), "no corpus that is read is as large"
            raise UserError(value, cause, "Give up to 16PB")

    @property
    def named_size(self) -> int | None:
        """Bytes of the corpus whose build is described; None for those of the input."""
        return None if self.scale_to is None else parse_size("scale_to", self.scale_to)


_VARIANTS = make_commands(InspectCorpus)
COMMAND = Command(
    InspectCorpus,
    "pipeline.jobs.corpus_inspection:inspect_corpus",
    FORMAT_NAMES,
    _VARIANTS,
    next(iter(_VARIANTS)),
)
