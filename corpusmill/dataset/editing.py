"""How a data set comes to be, and is edited: its manifest, its shards, and the units of that work.

A build adds its results to the header of a manifest. Rows are removed from a data set, and a
generation is added to it; either gives a new manifest. A shard that loses rows is written again,
and all others stay as they are.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import tokens_of
from corpusmill.dataset.accounting import is_of_the_run, split_distributions, split_sources
from corpusmill.dataset.manifest import REJECTS, ROOT, FileEntry, Manifest, Shard, Split
from corpusmill.dataset.manifest_entries import (
    Counts,
    Generation,
    Provenance,
    Removal,
    Source,
    add_all,
    base_name,
    list_provenance,
    recount,
)
from corpusmill.dataset.shards import open_groups, read_shard
from corpusmill.formats.shard_formats import GROUP_ROWS, GROUP_TOKENS, Sinks
from corpusmill.layout.placement import SPLIT_NAMES
from corpusmill.layout.sorting import cut_into_groups
from corpusmill.location import Location


def add_unread(header: Manifest, unread: Mapping[int, int], first_file: int = 0) -> Manifest:
    """Add the unread bytes of the files that could not be read to their end.

    Args:
        header: the manifest without its results.
        unread: these bytes by the number of the file.
        first_file: the number of the first file of its corpus.
    """
    files = list(header.corpus.files)
    for index, number in unread.items():
        files[index - first_file] = replace(files[index - first_file], unread=number)
    return replace(header, corpus=replace(header.corpus, files=tuple(files)))


def add_results(
    header: Manifest,
    counts: dict[str, int],
    shards: Mapping[str, list[Shard]],
    files: Sequence[FileEntry],
) -> Manifest:
    """Add what was made: counts, shards by split, and the other files."""
    header, common = add_source_counts(header, counts)
    plain, distributions = split_distributions(common)
    splits = {
        name: Split.from_shards(shards[name], distributions.get(name, {}))
        for name in SPLIT_NAMES
        if name in shards
    }
    kept = {name: number for name, number in plain.items() if not is_of_the_run(name)}
    return replace(header, counts=kept, splits=splits, files=tuple(files))


def add_source_counts(
    header: Manifest, counts: Mapping[str, int]
) -> tuple[Manifest, dict[str, int]]:
    """Add the counts of each source, and return those of all text, too."""
    common, of_sources = split_sources(counts)
    sources = tuple(
        replace(source, counts=dict(sorted(of_sources.get(source.name, {}).items())))
        for source in header.corpus.sources
    )
    return replace(header, corpus=replace(header.corpus, sources=sources)), common


class Unit(NamedTuple):
    """Files of a data set that are rewritten together.

    Attributes:
        split: name of the split.
        shard: the shard; None for a table of documents.
        files: names of the shard's files and, last, of the provenance of its rows; or the name of
            a table of documents.
    """

    split: str
    shard: Shard | None
    files: tuple[str, ...]


def list_units(manifest: Manifest) -> list[Unit]:
    """List the shards of a data set with provenance, and its tables of documents.

    Raises:
        ValueError: it has not one file of provenance for each shard.
    """
    names, units = [entry.file for entry in manifest.files], list[Unit]()
    for split, entry in manifest.splits.items():
        spans = list_provenance(names, "spans", split)
        for shard, name in zip(entry.shards, spans, strict=True):
            units.append(Unit(split, shard, (*manifest.parts(shard.file), name)))
        for name in list_provenance(names, "documents", split):
            units.append(Unit(split, None, (name,)))
    return units


def remove_rows(
    manifest: Manifest,
    written: Mapping[str, FileEntry],
    removal: Removal,
    distributions: Mapping[str, Mapping[str, Mapping[int, int]]],
) -> Manifest:
    """Return the manifest of a data set without some rows.

    Args:
        manifest: of the data set with these rows.
        written: the entries of the files that have been rewritten or added, by the names of those
            in whose place they are.
        removal: what was removed.
        distributions: those of the removed rows, by split and name.
    """
    splits = {
        name: _remove_from(split, written, distributions.get(name, {}))
        for name, split in manifest.splits.items()
    }
    files = [written.get(entry.file, entry) for entry in leave_out_copied(manifest.files)]
    earlier_files = manifest.entries
    files += [entry for name, entry in written.items() if name not in earlier_files]
    removals = (*manifest.removals, removal)
    return replace(manifest, splits=splits, files=tuple(files), removals=removals)


def _remove_from(
    split: Split,
    written: Mapping[str, FileEntry],
    removed: Mapping[str, Mapping[int, int]],
) -> Split:
    shards = [written.get(shard.file, shard) for shard in split.shards]
    remaining = [shard for shard in shards if isinstance(shard, Shard)]
    if not removed:
        return Split.from_shards(remaining, split.distributions)
    # Those that cannot be counted again from the columns of a shard are not known any more.
    left = {
        name: {
            value: number - removed[name].get(value, 0)
            for value, number in numbers.items()
            if number > removed[name].get(value, 0)
        }
        for name, numbers in split.distributions.items()
        if name in removed
    }
    return Split.from_shards(remaining, left)


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
        added: of the new generation alone, with provenance.
    """
    assert earlier.provenance  # noqa: S101  nothing is added to a data set without it
    added_corpus = added.corpus.relative_to(earlier.corpus)
    corpus = replace(
        earlier.corpus,
        sentence_splitter=earlier.corpus.sentence_splitter or added_corpus.sentence_splitter,
        package=earlier.corpus.package or added_corpus.package,
        bytes=earlier.corpus.bytes + added.corpus.bytes,
        files=(*earlier.corpus.files, *added.corpus.files),
        sources=_join_sources(earlier.corpus.sources, added_corpus.sources),
    )
    return replace(
        earlier,
        corpusmill_version=added.corpusmill_version,
        corpus=corpus,
        counts=_add_counts(earlier.counts, added.counts),
        splits=dict(_join_splits(earlier, added)),
        files=(*leave_out_copied(earlier.files), *added.files),
        first_reject=earlier.first_reject or added.first_reject,
        provenance=Provenance(
            earlier.provenance.version,
            (*_count_shards(earlier), *_count_shards(added)),
            earlier.provenance.has_spans,
        ),
    )


def leave_out_copied(files: Iterable[FileEntry]) -> Iterator[FileEntry]:
    """Yield the files but those that are copied beside the manifest; each version has its own."""
    yield from (entry for entry in files if not base_name(entry.file).startswith(ROOT))


def rejects_name(tag: str) -> str:
    """Return the name of the file of rejects of a generation, by its tag."""
    begin, end = REJECTS.rsplit(".", maxsplit=1)
    return f"{begin}-{tag}.{end}" if tag else REJECTS


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
        if before is None:
            joined[source.name] = source
        else:
            repeat, size = before.repeat, before.bytes + source.bytes
            if source.repeat != repeat and size:
                repeat += (source.repeat - repeat) * source.bytes / size
            counts = _add_counts(before.counts, source.counts)
            files, options = before.files + source.files, before.options
            joined[source.name] = Source(source.name, repeat, files, size, counts, options)
    return tuple(joined[name] for name in sorted(joined))


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
        rows = sum(split.rows for split in splits)
        # After a removal, a part may not know some of its distributions any more.
        whole = {
            kind: dict(sorted(counts.items()))
            for kind, counts in distributions.items()
            if counts.total() == rows
        }
        yield name, Split.from_shards(shards, whole)


def rewrite_shard(
    folder: Location,
    manifest: Manifest,
    shard: str,
    kept: npt.NDArray[np.bool_],
    sinks: Sinks,
) -> dict[str, Counts]:
    """Write the rows of a shard that are kept, in their order.

    Where the format allows it, groups that lose nothing are copied as they stand, and only those
    between them are decoded and encoded, in groups as a build would have written them.

    Args:
        folder: of the data set.
        manifest: of the data set.
        shard: file name of the shard.
        kept: bool[rows], which rows are kept.
        sinks: one per suffix of the format.

    Returns:
        The distributions of the rows that are not kept, as `recount` returns them.

    Raises:
        ValueError: the shard is damaged.
        OSError: likewise.
    """
    options = manifest.output.options
    shard_format = manifest.output.shard_format
    removed: dict[str, Counts] = {}
    writer = shard_format.open_writer(sinks, manifest.columns, options)

    def encode(parts: Iterable[tuple[Iterator[pa.RecordBatch], npt.NDArray[np.bool_]]]) -> None:
        rows = _choose(parts, manifest, removed)
        for batch in _cut(rows, manifest, shard_format.group_rows, GROUP_TOKENS):
            writer.write(batch)

    with open_groups(folder, manifest, shard) as groups:
        ends = accumulate(group.rows for group in groups)
        flags = [kept[end - group.rows : end] for group, end in zip(groups, ends, strict=True)]
        places = zip(groups, flags, strict=True)
        for is_copied, run in groupby(
            places, lambda place: place[1].all() and place[0].fits(writer)
        ):
            if is_copied:
                for group, _ in run:
                    group.copy_to(writer)
            else:
                encode((group.read(GROUP_ROWS), own) for group, own in run)
        if not groups:
            encode([(read_shard(folder, manifest, shard, GROUP_ROWS), kept)])
    writer.close()
    return removed


def _choose(
    parts: Iterable[tuple[Iterator[pa.RecordBatch], npt.NDArray[np.bool_]]],
    manifest: Manifest,
    removed: dict[str, Counts],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that are kept, and add the distributions of the others to `removed`.

    Args:
        parts: the rows of some groups, and bool[rows], which of them are kept.
        manifest: of the data set.
        removed: distributions by name, changed.
    """
    for batches, kept in parts:
        begin = 0
        for batch in batches:
            is_kept = kept[begin : begin + batch.num_rows]
            begin += batch.num_rows
            add_all(removed, recount(_filter(batch, ~is_kept), manifest.columns, manifest.longest))
            yield _filter(batch, is_kept)


def _filter(batch: pa.RecordBatch, kept: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    if kept.all():
        return batch
    if any(pa.types.is_fixed_size_list(column.type) for column in batch.columns):
        return batch.filter(pa.array(kept))
    return ragged.take_rows(batch, np.flatnonzero(kept))


def _cut(
    batches: Iterator[pa.RecordBatch], manifest: Manifest, rows: int, tokens: int
) -> Iterator[pa.RecordBatch]:
    """Cut rows into the groups in which they are encoded."""
    filled = (batch for batch in batches if batch.num_rows)
    if not manifest.output.options.is_padded:
        return cut_into_groups(filled, tokens_of(manifest.columns).name, rows, tokens)
    return _cut_padded(filled, rows)


def _cut_padded(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        while sum(part.num_rows for part in waiting) >= rows:
            joined = pa.concat_batches(waiting)
            yield joined.slice(0, rows)
            waiting = [joined.slice(rows)] if joined.num_rows > rows else []
    if waiting:
        yield pa.concat_batches(waiting)
