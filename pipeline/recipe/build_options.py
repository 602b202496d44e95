"""The options of a build, which the command line parses before it imports Beam."""

from dataclasses import dataclass, field

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.filters.functions import FilterOptions
from corpusmill.formats.output_options import OutputOptions, check_parts
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.tokenization.tokenizer_file import TokenizerOptions
from pipeline.console.run_log import LogOptions
from pipeline.job_options import CorpusOptions, DatasetOptions, RunOptions


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """The options that a build shares with an estimate of one."""

    dataset: CorpusOptions
    objective: ObjectiveOptions
    preset: str | None = None
    """The options under which a model was trained, in place of the defaults; options that are given
    win over it."""
    tokenizer_options: TokenizerOptions = field(default_factory=TokenizerOptions)
    documents: DocumentOptions = field(default_factory=DocumentOptions)
    filters: FilterOptions = field(default_factory=FilterOptions)
    output_options: OutputOptions = field(default_factory=OutputOptions)
    run: RunOptions = field(default_factory=RunOptions)
    log: LogOptions = field(default_factory=LogOptions)


@dataclass(frozen=True, kw_only=True)
class Build(BuildOptions):
    """The options of a build."""

    dataset: DatasetOptions

    def __post_init__(self) -> None:
        """Refuse names of shards that would be the same in two parts of the data set.

        Raises:
            UserError: they would.
        """
        has_validation = self.dataset.validation_share > 0
        check_parts(self.output_options.shard_name, has_validation, bool(self.dataset.source))
