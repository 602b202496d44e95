"""How the sources of a mixture take turns: from a number to a source, and to a number of its own.

The samples of a stage are divided as by a tree: of the places of a node, its first child gets those
at which its share of them rounds up to the next whole number (Bresenham's line), and its second
child the others. The leaves are the sources. It is Huffman's tree: nodes grow at least like
Fibonacci's numbers from a leaf to the root, and the errors of rounding add up to less than two
samples, whatever the number of sources and their quotas. The places of the sources with most
samples are found in the fewest steps.

Source of the tree: Huffman 1952, "A Method for the Construction of Minimum-Redundancy Codes".
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import MIXTURE, derive_key, draw
from corpusmill.reading.order.permutation import permute
from corpusmill.reading.order.shares import round_share
from corpusmill.reading.rows import Integers


class Turns(NamedTuple):
    """The stages of a mixture as arrays.

    The nodes of a stage's tree are numbered: first the sources, then their common nodes.

    Attributes:
        starts: int64[stages], the number at which each stage begins.
        bases: int64[stages, sources], the samples of each source in all stages before.
        sizes: int64[stages, nodes], the samples of each node in the stage.
        children: int64[stages, nodes - sources, 2], both children of each common node.
        roots: int64[stages], the node of all samples.
    """

    starts: Integers
    bases: Integers
    sizes: Integers
    children: Integers
    roots: Integers

    @classmethod
    def from_quotas(cls, stages: Sequence[Sequence[int]]) -> "Turns":
        """Return the turns of stages, each given by the samples of every source, 0 or more."""
        quotas = np.array(stages, np.int64)
        sources = quotas.shape[1]
        sizes = np.zeros((len(quotas), 2 * sources - 1), np.int64)
        children = np.zeros((len(quotas), sources - 1, 2), np.int64)
        roots = [_grow(stage, sizes[place], children[place]) for place, stage in enumerate(quotas)]
        bases = np.cumsum(quotas, axis=0) - quotas
        return cls(bases.sum(axis=1), bases, sizes, children, np.array(roots, np.int64))

    def assign(self, numbers: Integers, stretch: int, seed: int) -> tuple[Integers, Integers]:
        """Return the source of each number, and its number in that source's endless sequence.

        Args:
            numbers: int64[n], places of the mixture's sequence, in which the last stage is repeated
                without end.
            stretch: the number of consecutive places that are permuted together; 1 for none.
            seed: the seed of these permutations.

        Returns:
            int64[n], int64[n].

        Example:
            with quotas 2 and 1 in the only stage, and stretch 1, the numbers 0 to 5 belong to the
            sources [0, 1, 0, 0, 1, 0], where they are the numbers [0, 0, 1, 2, 1, 3].
        """
        sources, own = _assign(numbers, *self, stretch, np.uint64(seed))
        return sources, own


def _grow(quotas: Integers, sizes: npt.NDArray[np.int64], children: npt.NDArray[np.int64]) -> int:
    """Make the tree of a stage, and return its root.

    Args:
        quotas: int64[sources], of which one or more are not 0.
        sizes: int64[nodes], filled.
        children: int64[nodes - sources, 2], filled.
    """
    sizes[: len(quotas)] = quotas
    waiting = [(quota, source) for source, quota in enumerate(quotas.tolist()) if quota]
    heapify(waiting)
    node = len(quotas)
    while len(waiting) > 1:
        pair = sorted([heappop(waiting), heappop(waiting)], key=lambda item: item[1])
        children[node - len(quotas)] = [child for _, child in pair]
        sizes[node] = sum(size for size, _ in pair)
        heappush(waiting, (int(sizes[node]), node))
        node += 1
    return waiting[0][1]


@njit
def _assign(
    numbers: np.ndarray,
    starts: np.ndarray,
    bases: np.ndarray,
    sizes: np.ndarray,
    children: np.ndarray,
    roots: np.ndarray,
    stretch: int,
    seed: np.uint64,
) -> tuple[np.ndarray, np.ndarray]:
    sources, own = np.empty_like(numbers), np.empty_like(numbers)
    count, stage = bases.shape[1], 0
    for i in range(len(numbers)):
        is_later = stage + 1 < len(starts) and numbers[i] >= starts[stage + 1]
        if is_later or numbers[i] < starts[stage]:
            stage = np.searchsorted(starts, numbers[i], side="right") - 1
        node = roots[stage]
        total = sizes[stage, node]
        place = numbers[i] - starts[stage]
        turn = place // total  # above 0 in the last stage only
        place -= turn * total
        number = place // stretch
        begin = number * stretch
        if stretch > 1:
            key = draw(np.uint64(derive_key(seed, number, stage + turn, MIXTURE)), 0)
            place = begin + permute(place - begin, min(stretch, total - begin), key)
        while node >= count:
            whole, first = sizes[stage, node], children[stage, node - count, 0]
            before = round_share(place, sizes[stage, first], whole)
            if round_share(place + 1, sizes[stage, first], whole) > before:
                node, place = first, before
            else:
                node, place = children[stage, node - count, 1], place - before
        sources[i] = node
        own[i] = bases[stage, node] + turn * sizes[stage, node] + place
    return sources, own
