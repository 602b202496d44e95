"""The manifest of a data set from which rows are removed, and the units of that work."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from corpusmill.dataset.manifest import FileEntry, Manifest, Shard, Split
from corpusmill.dataset.manifest_entries import (
    Counts,
    Generation,
    Provenance,
    Removal,
    as_mapping,
    from_mapping,
    list_provenance,
)

_KEPT_FOLDERS = ("rejects/", "provenance/")


class Unit(NamedTuple):
    """Files of a data set that are rewritten together.

    Attributes:
        split: name of the split; empty for files that belong to none.
        generation: the one that the files belong to.
        shard: the shard; None for other files.
        files: names of the shard's files and, last, of the provenance of its rows; or the name of
            a table of documents; or that of any other file.
    """

    split: str
    generation: Generation
    shard: Shard | None
    files: tuple[str, ...]


def list_units(manifest: Manifest) -> list[Unit]:
    """List the shards of a data set with provenance, its tables of documents, rejects and the like.

    Raises:
        ValueError: it has no provenance, or not one file of it for each shard.
    """
    if manifest.provenance is None:
        raise ValueError("there is no provenance")
    units = list(_list_units(manifest, manifest.provenance))
    known = {name for unit in units for name in unit.files}
    first = manifest.provenance.generations[0]
    # The files that describe the data set are written anew.
    others = (entry.file for entry in manifest.files if entry.file not in known)
    kept = [name for name in others if name.startswith(_KEPT_FOLDERS)]
    return [*units, *(Unit("", first, None, (name,)) for name in kept)]


def _list_units(manifest: Manifest, provenance: Provenance) -> Iterator[Unit]:
    names = [entry.file for entry in manifest.files]
    for split, entry in manifest.splits.items():
        spans = list_provenance(names, "spans", split)
        for shard, name in zip(entry.shards, spans, strict=True):
            files = (*manifest.parts(shard.file), name)
            yield Unit(split, provenance.generation_of(name), shard, files)
        for name in list_provenance(names, "documents", split):
            yield Unit(split, provenance.generation_of(name), None, (name,))


def remove_rows(
    manifest: Manifest,
    written: Mapping[str, FileEntry],
    removal: Removal,
    distributions: Mapping[str, Mapping[str, Mapping[int, int]]],
) -> Manifest:
    """Return the manifest of a data set without some rows.

    Args:
        manifest: of the data set with these rows.
        written: the entries of the files that have been rewritten or added, by name.
        removal: what was removed.
        distributions: those of the removed rows, by split and name.
    """
    splits = {
        name: _remove_from(split, written, distributions.get(name, {}))
        for name, split in manifest.splits.items()
    }
    files = [written.get(entry.file, entry) for entry in manifest.files]
    known = manifest.entries
    files += [entry for name, entry in written.items() if name not in known]
    removals = (*manifest.removals, removal)
    return replace(manifest, splits=splits, files=tuple(files), removals=removals)


def _remove_from(
    split: Split,
    written: Mapping[str, FileEntry],
    removed: Mapping[str, Mapping[int, int]],
) -> Split:
    shards = [written.get(shard.file, shard) for shard in split.shards]
    kept = [shard for shard in shards if isinstance(shard, Shard)]
    if not removed:
        return Split.from_shards(kept, split.distributions)
    # Those that cannot be counted again from the columns of a shard are not known any more.
    left = {
        name: as_mapping(_subtract(from_mapping(numbers), from_mapping(removed[name])))
        for name, numbers in split.distributions.items()
        if name in removed
    }
    return Split.from_shards(kept, left)


def _subtract(all_counts: Counts, removed: Counts) -> Counts:
    """Return what is left of a distribution; [3, 0, 2] and [1] give [2, 0, 2]."""
    left = all_counts.copy()
    left[: len(removed)] -= removed
    return left
