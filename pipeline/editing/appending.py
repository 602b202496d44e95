"""A data set that grows: what it must be to be appended to, and what it holds already."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from corpusmill.corpus.document_options import make_texts
from corpusmill.dataset.manifest import MANIFEST, Manifest
from corpusmill.dataset.manifest_json import from_json
from corpusmill.errors import UserError, option
from corpusmill.formats.output_options import tells_parts_apart
from corpusmill.provenance.removal import list_tables
from pipeline.folders.changes import compare_files, compare_generations
from pipeline.folders.run_folder import RunFolder
from pipeline.recipe.recipe import Recipe
from transforms.storage.file_systems import join_path

if TYPE_CHECKING:
    from pipeline.graph import Job

_FLAG = option("append")
# The tables of documents that a task reads: about four million documents.
_MOST_TABLE_BYTES = 64 * 2**20


class Appended:
    """The data set to which a run adds a generation.

    Args:
        run: the folder of the run; if that is resumed, it knows the data set as it was.
        manifest: of the data set.

    Attributes:
        manifest: of the data set, as it was when the run began.

    Raises:
        UserError: nothing can be added to the data set.
    """

    def __init__(self, run: RunFolder, manifest: Manifest) -> None:
        self._folder, self._is_resumed = run.own.output, run.earlier is not None
        self.manifest = from_json(run.earlier["appended_to"]) if run.earlier else manifest
        if cause := why_alone(self.manifest):
            cause = f"nothing can be added, as {cause}"
            raise UserError(f"{_FLAG} {self._folder}", cause, "Build it anew with all text")

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
        if changes := compare_generations(self.manifest, recipe.header):
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
        if [*compare_files(last, recipe.files, self._folder.written_at(MANIFEST))]:
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
