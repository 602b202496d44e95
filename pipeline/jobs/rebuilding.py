"""`rebuild`: from the manifest of a data set to the build that makes it again, and compares it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import google_crc32c
import msgspec
from rich.console import Console

from corpusmill.commands.build_command import folder_of
from corpusmill.commands.command import Call
from corpusmill.console.process import FAILURE
from corpusmill.corpus.filters.functions import FILTERS, FilterOptions
from corpusmill.corpus.hub_data_sets import WIKITEXT, is_hub_path
from corpusmill.dataset.manifest import MANIFEST, Manifest
from corpusmill.dataset.shards import open_data_set, read_tokenizer
from corpusmill.errors import UserError, count_things, option
from corpusmill.location import scheme_of
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.settings.words import write_own_options
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from corpusmill.tokenization.words.words import WORDS
from pipeline.commands.rebuild import Rebuild
from pipeline.folders.changes import compare_files, compare_options
from pipeline.job_options import DatasetOptions, parse_source
from pipeline.jobs.build import log_end, run_build
from pipeline.recipe.build_options import Build
from pipeline.recipe.inputs import InputFile
from pipeline.recipe.recipe import Recipe, prepare
from transforms.storage.files import locate, open_file

_BLOCK_BYTES = 2**20


@dataclass(frozen=True)
class Rebuilding:
    """A data set that is built again.

    Attributes:
        manifest: of the data set.
        tokenizer_json: its tokenizer.
        compared_bytes: the size of the files that are compared by their checksums before any work;
            of all others, the build itself computes them.
        warnings: what is not as it was, and may give other bytes; filled by `prepare`.
    """

    manifest: Manifest
    tokenizer_json: str
    compared_bytes: int
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
        """Return the sources as a build takes them, with the repeats and options of the data set.

        Args:
            given: values of --source.

        Raises:
            UserError: they are not the sources of the data set.
        """
        sources = {source.name: source for source in self.manifest.corpus.sources}
        repeats = {name: source.repeat for name, source in sources.items()}
        parsed = [parse_source(text) for text in given]
        names = {source.source for source in parsed}
        if names != repeats.keys():
            known = ", ".join(repeats) or "none"
            cause = f"the sources of the data set are {known}, and not {', '.join(names) or 'none'}"
            cure = (
                f"Give each of them as {option('source', 'NAME=PATH')}"
                if repeats
                else f"Give {option('input')}"
            )
            raise UserError(option("source"), cause, cure)
        for source in parsed:
            if source.repeat not in {None, repeats[source.source]}:
                cause = f"the data set took it {repeats[source.source]:g} times"
                raise UserError(option("source", source.source), cause, "Leave the number out")
            if source.options:
                cause = "how it was read stands in the manifest"
                cure = f"Leave {', '.join(source.options)} out"
                raise UserError(option("source", source.source), cause, cure)
        return tuple(
            write_own_options(
                f"{source.source}={source.path}@{Decimal(repr(repeats[source.source])):f}",
                sources[source.source].options or {},
            )
            for source in parsed
        )

    def make_build(self, dataset: DatasetOptions, command: Rebuild) -> Build:
        """Return the options of the build.

        Args:
            dataset: input and output, and what does not change the bytes.
            command: what the user gives again, where the job runs, and what is logged.

        Raises:
            UserError: a package is not installed, an option is not allowed any more, or the
                manifest names a function that the user does not name.
        """
        manifest = self.manifest
        entry, filtering = manifest.objective, manifest.corpus.filtering
        options = OBJECTIVES.load_recorded(entry.name, entry.package)
        objective = msgspec.convert(dict(entry.options), options)
        left_out: dict[str, Any] = dict(filtering.options) if filtering else {}
        left_out["drop_overlap_with"] = command.drop_overlap_with
        self._load_functions(objective, command)
        recorded = (f"{name}={value}" for name, value in manifest.output.limits.items())
        return Build(
            dataset=dataset,
            objective=objective,
            preset=entry.preset,
            tokenizer_options=self.tokenizer.options,
            documents=manifest.corpus.documents,
            filters=msgspec.convert(left_out, FilterOptions),
            output_options=manifest.output.options,
            run=replace(command.run, limits=(*recorded, *command.run.limits)),
            log=command.log,
        )

    def _load_functions(self, objective: ObjectiveOptions, command: Rebuild) -> None:
        """Load the filters and the rule of words, before anything else imports them."""
        filtering = self.manifest.corpus.filtering
        filters = {each.name: each.package for each in filtering.filters} if filtering else {}
        tokenizer = self.tokenizer.with_roles(objective.special_tokens)
        words = objective.bind(tokenizer).words
        rules = {words: None} if words else {}
        given = {"filter": command.filter, "words": (command.words,) if command.words else ()}
        for name, table, recorded in (("filter", FILTERS, filters), ("words", WORDS, rules)):
            for function in given[name]:
                if function not in recorded:
                    cause = "the data set was not built with it"
                    raise UserError(option(name, function), cause, "Leave it out")
            for function, package in recorded.items():
                table.load_recorded(function, package, given[name])

    def prepare(self, build: Build, temp_folder: str, console: Console) -> Recipe:
        """Make the recipe as `pipeline.recipe.recipe.prepare`, and compare it.

        Raises:
            UserError: the input is not that of the data set.
        """
        recipe = prepare(build, temp_folder, console, tokenizer=self.tokenizer)
        changes = [*compare_files(self.manifest, recipe.files)]
        changes += self._compare_checksums(recipe.files) if not changes else []
        if changes:
            others = count_things(len(changes) - 3, "more difference")
            more = f", and {others}" if len(changes) > 3 else ""
            cause = f"it is not the input of the data set: {'; '.join(changes[:3])}{more}"
            cure = "Give the files from which it was built"
            dataset = build.dataset
            flag = option("source") if dataset.source else option("input")
            given = " ".join(dataset.source or dataset.input)
            raise UserError(f"{flag} {given}", cause, cure)
        self.warnings[:] = compare_options(self.manifest, recipe)
        for warning in self.warnings:
            console.print(f"warning: {warning}; the bytes may differ")
        return recipe

    def _compare_checksums(self, files: Sequence[InputFile]) -> Iterator[str]:
        left = self.compared_bytes
        for before, file in zip(self.manifest.corpus.files, files, strict=True):
            left -= file.bytes
            if left < 0:
                return
            if before.crc32c and not scheme_of(file.path) and checksum_of(file) != before.crc32c:
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


def rebuild(command: Rebuild, call: Call) -> int:
    """Build a data set again, and say whether it is the same.

    Returns:
        0 if every shard has the same digest, and 1 if not.

    Raises:
        UserError: there is no such data set, or the input is not its own.
    """
    if not command.run.wait:
        cause = "the digests can only be compared when the job has ended"
        raise UserError(f"rebuild {option('wait', False)}", cause, "Leave it out")
    place = folder_of(command.data_set)
    rebuilt = call.locate(place)
    folder, manifest = open_data_set(rebuilt)
    output = locate(command.output)
    if output.is_within(rebuilt) or rebuilt.is_within(output):
        cause = "it is the data set that is built again, or a folder in or around it"
        raise UserError(option("output", command.output), cause, "Give another folder")
    if manifest.provenance and len(manifest.provenance.generations) > 1:
        cause = f"text was added to it {len(manifest.provenance.generations) - 1} times"
        cure = f"Build its first part, and add the others with {option('append', True)}"
        raise UserError(command.data_set, cause, cure)
    if manifest.removals:
        cause = f"rows were removed from it after the build ({manifest.removals[0].reason})"
        raise UserError(command.data_set, cause, "Build it, and remove them from the result")
    compared_bytes = command.run.thresholds.corpus.compared_bytes
    rebuilding = Rebuilding(manifest, read_tokenizer(folder, manifest), compared_bytes)
    dataset = _choose_data_set(command, rebuilding)
    options = rebuilding.make_build(dataset, command)
    if not run_build(options, call, rebuilding.prepare):
        return 0
    again, _ = log_end(command.output)
    call.console.print(f"the data set is in {command.output}")
    return _compare(rebuilding, again, f"{place}/{MANIFEST}", call.console)


def _choose_data_set(command: Rebuild, rebuilding: Rebuilding) -> DatasetOptions:
    manifest = rebuilding.manifest
    sources = rebuilding.complete_sources(command.source)
    inputs = command.input or (() if sources else rebuilding.list_hub_inputs())
    if not inputs and not sources:
        first = manifest.corpus.files[0].path if manifest.corpus.files else "none"
        cause = f"the manifest does not tell where the {len(manifest.corpus.files):,} files are"
        raise UserError(option("input"), cause, f"Give the input, whose first file is {first}")
    filtering = manifest.corpus.filtering
    has_evaluation = bool(filtering and filtering.evaluation)
    if has_evaluation != bool(command.drop_overlap_with):
        cause = "documents were compared with an evaluation set, which the manifest does not hold"
        if has_evaluation:
            raise UserError(option("drop_overlap_with"), cause, "Give its files")
        cause = "documents were not compared with an evaluation set"
        raise UserError(option("drop_overlap_with"), cause, "Leave it out")
    return DatasetOptions(
        input=inputs,
        source=sources,
        tokenizer=manifest.tokenizer.name,
        num_shards=manifest.output.num_shards,
        order=manifest.output.order or "shuffled",
        seed=manifest.seed,
        validation_share=manifest.output.validation_share,
        output=command.output,
        replace=command.replace,
        resume=command.resume,
    )


def _compare(rebuilding: Rebuilding, again: Manifest, name: str, console: Console) -> int:
    before = rebuilding.manifest
    different = compare_entries(before, again)
    shards = [shard for split in before.splits.values() for shard in split.shards]
    if not different:
        size = sum(shard.bytes for shard in shards)
        is_whole = before == again
        rest = ", and the manifests are equal" if is_whole else ""
        console.print(
            f"equal: all {len(shards):,} shards ({size:,} bytes) have the digests of {name}{rest}"
        )
        return 0
    console.print(
        f"different: {len(different):,} of the files of {len(shards):,} shards do not have the "
        f"digests of {name}, such as {different[0]}"
    )
    for cause in rebuilding.find_causes(again) or ["no cause was found"]:
        console.print(f"possible cause: {cause}")
    return FAILURE
