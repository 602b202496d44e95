"""An estimate of a build, from a sample of the corpus that is built for the purpose.

The documents of the sample are built with every repeat, and the written bytes are only counted. The
result is scaled to the corpus by strata of documents of similar lengths, because the number of
examples per token depends on the length of the document, and the tokens of each stratum are known
for the whole corpus (the separate ratio estimator; Cochran, Sampling Techniques, 1977, section
6.10). The error is that of the delete-a-group jackknife (Kott, 2001). A sample that is the whole
corpus is scaled by 1 and has no error.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.distinct import EMPTY, add_hashes, estimate_distinct
from corpusmill.dataset.manifest_entries import weigh
from corpusmill.formats.output_options import OutputOptions
from corpusmill.inspection.corpus_measures import Bin
from corpusmill.inspection.sample_build import SplitBuild, build_sample, spread_sample, take_first
from corpusmill.layout.placement import SPLIT_NAMES, Layout
from corpusmill.objectives.objective import Objective
from corpusmill.objectives.random_documents import Pool, priorities

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

_GROUPS = 20
_SMALLEST_STRATUM, _MOST_STRATA = 30, 32
_FEWEST_DOCUMENTS = 8
# So many documents are built once before the time is taken, which loads the compiled kernels.
_WARMING_DOCUMENTS = 64

# A sample compresses better than its corpus, because its random documents recur more often: on
# WikiText-2 by up to 6 % with 240,000 tokens, and up to 1 % with 1,000,000 (13 % with 60,000).
_COMPRESSION_ERROR = 0.05


class Estimate(NamedTuple):
    """An estimated number of the whole corpus, with its 95 % confidence interval.

    Attributes:
        value: the number.
        low: start of the interval; None if the sample is too small.
        high: end of the interval; likewise.
    """

    value: int
    low: int | None
    high: int | None

    def times(self, factor: float, error: float = 0.0) -> "Estimate":
        """The estimate of a quantity in a fixed proportion to this one, which has an error."""
        factors = factor, factor * (1 - error), factor * (1 + error)
        pairs = zip(self, factors, strict=True)
        value, low, high = (None if part is None else round(part * by) for part, by in pairs)
        return Estimate(value or 0, low, high)


@dataclass(frozen=True)
class Scale:
    """How a sample of documents represents the corpus; made by `compare`.

    Attributes:
        tokens: int64[documents], tokens of each document of the sample.
        strata: int64[documents], the stratum of each document.
        groups: int64[documents], the jackknife's group; equal shares of each stratum.
        corpus_tokens: float64[strata], tokens of the whole corpus.
    """

    tokens: Int64s
    strata: Int64s
    groups: Int64s
    corpus_tokens: Float64s

    @property
    def share(self) -> float:
        """Share of the corpus' tokens that the sample holds; 1 for an empty corpus."""
        total = self.corpus_tokens.sum()
        return float(self.tokens.sum() / total) if total else 1.0

    @property
    def is_whole(self) -> bool:
        """Whether the sample is the whole corpus."""
        return self.share == 1

    def estimate(self, values: Int64s) -> Estimate:
        """The sum over the corpus of a quantity that each document has.

        Args:
            values: int64[documents], of the sample.
        """
        strata, number = len(self.corpus_tokens), int(self.groups.max(initial=-1)) + 1
        # Row 0 is the sample, the others are the sample without each of the groups.
        cells = np.zeros((2, number + 1, strata))
        for cell, numbers in zip(cells, (values, self.tokens), strict=True):
            np.add.at(cell, (self.groups + 1, self.strata), numbers)
            cell[0] = cell[1:].sum(axis=0)
            cell[1:] = cell[0] - cell[1:]
        sums, tokens = cells
        scaled = sums * (self.corpus_tokens / np.maximum(tokens, 1))
        totals = scaled.sum(axis=1)
        value = round(totals[0])
        if self.is_whole:
            return Estimate(value, value, value)
        if len(values) < _FEWEST_DOCUMENTS:
            return Estimate(value, None, None)
        variance = (number - 1) / number * ((totals[1:] - totals[0]) ** 2).sum()
        # No finite population correction: random documents come from the sample, too, and their
        # contribution to the error is not in the variance.
        # The 97.5 % point of Student's t to within 1 % (Abramowitz and Stegun, 26.7.5).
        student = 1.960 + 2.372 / (number - 1) + 2.822 / (number - 1) ** 2
        margin = student * np.sqrt(variance)
        return Estimate(value, max(0, round(totals[0] - margin)), round(totals[0] + margin))


def estimate_build(
    objective: Objective,
    pool: Pool,
    scale: Scale,
    layout: Layout,
    options: OutputOptions,
) -> dict[str, Any]:
    """Build the sample, and estimate a build of the corpus from it.

    Args:
        objective: of the build.
        pool: the sample.
        scale: from the sample to the corpus.
        layout: of the data set.
        options: of the shards, as the format resolves them.

    Returns:
        The entry "build" of `corpusmill.inspection.corpus_numbers`, without what it takes to read
        and to shuffle the corpus.
    """
    spread = layout if scale.is_whole else spread_sample(layout, objective.repeats)
    build_sample(objective, take_first(pool, _WARMING_DOCUMENTS), spread, options)
    began = time.process_time()
    built = build_sample(objective, pool, spread, options)
    seconds = time.process_time() - began
    sampled = int(scale.tokens.sum())
    rows = sum(split.written_rows for split in built.values())
    sketch = reduce(add_hashes, (split.sketch for split in built.values()), EMPTY)
    same_pool = not objective.pool_tokens or sampled <= objective.pool_tokens
    shards = (layout.train_shards, layout.validation_shards)
    return {
        "exact": scale.is_whole and same_pool,
        "sample": {
            "documents": len(scale.tokens),
            "tokens": sampled,
            "share": scale.share,
            "rows": rows,
            "distinct_rows": min(rows, estimate_distinct(sketch)),
            "used_ids": len(np.unique(pool.token_ids >> bool(objective.words))),
        },
        "splits": {
            name: {"shards": number, **_estimate_split(scale, built[name])}
            for name, number in zip(SPLIT_NAMES, shards, strict=True)
            if number
        },
        "processor_seconds": seconds * float(scale.corpus_tokens.sum()) / max(1, sampled),
    }


def _estimate_split(scale: Scale, split: SplitBuild) -> dict[str, Any]:
    rows, tokens = scale.estimate(split.rows), scale.estimate(split.tokens)
    rows = rows.times(split.written_rows / max(1, int(split.rows.sum())))
    built_tokens = max(1, int(split.tokens.sum()))
    lengths = split.distributions.get("length", np.zeros(0, np.int64))
    written = tokens.times(weigh(lengths) / built_tokens)
    size = tokens.times(split.bytes / built_tokens, _COMPRESSION_ERROR)
    if scale.is_whole:
        size = Estimate(split.bytes, split.bytes, split.bytes)
    return {
        "rows": rows._asdict(),
        "tokens": written._asdict(),
        "bytes": size._asdict(),
        "built_bytes": tokens.times(split.built_bytes / built_tokens)._asdict(),
        "counts": split.counts,
        "distributions": {name: counts.tolist() for name, counts in split.distributions.items()},
    }


def compare(pool: Pool, seed: int, corpus: Sequence[Bin]) -> Scale:
    """Compare a sample with its corpus.

    Args:
        pool: the sample.
        seed: by which it was drawn.
        corpus: the bins of the tokens per document of the whole corpus.
    """
    tokens = np.diff(pool.sentence_offsets[pool.document_offsets])
    firsts = np.array([part.first for part in corpus], np.int64)
    bins = np.searchsorted(firsts, tokens, side="right") - 1
    strata_of_bins = stratify(np.bincount(bins, minlength=len(firsts)))
    strata = strata_of_bins[bins]
    order = np.lexsort((priorities(seed, pool.documents), strata))
    groups = np.empty(len(tokens), np.int64)
    groups[order] = np.arange(len(tokens)) % _GROUPS
    sums = np.array([part.sum for part in corpus], np.float64)
    corpus_tokens = np.bincount(strata_of_bins, sums).astype(np.float64)
    return Scale(tokens, strata, groups, corpus_tokens)


def stratify(documents: Int64s) -> Int64s:
    """Join neighbouring bins to strata with enough documents of the sample each.

    Args:
        documents: int64[bins], documents of the sample in each bin.

    Returns:
        int64[bins], the stratum of each bin: [30, 1, 29, 0, 5] gives [0, 1, 1, 1, 1].
    """
    enough = max(_SMALLEST_STRATUM, int(documents.sum()) // _MOST_STRATA)
    strata = np.zeros(len(documents), np.int64)
    complete = inside = 0
    for place, number in enumerate(documents.tolist()):
        strata[place] = complete
        inside += number
        if inside >= enough:
            complete, inside = complete + 1, 0
    # The bins after the last complete stratum have too few documents for one of their own.
    return np.minimum(strata, max(0, complete - 1))
