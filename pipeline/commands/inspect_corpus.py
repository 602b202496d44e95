"""The command that measures a corpus, and estimates what a build of it would give."""

from dataclasses import dataclass

from corpusmill.commands.command import Command
from corpusmill.errors import UserError, check_option, option
from pipeline.commands.builds import FORMAT_NAMES, make_commands
from pipeline.recipe.build_options import BuildOptions

_MOST_SAMPLE_TOKENS = 10**9


@dataclass(frozen=True, kw_only=True)
class InspectCorpus(BuildOptions):
    """Measure a corpus, and estimate what a build of it would give, without building it.

    The name of an objective, which may follow the command, says what a build would make.

    Temporary files are in the system's folder for them, or under --temp-location.
    """

    sample_tokens: int = 4_000_000
    """Size of the sample, in tokens, that is built to estimate what a build would give. For a
    corpus with fewer tokens the numbers are exact."""
    html: str | None = None
    """Also write the report as one HTML page with plots to this file."""
    json: str | None = None
    """Also write all numbers to this file. corpusmill/inspection/corpus_numbers.py lists them."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: the sample is empty, or too large to be built in memory.
        """
        if self.dataset.source:
            cause = "a corpus is measured as a whole"
            raise UserError(
                option("source"), cause, f"Give {option('input')}; measure each source by itself"
            )
        is_valid = 1 <= self.sample_tokens <= _MOST_SAMPLE_TOKENS
        check_option("sample_tokens", self.sample_tokens, is_valid, f"1 to {_MOST_SAMPLE_TOKENS}")


_VARIANTS = make_commands(InspectCorpus)
COMMAND = Command(
    InspectCorpus,
    "pipeline.jobs.corpus_inspection:inspect_corpus",
    FORMAT_NAMES,
    _VARIANTS,
    next(iter(_VARIANTS)),
)
