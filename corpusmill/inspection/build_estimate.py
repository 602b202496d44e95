"""What a build would give, from a sample of the corpus that is built for the purpose.

The documents of the sample are built with every repeat and written, to nowhere. What that gives is
scaled to the corpus by strata of documents of like length, whose tokens are known of the whole
corpus (the separate ratio estimator; Cochran, Sampling Techniques, 1977, section 6.10): how many
examples a token gives depends on how long its document is. The error is that of the delete-a-group
jackknife (Kott, 2001). A sample that is the whole corpus is scaled by 1, and has no error.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.parquet import ROW_GROUP_ROWS
from corpusmill.formats.shard_formats import FORMATS
from corpusmill.inspection.corpus_measures import Histogram
from corpusmill.layout.length_bins import cut_lengths, split_into_bins
from corpusmill.layout.placement import SPLIT_NAMES, Layout
from corpusmill.layout.sorting import add_keys, order_by_bucket, sort_rows
from corpusmill.objectives.objective import Objective
from corpusmill.objectives.random_documents import Pool, priorities
from corpusmill.tokenization.encoding import tokenized_schema

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

_GROUPS = 20
_SMALLEST_STRATUM, _MOST_STRATA = 30, 32
_FEWEST_DOCUMENTS = 8

# A sample compresses better than its corpus, as its random documents recur more often: on
# WikiText-2 by up to 6 % with 240,000 tokens, and up to 1 % with 1,000,000 (13 % with 60,000).
_COMPRESSION_ERROR = 0.05


@dataclass
class SplitBuild:
    """What the sample gave of one split.

    Attributes:
        rows: int64[documents of the sample], examples of each; 0 where it is of the other split.
        tokens: int64[documents of the sample], sum of the lengths of these.
        bytes: of the shards.
        built_bytes: of the examples before they are written.
        written_rows: examples that were written; fewer than built where several are packed into
            one.
        distributions: of the examples, counts by value.
    """

    rows: Int64s
    tokens: Int64s
    bytes: int
    built_bytes: int
    written_rows: int
    distributions: dict[str, Int64s]


def spread_sample(layout: Layout, repeats: int) -> Layout:
    """The layout for a sample: a shard for each repeat.

    No shard holds a text twice then. In a data set the repeats of a text lie far from each other;
    in a single shard of a sample they would lie close, and compress far better (measured on
    WikiText-2 with a sample of 240,000 tokens: to 88 % of the bytes, and so to 96 %).
    """
    validation = repeats if layout.validation_shards else 0
    return replace(layout, train_shards=repeats, validation_shards=validation)


def build_sample(
    objective: Objective, pool: Pool, layout: Layout, options: OutputOptions
) -> dict[str, SplitBuild]:
    """Build all examples of a sample, and see what they are.

    Args:
        objective: what is built.
        pool: the sample; it is also the pool of random documents.
        layout: how the examples are spread; with the data set's own the shards are the data set's
            where the sample is the whole corpus.
        options: of the shards, with nothing left to the format.

    Returns:
        Each split that has a shard.
    """
    documents = int(pool.split_offsets[-1])
    splits = np.repeat(np.arange(2, dtype=np.uint8), np.diff(pool.split_offsets))
    of_homes = []
    if documents:
        homes = layout.homes(pool.documents, splits)
        of_homes = list(order_by_bucket([_to_batch(pool)], [homes]))
    built: dict[str, SplitBuild] = {}
    for shard in range(layout.shards):
        nothing = np.zeros((2, documents), np.int64)
        split = built.setdefault(
            SPLIT_NAMES[layout.split_of(shard)], SplitBuild(nothing[0], nothing[1], 0, 0, 0, {})
        )
        examples: list[pa.RecordBatch] = []
        for home, of_home in of_homes:
            if layout.split_of(home) == layout.split_of(shard):
                examples += _build(objective, of_home, shard, home, pool, layout)
        _count(split, examples, pool)
        split.bytes += _write(objective, examples, options, split)
    return built


def _to_batch(pool: Pool) -> pa.RecordBatch:
    sentences = ragged.to_arrow(
        ragged.to_arrow(pool.token_ids, pool.sentence_offsets), pool.document_offsets
    )
    schema = tokenized_schema(pool.token_ids.dtype.name)
    return ragged.to_batch([pool.documents, sentences], schema)


def _build(
    objective: Objective,
    documents: pa.RecordBatch,
    shard: int,
    home: int,
    pool: Pool,
    layout: Layout,
) -> Iterator[pa.RecordBatch]:
    splits = np.full(documents.num_rows, layout.split_of(shard), np.uint8)
    for repeat in layout.repeats_of(shard, home, objective.repeats):
        examples = objective.build(documents, repeat, pool, splits, layout.seed)
        yield add_keys(examples, layout.seed)


def _count(split: SplitBuild, batches: list[pa.RecordBatch], pool: Pool) -> None:
    order = np.argsort(pool.documents)
    for examples in batches:
        ids = examples.column("document").to_numpy()
        places = order[np.searchsorted(pool.documents, ids, sorter=order)]
        lengths = np.diff(examples.column("input_ids").offsets.to_numpy())
        split.rows += np.bincount(places, minlength=len(order))
        split.tokens += np.bincount(places, lengths, len(order)).astype(np.int64)
        split.built_bytes += examples.nbytes


def _write(
    objective: Objective, batches: list[pa.RecordBatch], options: OutputOptions, split: SplitBuild
) -> int:
    of, bins = FORMATS[options.output_format], cut_lengths(objective.columns, options.bin_size)
    # They count the bytes and forget them.
    sinks = [[pa.MockOutputStream() for _ in of.suffixes(options)] for _ in bins or (0,)]
    writers = [of.open_writer(of_bin, objective.columns, options) for of_bin in sinks]
    rows = sort_rows(batches, ROW_GROUP_ROWS) if batches else iter(())
    for number, group in split_into_bins(objective.pack(rows), bins, ROW_GROUP_ROWS):
        split.written_rows += group.num_rows
        for name, counts in objective.measure(group).items():
            split.distributions[name] = _add(split.distributions.get(name), counts)
        writers[number].write(objective.finish(group, options.is_padded))
    for writer in writers:
        writer.close()
    return sum(int(sink.size()) for of_bin in sinks for sink in of_bin)


def _add(some: Int64s | None, more: Int64s) -> Int64s:
    if some is None:
        return more.astype(np.int64)
    sums = np.zeros(max(len(some), len(more)), np.int64)
    sums[: len(some)] += some
    sums[: len(more)] += more
    return sums


class Estimate(NamedTuple):
    """A number of the whole corpus, and the interval that holds it in 95 of 100 samples.

    Attributes:
        value: the number.
        low: begin of the interval; None where the sample is too small to tell.
        high: its end.
    """

    value: int
    low: int | None
    high: int | None

    def times(self, factor: float) -> "Estimate":
        """The estimate of what is in a fixed proportion."""
        value, low, high = (None if of is None else round(of * factor) for of in self)
        return Estimate(value or 0, low, high)

    def widen(self, share: float) -> "Estimate":
        """The estimate with an interval that is wider by a share of its ends."""
        if self.low is None or self.high is None:
            return self
        return Estimate(self.value, round(self.low * (1 - share)), round(self.high * (1 + share)))


@dataclass(frozen=True)
class Scale:
    """How a sample of documents stands for the corpus; `compare` makes it.

    Attributes:
        tokens: int64[documents], of each document of the sample.
        strata: int64[documents].
        groups: int64[documents], the jackknife's; equal shares of each stratum.
        corpus_tokens: float64[strata], of the whole corpus.
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

    def estimate(self, values: Int64s) -> Estimate:
        """The corpus' sum of what the documents of the sample have.

        Args:
            values: int64[documents].
        """
        strata, number = len(self.corpus_tokens), int(self.groups.max(initial=-1)) + 1
        # Row 0 is the sample, the others are the sample without each of the groups.
        cells = np.zeros((2, number + 1, strata))
        for cell, of in zip(cells, (values, self.tokens), strict=True):
            np.add.at(cell, (self.groups + 1, self.strata), of)
            cell[0] = cell[1:].sum(axis=0)
            cell[1:] = cell[0] - cell[1:]
        given, tokens = cells
        scaled = given * (self.corpus_tokens / np.maximum(tokens, 1))
        totals = scaled.sum(axis=1)
        value = round(totals[0])
        if self.share >= 1:
            return Estimate(value, value, value)
        if len(values) < _FEWEST_DOCUMENTS:
            return Estimate(value, None, None)
        variance = (number - 1) / number * ((totals[1:] - totals[0]) ** 2).sum()
        # Not less for a sample that is a large part of its corpus, as the random documents are of
        # the sample, too, and what they add to the error is not in the variance.
        margin = _student(number - 1) * np.sqrt(variance)
        return Estimate(value, max(0, round(totals[0] - margin)), round(totals[0] + margin))


def estimate_build(
    objective: Objective, scale: Scale, built: Mapping[str, SplitBuild], layout: Layout
) -> dict[str, Any]:
    """What a build of the corpus would give, as `corpusmill.inspection.corpus_numbers` shows it.

    Args:
        objective: what would be built.
        scale: from the sample to the corpus.
        built: what the sample gave.
        layout: of the data set.
    """
    sampled = int(scale.tokens.sum())
    same_pool = not objective.pool_tokens or sampled <= objective.pool_tokens
    shards = (layout.train_shards, layout.validation_shards)
    return {
        "exact": scale.share >= 1 and same_pool,
        "sample": {"documents": len(scale.tokens), "tokens": sampled, "share": scale.share},
        "splits": {
            name: {"shards": number, **_estimate_split(scale, built[name])}
            for name, number in zip(SPLIT_NAMES, shards, strict=True)
            if number
        },
    }


def _estimate_split(scale: Scale, split: SplitBuild) -> dict[str, Any]:
    rows, tokens = scale.estimate(split.rows), scale.estimate(split.tokens)
    rows = rows.times(split.written_rows / max(1, int(split.rows.sum())))
    built_tokens = max(1, int(split.tokens.sum()))
    lengths = split.distributions.get("length", np.zeros(0, np.int64))
    written = tokens.times(int(lengths @ np.arange(len(lengths))) / built_tokens)
    size = tokens.times(split.bytes / built_tokens).widen(_COMPRESSION_ERROR)
    if scale.share >= 1:
        size = Estimate(split.bytes, split.bytes, split.bytes)
    return {
        "rows": rows._asdict(),
        "tokens": written._asdict(),
        "bytes": size._asdict(),
        "built_bytes": tokens.times(split.built_bytes / built_tokens)._asdict(),
        "distributions": {name: of.tolist() for name, of in split.distributions.items()},
    }


def _student(degrees: int) -> float:
    """The 97.5 % point of Student's t (Abramowitz and Stegun, 26.7.5), good to 1 %."""
    return 1.960 + 2.372 / degrees + 2.822 / degrees**2


def compare(pool: Pool, seed: int, corpus: Histogram) -> Scale:
    """See how a sample stands for its corpus.

    Args:
        pool: the sample.
        seed: with which it was drawn.
        corpus: tokens per document of the whole corpus.
    """
    tokens = np.diff(pool.sentence_offsets[pool.document_offsets])
    firsts = np.array([of.first for of in corpus.bins], np.int64)
    bins = np.searchsorted(firsts, tokens, side="right") - 1
    strata_of_bins = stratify(np.bincount(bins, minlength=len(firsts)))
    strata = strata_of_bins[bins]
    order = np.lexsort((priorities(seed, pool.documents), strata))
    groups = np.empty(len(tokens), np.int64)
    groups[order] = np.arange(len(tokens)) % _GROUPS
    sums = np.array([of.sum for of in corpus.bins], np.float64)
    corpus_tokens = np.bincount(strata_of_bins, sums).astype(np.float64)
    return Scale(tokens, strata, groups, corpus_tokens)


def stratify(documents: Int64s) -> Int64s:
    """Join neighbouring bins to strata that all have enough documents of the sample.

    Args:
        documents: int64[bins], of the sample.

    Returns:
        int64[bins], the stratum of each: [30, 1, 29, 0, 5] gives [0, 1, 1, 1, 1].
    """
    enough = max(_SMALLEST_STRATUM, int(documents.sum()) // _MOST_STRATA)
    strata, inside = np.zeros(len(documents), np.int64), 0
    complete = 0
    for place, number in enumerate(documents.tolist()):
        strata[place] = complete
        inside += number
        if inside >= enough:
            complete, inside = complete + 1, 0
    # What is left behind the last complete stratum is too little for one of its own.
    return np.minimum(strata, max(0, complete - 1))
