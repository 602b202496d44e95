"""From the manifest of a data set to the build that makes it again."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import google_crc32c
import msgspec
from rich.console import Console

from corpusmill.corpus.filters.options import FilterOptions
from corpusmill.corpus.hub.data_sets import is_hub_path
from corpusmill.corpus.hub.wikitext import WIKITEXT
from corpusmill.corpus.options import DocumentOptions
from corpusmill.dataset.manifest import Manifest
from corpusmill.errors import UserError
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from pipeline.console.run_log import LogOptions
from pipeline.options import DatasetOptions, RunOptions, parse_source
from pipeline.preparation.build_options import Build
from pipeline.preparation.changes import compare_files, compare_options
from pipeline.preparation.inputs import InputFile, is_local
from pipeline.preparation.recipe import Recipe, prepare
from transforms.storage.files import open_file

# Files of this size together are compared by their checksums before any work; of all others, the
# build itself computes them.
MOST_COMPARED = 2**30
_BLOCK_BYTES = 2**20


@dataclass(frozen=True)
class Rebuilding:
    """A data set that is built again.

    Attributes:
        manifest: of the data set.
        tokenizer_json: its tokenizer.
        warnings: what is not as it was, and may give other bytes; filled by `prepare`.
    """

    manifest: Manifest
    tokenizer_json: str
    warnings: list[str] = field(default_factory=list)

    @property
    def tokenizer(self) -> TokenizerFile:
        """The tokenizer, as it was read for the first build."""
        return self.manifest.tokenizer.to_tokenizer(self.tokenizer_json)

    def list_hub_inputs(self) -> tuple[str, ...]:
        """The input, if all of it is on the hub; an empty tuple otherwise."""
        names = tuple(file.path for file in self.manifest.corpus.files)
        return names if all(is_hub_path(name) or name in WIKITEXT for name in names) else ()

    def complete_sources(self, given: Sequence[str]) -> tuple[str, ...]:
        """Return the sources as a build takes them, with the repeats of the data set.

        Args:
            given: values of --source.

        Raises:
            UserError: they are not the sources of the data set.
        """
        repeats = {source.name: source.repeat for source in self.manifest.corpus.sources}
        parsed = [parse_source(text) for text in given]
        names = {source.source for source in parsed}
        if names != repeats.keys():
            known = ", ".join(repeats) or "none"
            cause = f"the sources of the data set are {known}, and not {', '.join(names) or 'none'}"
            cure = "Give each of them as --source NAME=PATH" if repeats else "Give --input"
            raise UserError("--source", cause, cure)
        for source in parsed:
            if source.repeat not in {None, repeats[source.source]}:
                cause = f"the data set took it {repeats[source.source]:g} times"
                raise UserError(f"--source {source.source}", cause, "Leave the number out")
        return tuple(
            f"{source.source}={source.path}@{Decimal(repr(repeats[source.source])):f}"
            for source in parsed
        )

    def make_build(
        self, dataset: DatasetOptions, evaluation: tuple[str, ...], run: RunOptions, log: LogOptions
    ) -> Build:
        """Return the options of the build.

        Args:
            dataset: input and output, and what does not change the bytes.
            evaluation: the evaluation set, if documents were compared with one.
            run: where the job runs.
            log: what is logged.

        Raises:
            UserError: a package is not installed, or an option is not allowed any more.
        """
        manifest = self.manifest
        objective, filtering = manifest.objective, manifest.corpus.filtering
        options = OBJECTIVES.load_recorded(objective.name, objective.package)
        left_out: dict[str, Any] = dict(filtering.options) if filtering else {}
        left_out["drop_overlap_with"] = evaluation
        return Build(
            dataset=dataset,
            objective=msgspec.convert(dict(objective.options), options),
            preset=objective.preset,
            tokenizer_options=self.tokenizer.options,
            documents=msgspec.convert(dict(manifest.corpus.options), DocumentOptions),
            filters=msgspec.convert(left_out, FilterOptions),
            output_options=manifest.output.options,
            run=run,
            log=log,
        )

    def prepare(self, build: Build, temp_folder: str, console: Console) -> Recipe:
        """Make the recipe as `pipeline.preparation.recipe.prepare`, and compare it.

        Raises:
            UserError: the input is not that of the data set.
        """
        recipe = prepare(build, temp_folder, console, tokenizer=self.tokenizer)
        changes = [*compare_files(self.manifest, recipe.files)]
        changes += self._compare_checksums(recipe.files) if not changes else []
        if changes:
            more = f", and {len(changes) - 3} more differences" if len(changes) > 3 else ""
            cause = f"it is not the input of the data set: {'; '.join(changes[:3])}{more}"
            cure = "Give the files from which it was built"
            dataset = build.dataset
            flag = "--source" if dataset.source else "--input"
            given = " ".join(dataset.source or dataset.input)
            raise UserError(f"{flag} {given}", cause, cure)
        self.warnings[:] = compare_options(self.manifest, recipe)
        for warning in self.warnings:
            console.print(f"warning: {warning}; the bytes may differ")
        return recipe

    def _compare_checksums(self, files: Sequence[InputFile]) -> Iterator[str]:
        left = MOST_COMPARED
        for before, file in zip(self.manifest.corpus.files, files, strict=True):
            left -= file.bytes
            if left < 0:
                return
            if before.crc32c and is_local(file.path) and checksum_of(file) != before.crc32c:
                yield describe_checksums(file.name)

    def find_causes(self, again: Manifest) -> list[str]:
        """Describe what may have led to another result, by the manifest of the new data set."""
        pairs = zip(self.manifest.corpus.files, again.corpus.files, strict=False)
        causes = [
            describe_checksums(file.path)
            for before, file in pairs
            if before.crc32c and file.crc32c and before.crc32c != file.crc32c
        ]
        causes += self.warnings
        splits, now = self.manifest.splits, again.splits
        same_rows = splits.keys() == now.keys() and all(
            (split.rows, split.tokens, split.distributions)
            == (now[name].rows, now[name].tokens, now[name].distributions)
            for name, split in splits.items()
        )
        if not causes and same_rows:
            causes.append(
                "rows, tokens and distributions are the same: a library that encodes them, such as "
                "pyarrow, may be another one"
            )
        return causes


def describe_checksums(name: str) -> str:
    """Say that a file is not what it was."""
    return f"the input {name} has other bytes"


def checksum_of(file: InputFile) -> str:
    """Return the checksum of a file's bytes, as the manifest has it."""
    checksum = 0
    with open_file(file.path) as stream:
        while block := stream.read(_BLOCK_BYTES):
            checksum = google_crc32c.extend(checksum, block)
    return f"{checksum:08x}"


def compare_entries(before: Manifest, again: Manifest) -> list[str]:
    """Return the names of the shards, and of the files that belong to them, which differ."""
    entries, new = before.entries, again.entries
    names: Iterable[str] = (
        part
        for split in before.splits.values()
        for shard in split.shards
        for part in before.parts(shard.file)
    )
    return [name for name in names if name not in new or new[name].sha256 != entries[name].sha256]
