"""Two manifests joined: a data set, and the generations that are added to it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import msgspec

from corpusmill.dataset.editing import list_units
from corpusmill.dataset.manifest import REJECTS, FileEntry, Manifest, Split
from corpusmill.dataset.manifest_entries import Generation, Provenance, Source, removal_name
from corpusmill.formats import shard_names
from corpusmill.layout.placement import SPLIT_NAMES

Entry = TypeVar("Entry", bound=FileEntry)

_KINDS = ("provenance/spans-", "provenance/documents-")
# Counts that exist only where something was done, and the count of all to which it was done.
_OF_ALL = {
    "filter.documents": "read.documents",
    "tokenize.copies": "tokenize.documents",
    "tokenize.copied_tokens": "tokenize.tokens",
}


def join_manifests(earlier: Manifest, added: Manifest) -> Manifest:
    """Return the manifest of a data set with a generation more.

    Args:
        earlier: of the data set, with provenance.
        added: of the new generations alone, with provenance.

    Raises:
        ValueError: one of them has no provenance, or only one has sources with names.
    """
    if bool(earlier.corpus.sources) != bool(added.corpus.sources):
        raise ValueError("manifests with and without sources cannot be joined")
    if earlier.provenance is None or added.provenance is None:
        raise ValueError("manifests without provenance cannot be joined")
    corpus = replace(
        earlier.corpus,
        bytes=earlier.corpus.bytes + added.corpus.bytes,
        files=(*earlier.corpus.files, *added.corpus.files),
        sources=_join_sources(earlier.corpus.sources, added.corpus.sources),
    )
    names = {entry.file for entry in added.files}
    return replace(
        earlier,
        corpusmill_version=added.corpusmill_version,
        corpus=corpus,
        counts=_add_counts(earlier.counts, added.counts),
        splits=dict(_join_splits(earlier, added)),
        files=(*(entry for entry in earlier.files if entry.file not in names), *added.files),
        removals=(*earlier.removals, *added.removals),
        provenance=Provenance(
            earlier.provenance.version,
            (*_count_shards(earlier), *_count_shards(added)),
            earlier.provenance.has_spans,
        ),
    )


def rejects_name(tag: str) -> str:
    """Return the name of the file of rejects of a generation, by its tag."""
    begin, end = REJECTS.rsplit(".", maxsplit=1)
    return f"{begin}-{tag}.{end}" if tag else REJECTS


def follow(manifest: Manifest, earlier: Manifest) -> tuple[Manifest, dict[str, str]]:
    """Rename the files of a data set so that its generations can follow those of another one.

    Args:
        manifest: of the data set, with provenance.
        earlier: of the other one, with provenance.

    Returns:
        The manifest with the new names, for `join_manifests`, and {old name: new name} of the
        shards, their companions, provenance and rejects. The files that describe a data set are
        left out.

    Raises:
        ValueError: one of them has no provenance.
    """
    if earlier.provenance is None or manifest.provenance is None:
        raise ValueError("manifests without provenance cannot be joined")
    files_before, parts_before = len(earlier.corpus.files), len(earlier.provenance.generations)
    generations = [
        replace(
            generation,
            first_file=generation.first_file + files_before,
            moved_by=(generation.moved_by or 0) + files_before,
            tag=f"more{parts_before + number}",
        )
        for number, generation in enumerate(_count_shards(manifest))
    ]
    tags = {
        old.tag: new.tag
        for old, new in zip(manifest.provenance.generations, generations, strict=True)
    }
    names = dict(_rename(manifest, tags, len(earlier.removals)))
    splits = {
        name: replace(split, shards=tuple(_with_name(shard, names) for shard in split.shards))
        for name, split in manifest.splits.items()
    }
    files = tuple(_with_name(entry, names) for entry in manifest.files if entry.file in names)
    provenance = replace(manifest.provenance, generations=tuple(generations))
    return replace(manifest, splits=splits, files=files, provenance=provenance), names


def _with_name(entry: Entry, names: Mapping[str, str]) -> Entry:
    return msgspec.structs.replace(entry, file=names[entry.file])


def _rename(
    manifest: Manifest, tags: Mapping[str, str], removals_before: int
) -> Iterator[tuple[str, str]]:
    """Yield the old and the new name of each file that is part of a generation, or lists a removal.

    Args:
        manifest: of the data set.
        tags: {old tag: new tag} of its generations.
        removals_before: number of the removals of the data set before.
    """
    pattern = manifest.output.options.shard_name or shard_names.DEFAULT
    has_source = bool(manifest.corpus.sources)
    for unit in list_units(manifest):
        tag = unit.generation.tag
        for name in unit.files if unit.split else ():
            kind = next((kind for kind in _KINDS if name.startswith(kind)), None)
            names = f"{kind}{{split}}" if kind else pattern
            yield name, shard_names.retag(name, names, tag, tags[tag], has_source)
    for old, new in tags.items():
        yield rejects_name(old), rejects_name(new)
    for number in range(len(manifest.removals)):
        yield removal_name(number), removal_name(number + removals_before)


def _count_shards(manifest: Manifest) -> Iterator[Generation]:
    """Yield the generations of a data set, each with its number of shards."""
    generations = manifest.provenance.generations if manifest.provenance else ()
    if len(generations) > 1:
        yield from generations
        return
    counts = {name: len(split.shards) for name, split in manifest.splits.items()}
    yield from (replace(generation, shards=counts) for generation in generations)


def _join_sources(earlier: Sequence[Source], added: Sequence[Source]) -> tuple[Source, ...]:
    """Join the sources of two manifests, those with one name to one."""
    joined = {source.name: source for source in earlier}
    for source in added:
        before = joined.get(source.name)
        joined[source.name] = source if before is None else _join_source(before, source)
    return tuple(joined[name] for name in sorted(joined))


def _join_source(earlier: Source, added: Source) -> Source:
    repeat, size = earlier.repeat, earlier.bytes + added.bytes
    if added.repeat != repeat and size:
        repeat += (added.repeat - repeat) * added.bytes / size
    counts = _add_counts(earlier.counts, added.counts)
    return Source(earlier.name, repeat, earlier.files + added.files, size, counts)


def _add_counts(earlier: Mapping[str, int], added: Mapping[str, int]) -> dict[str, int]:
    """Add counts, those of what was not done included: then it was done to nothing."""
    complete = [
        {
            **counts,
            **{
                name: counts.get(of_all, 0)
                for name, of_all in _OF_ALL.items()
                if name not in counts and (name in earlier or name in added)
            },
        }
        for counts in (earlier, added)
    ]
    total = Counter(complete[0])
    total.update(complete[1])
    return dict(sorted(total.items()))


def _join_splits(earlier: Manifest, added: Manifest) -> Iterator[tuple[str, Split]]:
    for name in SPLIT_NAMES:
        splits = [manifest.splits[name] for manifest in (earlier, added) if name in manifest.splits]
        if not splits:
            continue
        distributions: dict[str, Counter[int]] = {}
        for split in splits:
            for kind, counts in split.distributions.items():
                distributions.setdefault(kind, Counter()).update(counts)
        shards = [shard for split in splits for shard in split.shards]
        ordered = {kind: dict(sorted(counts.items())) for kind, counts in distributions.items()}
        yield name, Split.from_shards(shards, ordered)
