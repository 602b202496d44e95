"""What has changed since a run was stopped, or since a data set was built."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from corpusmill.dataset.manifest import MANIFEST, Manifest
from corpusmill.dataset.manifest_json import to_json
from corpusmill.errors import UserError, option
from corpusmill.formats.shard_formats import FORMATS
from corpusmill.layout.placement import SPLIT_NAMES, Layout
from corpusmill.location import Location

if TYPE_CHECKING:
    from pipeline.recipe.inputs import InputFile
    from pipeline.recipe.recipe import Recipe

# What a manifest has beside the description of its data set.
_RESULTS = (
    "sha256", "counts", "splits", "files", "first_reject", "near_pairs", "version",
    "corpus.bytes", "tokenizer.file",
)  # fmt: skip
# What may differ between generations besides, or follows from other entries.
_FREE = (
    *_RESULTS, "provenance", "removals", "corpusmill_version", "corpus.sources",
    "output.num_shards", "tokenizer.name", "tokenizer.form", "tokenizer.revision",
)  # fmt: skip
# Follows from the options of sources, and those of new ones are free.
_FREE_OF_SOURCES = ("corpus.sentence_splitter", "corpus.package")


def refuse_changes(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to resume another run than the one that was stopped.

    Args:
        earlier: the record of the stopped run.
        now: the record of this one.

    Raises:
        UserError: input, options or tokenizer differ.
    """
    changes = list(_compare_inputs(earlier["inputs"], now["inputs"]))
    for part in ("header", "layout", "task_sizes"):
        changes += describe_changes(earlier[part], now[part])
    known = "known_documents"
    changes += describe_changes(
        earlier.get(known), now.get(known), "what the data set holds already"
    )
    over = (
        f"without {option('resume')}"
        if "appended_to" in earlier
        else f"with {option('replace', True)}"
    )
    _refuse(
        changes,
        "this is not the run that was stopped",
        f"Give the same input and options, or start over {over}",
    )


def refuse_other(output: Location, manifest: Manifest, recipe: "Recipe") -> None:
    """Refuse to take the data set in a folder for the one of a recipe, or a damaged one as whole.

    Args:
        output: the folder.
        manifest: of the data set.
        recipe: what a command would build.

    Raises:
        UserError: input, options or tokenizer differ, or a file is missing.
    """
    # The manifest does not tell when the input was written, but it cannot be later than the end.
    built = output.written_at(MANIFEST)
    changes = [
        *compare_files(manifest, recipe.files, built),
        *compare_options(manifest, recipe),
        *_compare_shards(manifest, recipe.layout),
    ]
    _refuse(
        changes,
        f"the data set in {output} is complete, but it is not the one that this command builds",
        "Give the same input and options, or another folder, or start over "
        f"with {option('replace', True)}",
    )
    sizes = output.list()
    for entry in manifest.entries.values():
        if sizes.get(entry.file) != entry.bytes:
            cause = (
                f"{entry.file} in {output} is missing or does not have its {entry.bytes:,} bytes"
            )
            raise UserError(
                option("resume"),
                cause,
                f"Copy it again, or start over with {option('replace', True)}",
            )


def compare_files(
    manifest: Manifest, files: "Sequence[InputFile]", built: float | None = None
) -> Iterator[str]:
    """Describe where an input is not the one of a data set, by the names and sizes of the files.

    Args:
        manifest: of the data set.
        files: the input.
        built: when the data set was complete, in seconds since 1970; files that were written later
            are described, too. None where that does not matter.
    """
    earlier = {file.path: [file.bytes, 0.0] for file in manifest.corpus.files}
    now = {
        file.name: [
            file.bytes,
            file.modified if built is not None and file.modified > built else 0.0,
        ]
        for file in files
    }
    return _compare_inputs(earlier, now)


def compare_options(manifest: Manifest, recipe: "Recipe") -> list[str]:
    """Describe where a data set was not made as a recipe would make it, its input aside."""
    # Shards are compared by themselves, unless all of a split are one file.
    free = _RESULTS if manifest.output.shard_format.joined else (*_RESULTS, "output.num_shards")
    earlier, now = (_entries(each, free) for each in (manifest, recipe.header))
    for each in (earlier, now):
        for source in each["corpus"].get("sources", ()):
            del source["counts"]
    return describe_changes(earlier, now)


def compare_generations(earlier: Manifest, added: Manifest) -> str:
    """Describe what keeps two manifests from being those of generations; empty if nothing does."""
    added = replace(added, corpus=added.corpus.relative_to(earlier.corpus))
    changes = list(_compare_sources(earlier, added))
    free = (*_FREE, *(_FREE_OF_SOURCES if earlier.corpus.sources else ()))
    described = describe_changes(_entries(earlier, free), _entries(added, free))
    # Another objective or tokenizer is the cause of most other differences.
    changes += sorted(described, key=lambda change: ".name was" not in change)
    return _join(changes)


def _compare_sources(earlier: Manifest, added: Manifest) -> Iterator[str]:
    """Describe where sources that two data sets have were read in two ways."""
    own, others = (each.corpus.source_documents for each in (earlier, added))
    for name in own.keys() & others.keys():
        yield from describe_changes(
            own[name].differences(others[name]), others[name].differences(own[name]), name
        )


def _entries(manifest: Manifest, free: Sequence[str]) -> Any:
    """Return a manifest as JSON has it, without what may differ."""
    entries = json.loads(json.dumps(to_json(manifest)))
    for path in free:
        *places, name = path.split(".")
        entry = entries
        for place in places:
            entry = entry[place]
        entry.pop(name, None)
    return entries


def _refuse(changes: Sequence[str], cause: str, cure: str) -> None:
    if changes:
        raise UserError(option("resume"), f"{cause}: {_join(changes)}", cure)


def _join(changes: Sequence[str]) -> str:
    more = f", and {len(changes) - 3:,} more" if len(changes) > 3 else ""
    return f"{'; '.join(changes[:3])}{more}"


def _compare_shards(manifest: Manifest, layout: Layout) -> Iterator[str]:
    if FORMATS[manifest.output.format].joined:
        return
    for number, name in enumerate(SPLIT_NAMES):
        shards = manifest.splits[name].shards if name in manifest.splits else ()
        before, now = len(shards), (layout.train_shards, layout.validation_shards)[number]
        if before != now:
            yield f"{name} had {before:,} shards and has {now:,}"


def _compare_inputs(
    earlier: Mapping[str, list[float]], now: Mapping[str, list[float]]
) -> Iterator[str]:
    for name in sorted(earlier.keys() | now.keys()):
        if name not in now:
            yield f"the input {name} is missing"
        elif name not in earlier:
            yield f"the input {name} is new"
        elif earlier[name][0] != now[name][0]:
            yield f"the input {name} had {earlier[name][0]:,} bytes and has {now[name][0]:,}"
        elif earlier[name][1] != now[name][1]:
            yield f"the input {name} was modified"


def describe_changes(earlier: Any, now: Any, name: str = "") -> list[str]:
    """Describe where two records differ, except in what follows from other entries.

    Files are compared as inputs, and columns follow from the options and the tokenizer.
    """
    if name in {"corpus.files", "columns"}:
        return []
    earlier, now = _number_records(earlier), _number_records(now)
    if not (isinstance(earlier, dict) and isinstance(now, dict)):
        return [] if earlier == now else [f"{name} was {earlier} and is {now}"]
    changes: list[str] = []
    for key in sorted(earlier.keys() | now.keys()):
        below = f"{name}.{key}" if name else key
        changes += describe_changes(earlier.get(key), now.get(key), below)
    return changes


def _number_records(value: Any) -> Any:
    """Return a list of records as records by number, so that they are compared one by one."""
    is_list = isinstance(value, list) and all(isinstance(one, dict) for one in value)
    return {str(number): one for number, one in enumerate(value)} if is_list and value else value
