"""The parts of a data set: shards of one part are random samples of the same text."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpusmill.dataset.manifest import Manifest, Shard

# From how many shards, or stretches of the corpus, a window takes rows where shards are no random
# samples, or larger than windows.
SLICES = 8
STRETCHES = 64


class Pieces(NamedTuple):
    """Consecutive rows of a split that are read as one shard.

    Attributes:
        sizes: samples of each piece.
        parts: the part of each; empty if all are of one.
    """

    sizes: tuple[int, ...]
    parts: tuple[int, ...]


def find_parts(manifest: Manifest, split: str, shards: Sequence[Shard]) -> tuple[int, ...]:
    """Return the number of the part that each of some shards belongs to; () for a single part.

    A part is what was built at a time, of one source, in one length bin.

    Args:
        manifest: of the data set.
        split: of the shards.
        shards: some shards of the split.

    Example:
        ("wiki", "wiki", "books") are the sources of parts (0, 0, 1).
    """
    generations = manifest.provenance.generations if manifest.provenance else ()
    if len(generations) < 2 and not manifest.corpus.sources and not _has_bins(shards):
        return ()
    counts = [generation.shards.get(split, 0) for generation in generations]
    files = (shard.file for shard in manifest.splits[split].shards)
    numbers = np.repeat(np.arange(len(counts)), counts).tolist() if len(counts) > 1 else []
    generation_of = dict(zip(files, numbers, strict=False))
    known: dict[tuple[int, str | None, int | None], int] = {}
    parts = tuple(
        known.setdefault((generation_of.get(shard.file, 0), shard.source, shard.bin), len(known))
        for shard in shards
    )
    return parts if len(known) > 1 else ()


def _has_bins(shards: Sequence[Shard]) -> bool:
    return any(shard.bin is not None for shard in shards[:1])


def cut_stretches(sizes: Sequence[int], parts: Sequence[int], stretches: int = STRETCHES) -> Pieces:
    """Cut shards where rows follow the corpus, so that a window takes rows of its whole length.

    Each part is cut into stretches of equal size, in proportion to its rows. A stretch is a part of
    its own; shards are cut where it ends.

    Args:
        sizes: samples of each shard.
        parts: the part of each shard; empty if all are of one.
        stretches: their number in all, about.

    Example:
        sizes (5, 3) of one part and two stretches give the sizes (4, 1, 3) and the parts (0, 1, 1).
    """
    rows = np.array(sizes, np.int64)
    labels = np.array(parts, np.int64) if len(parts) else np.zeros(len(rows), np.int64)
    total, first = max(1, int(rows.sum())), 0
    cut: list[npt.NDArray[np.int64]] = []
    for part in np.unique(labels).tolist():
        shards = np.flatnonzero(labels == part)
        ends = np.cumsum(rows[shards])
        size = int(ends[-1])
        count = max(1, round(stretches * size / total))
        borders = size * np.arange(1, count) // count
        bounds = np.unique(np.concatenate([[0], ends, borders]))
        own = shards[np.searchsorted(ends, bounds[:-1], side="right")]
        stretch = first + np.searchsorted(borders, bounds[:-1], side="right")
        cut.append(np.stack([own, np.diff(bounds), stretch]))
        first += count
    pieces = np.concatenate(cut, axis=1) if cut else np.empty((3, 0), np.int64)
    pieces = pieces[:, np.argsort(pieces[0], kind="stable")]
    return Pieces(tuple(pieces[1].tolist()), tuple(pieces[2].tolist()))
