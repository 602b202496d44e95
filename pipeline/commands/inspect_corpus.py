"""The command that measures a corpus, and estimates what a build of it would give."""

from dataclasses import dataclass, field

from corpusmill.commands.command import Command
from corpusmill.errors import UserError, check_option
from pipeline.commands.builds import (
    FORMAT_NAMES,
    any_objective,
    apply_preset,
    list_usable,
    load_options,
)
from pipeline.recipe.recipe import BuildOptions

_MOST_SAMPLE_TOKENS = 10**9
_DefaultObjective = load_options(list_usable()[0])


@dataclass(frozen=True, kw_only=True)
class InspectCorpus(BuildOptions):
    """Measure a corpus, and estimate what a build of it would give, without building it.

    Temporary files are in the system's folder for them, or under --temp-location.
    """

    sample_tokens: int = 4_000_000
    """Size of the sample, in tokens, that is built to estimate what a build would give. For a
    corpus with fewer tokens the numbers are exact."""
    html: str | None = None
    """Also write the report as one HTML page with plots to this file."""
    json: str | None = None
    """Also write all numbers to this file. corpusmill/inspection/corpus_numbers.py lists them."""
    objective: any_objective() = field(default_factory=_DefaultObjective)  # type: ignore[valid-type]
    """What a build would make. Its name comes after all other flags, followed by its own flags."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: the sample is empty, or too large to be built in memory.
        """
        if self.dataset.source:
            cause = "a corpus is measured as a whole"
            raise UserError("--source", cause, "Give --input; measure each source by itself")
        is_valid = 1 <= self.sample_tokens <= _MOST_SAMPLE_TOKENS
        check_option("sample-tokens", self.sample_tokens, is_valid, f"1 to {_MOST_SAMPLE_TOKENS}")


COMMAND = Command(
    InspectCorpus,
    "pipeline.jobs.corpus_inspection:inspect_corpus",
    apply_preset,
    FORMAT_NAMES,
)
