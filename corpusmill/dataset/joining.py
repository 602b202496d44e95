"""Two manifests joined: a data set, and a generation that is added to it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from corpusmill.dataset.manifest import Manifest, Split
from corpusmill.dataset.provenance import Generation, Provenance
from corpusmill.layout.placement import SPLIT_NAMES

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

    Raises:
        ValueError: one of them has no provenance.
    """
    if earlier.provenance is None or added.provenance is None:
        raise ValueError("manifests without provenance cannot be joined")
    corpus = replace(
        earlier.corpus,
        bytes=earlier.corpus.bytes + added.corpus.bytes,
        files=(*earlier.corpus.files, *added.corpus.files),
    )
    names = {entry.file for entry in added.files}
    return replace(
        earlier,
        corpusmill_version=added.corpusmill_version,
        corpus=corpus,
        counts=_add_counts(earlier.counts, added.counts),
        splits=dict(_join_splits(earlier, added)),
        files=(*(entry for entry in earlier.files if entry.file not in names), *added.files),
        provenance=Provenance(
            earlier.provenance.version,
            (*_count_shards(earlier), *_count_shards(added)),
            earlier.provenance.has_spans,
        ),
    )


def _count_shards(manifest: Manifest) -> Iterator[Generation]:
    """Yield the generations of a data set, each with its number of shards."""
    generations = manifest.provenance.generations if manifest.provenance else ()
    if len(generations) > 1:
        yield from generations
        return
    counts = {name: len(split.shards) for name, split in manifest.splits.items()}
    yield from (replace(generation, shards=counts) for generation in generations)


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
