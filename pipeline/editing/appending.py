"""A data set that grows: what it must be to be appended to, and what it holds already."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from corpusmill.corpus.document_options import make_texts
from corpusmill.dataset.manifest import MANIFEST, Manifest
from corpusmill.dataset.manifest_json import from_json, to_json
from corpusmill.dataset.shards import open_data_set
from corpusmill.errors import UserError, option
from corpusmill.formats.shard_names import tells_parts_apart
from corpusmill.location import Location
from corpusmill.provenance.digests import list_tables
from pipeline.folders.changes import compare_files, describe_changes
from pipeline.folders.run_folder import RunFolder
from pipeline.recipe.recipe import Recipe
from transforms.storage.file_systems import join_path

if TYPE_CHECKING:
    from pipeline.graph import Job

_FLAG = option("append")
# The tables of documents that a task reads: about four million documents.
_MOST_TABLE_BYTES = 64 * 2**20
# What may differ between generations, or follows from other entries.
_FREE = (
    "sha256", "version", "tokenizer.file",
    "counts", "splits", "files", "provenance", "removals", "first_reject", "corpusmill_version",
    "corpus.bytes", "corpus.sources", "output.num_shards", "tokenizer.name", "tokenizer.form",
    "tokenizer.revision",
)  # fmt: skip

# Follows from the options of sources, and those of new ones are free.
_FREE_OF_SOURCES = ("corpus.sentence_splitter", "corpus.package")


class Appended:
    """The data set to which a run adds a generation.

    Args:
        output: its folder.
        run: the folder of the run; if that is resumed, it knows the data set as it was.

    Attributes:
        manifest: of the data set.

    Raises:
        UserError: there is no data set to which anything can be added.
    """

    def __init__(self, output: Location, run: RunFolder) -> None:
        self._place, self._is_resumed = output, run.earlier is not None
        self._folder: Location
        self._folder, self.manifest = open_data_set(self._place)
        if run.earlier is not None:
            self.manifest = from_json(run.earlier["appended_to"])
        self._check(output)

    def _check(self, output: Location) -> None:
        if cause := why_alone(self.manifest):
            cause = f"nothing can be added, as {cause}"
            raise UserError(f"{_FLAG} {output}", cause, "Build it anew with all text")

    def adapt(self, recipe: Recipe) -> Recipe:
        """Return a recipe that continues the data set.

        Raises:
            UserError: its options or its tokenizer are not those of the data set, or only one of
                both has sources with names.
        """
        names = ", ".join(source.name for source in self.manifest.corpus.sources)
        if recipe.sources and not names:
            cause = "the input has sources with names, and the data set has none"
            raise UserError(_FLAG, cause, f"Give {option('input')}")
        if names and not recipe.sources:
            cause = f"the data set has sources with names ({names}), and the input has none"
            raise UserError(
                _FLAG, cause, f"Give {option('source', 'NAME=PATH')}, with one of them or another"
            )
        generations = self.manifest.provenance.generations if self.manifest.provenance else ()
        first, tag = len(self.manifest.corpus.files), f"more{len(generations)}"
        sources = [
            replace(source, first_file=first + source.first_file) for source in recipe.sources
        ]
        recipe = replace(recipe, first_file=first, tag=tag, sources=sources)
        recipe = self._share_options(recipe) if names else recipe
        if changes := compare(self.manifest, recipe.header):
            cause = f"the data set was built with other options: {changes}"
            cure = "Give the options of the data set, which `corpusmill config` prints"
            raise UserError(_FLAG, cause, cure)
        return recipe

    def _share_options(self, recipe: Recipe) -> Recipe:
        """Return a recipe whose sources have in common what those of the data set have.

        Raises:
            UserError: a source keeps a field that the data set does not keep.
        """
        common = self.manifest.corpus.documents
        for name in recipe.documents.keep_fields:
            if name not in common.keep_fields:
                held = ", ".join(common.keep_fields) or "none"
                cause = f"the data set does not keep this field of any source; it keeps {held}"
                raise UserError(f"{_FLAG} {option('keep_fields', name)}", cause, "Leave it out")
        return replace(recipe, documents=make_texts(common, recipe.documents.text_maker))

    def has_added(self, recipe: Recipe) -> bool:
        """Whether the last generation was made of some files, and they are as they were.

        If the run is resumed, it has not yet added them.

        Args:
            recipe: of the input.

        Raises:
            UserError: it was made of them with sources that were taken more or less often.
        """
        generations = self.manifest.provenance.generations if self.manifest.provenance else ()
        if self._is_resumed or len(generations) < 2:
            return False
        files = self.manifest.corpus.files[generations[-1].first_file :]
        last = replace(self.manifest, corpus=replace(self.manifest.corpus, files=files))
        if [*compare_files(last, recipe.files, self._place.written_at(MANIFEST))]:
            return False
        repeats = [source.repeat for source in generations[-1].layout.sources]
        if repeats != [source.repeat for source in recipe.sources]:
            taken = ", ".join(f"@{repeat:g}" for repeat in repeats)
            cause = f"the text has been added, with the repeats {taken}"
            cure = f"Give these, or leave {option('resume')} out to add the text once more"
            raise UserError(f"{_FLAG} {option('resume')}", cause, cure)
        return True

    def complete(self, job: "Job", existing: str, folder: str) -> "Job":
        """Return a job that compares documents with those of the data set.

        Args:
            job: the job.
            existing: what becomes of documents that are there already, as `DatasetOptions` has it.
            folder: of the run.
        """
        if existing == "allow":
            return job
        # This needs Beam, and mistakes are found without it.
        from transforms.corpus.known_texts import Held  # noqa: PLC0415
        from transforms.corpus.plan import write_plan  # noqa: PLC0415

        plan = write_plan(join_path(folder, "held.jsonl"), group_tables(self.manifest))
        return replace(job, held=Held(self._folder, plan, existing == "refuse"))


def why_alone(manifest: Manifest) -> str:
    """Return why a data set can have one generation only; empty if it can have several."""
    if manifest.provenance is None:
        return "it was built without provenance, which tells its documents apart from new ones"
    if manifest.output.shard_format.joined:
        return f"all shards of a split are one file in {manifest.output.format}"
    if not tells_parts_apart(manifest.output.options.shard_name):
        pattern = manifest.output.options.shard_name
        return f"its shards are named {pattern}, and new ones would take the place of old ones"
    return ""


def compare(earlier: Manifest, added: Manifest) -> str:
    """Describe what keeps two manifests from being those of generations; empty if nothing does."""
    added = replace(added, corpus=added.corpus.relative_to(earlier.corpus))
    changes = list(_compare_sources(earlier, added))
    described = describe_changes(_entries(earlier), _entries(added))
    # Another objective or tokenizer is the cause of most other differences.
    changes += sorted(described, key=lambda change: ".name was" not in change)
    more = f", and {len(changes) - 3} more" if len(changes) > 3 else ""
    return f"{'; '.join(changes[:3])}{more}"


def _compare_sources(earlier: Manifest, added: Manifest) -> Iterator[str]:
    """Describe where sources that two data sets have were read in two ways."""
    own, others = (each.corpus.source_documents for each in (earlier, added))
    for name in own.keys() & others.keys():
        yield from describe_changes(
            own[name].differences(others[name]), others[name].differences(own[name]), name
        )


def group_tables(
    manifest: Manifest, most_bytes: int = _MOST_TABLE_BYTES
) -> Iterator[list[tuple[str]]]:
    """Group the tables of all documents that a data set has, or had before they were removed.

    Args:
        manifest: of the data set, which has provenance.
        most_bytes: the size of a group, unless it has one table.

    Yields:
        The names of the tables of a group.
    """
    group, room = list[tuple[str]](), most_bytes
    for name in list_tables(manifest):
        size = manifest.entries[name].bytes
        if group and size > room:
            yield group
            group, room = [], most_bytes
        group.append((name,))
        room -= size
    if group:
        yield group


def _entries(manifest: Manifest) -> Any:
    """Return what generations must have in common, as JSON has it."""
    entries = json.loads(json.dumps(to_json(manifest)))
    for path in (*_FREE, *(_FREE_OF_SOURCES if manifest.corpus.sources else ())):
        *places, name = path.split(".")
        entry = entries
        for place in places:
            entry = entry[place]
        entry.pop(name, None)
    return entries
