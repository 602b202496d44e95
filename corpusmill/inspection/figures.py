"""The figures of `inspect`: a data set described by the distributions in its manifest."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corpusmill.arrays.columns import Column, Role
from corpusmill.dataset.accounting import NO_LOSS, Loss, count_reasons, measure_rejects
from corpusmill.dataset.manifest import Manifest, Shard
from corpusmill.inspection.corpus_figures import Figure, corpus_figures, name_rules, share_figure
from corpusmill.inspection.findings import Finding, find
from corpusmill.objectives.examples.windows import count_examples

_PERCENTILES = (5, 25, 50, 75, 95)
_SEGMENTS = ("first_segment_length", "second_segment_length")


@dataclass(frozen=True)
class Distribution:
    """How often each value occurs.

    Attributes:
        name: the objective's name of the quantity ("length").
        counts: how many examples have each value that occurs, in the order of the values.
        value_names: names of the values, if they are classes.
        title: what the classes are about ("second segment").
    """

    name: str
    counts: Mapping[int, int]
    value_names: tuple[str, ...] = ()
    title: str = ""

    @property
    def total(self) -> int:
        """Number of examples."""
        return sum(self.counts.values())

    @property
    def weight(self) -> int:
        """Sum of the values."""
        return sum(value * number for value, number in self.counts.items())

    @property
    def mean(self) -> float:
        """Mean value; 0 without examples."""
        return self.weight / self.total if self.total else 0.0

    @property
    def largest(self) -> int:
        """The largest value that occurs."""
        return max(self.counts, default=0)

    def percentile(self, percent: float) -> int:
        """The smallest value that at least `percent` % of the examples do not exceed."""
        values, numbers = list(self.counts), list(self.counts.values())
        place = np.searchsorted(np.cumsum(numbers), percent / 100 * self.total)
        return values[place] if self.total else 0

    def share(self, value: int) -> float:
        """Share of the examples that have the value."""
        return self.counts.get(value, 0) / self.total if self.total else 0.0


@dataclass(frozen=True)
class SplitReport:
    """One split.

    Attributes:
        name: "train" or "validation".
        rows: examples.
        tokens: sum of their lengths.
        bytes: of all shards.
        shards: their number.
        figures: computed from the distributions.
        distributions: those of the manifest, in its order.
    """

    name: str
    rows: int
    tokens: int
    bytes: int
    shards: int
    figures: tuple[Figure, ...]
    distributions: tuple[Distribution, ...]


@dataclass(frozen=True)
class Report:
    """The report of `inspect`, apart from decoded examples.

    Attributes:
        objective: its name.
        options: name and value of the objective's options.
        splits: in the manifest's order.
        counts: of all stages.
        rejects: number of input records that could not be used.
        reasons: how many rejects have each reason, the most frequent first.
        lines: number of input lines.
        rules: how files became documents and sentences, by name.
        figures: computed from the counts, for all splits together.
        findings: what makes the data set of little use.
        loss: how much of the input is rejects.
    """

    objective: str
    options: Mapping[str, Any]
    splits: tuple[SplitReport, ...]
    counts: Mapping[str, int]
    rejects: int
    reasons: Mapping[str, int]
    lines: int
    rules: Mapping[str, Any]
    figures: tuple[Figure, ...] = ()
    findings: tuple[Finding, ...] = ()
    loss: Loss = NO_LOSS


def summarize(manifest: Manifest) -> Report:
    """The report of a data set.

    Args:
        manifest: as `corpusmill.dataset.manifest` describes it. A distribution that this module
            does not know is kept, and described by its mean and percentiles.
    """
    counts, objective = manifest.counts, manifest.objective
    return Report(
        objective.name,
        objective.options,
        tuple(_summarize_split(name, manifest) for name in manifest.splits),
        counts,
        counts.get("read.rejects", counts.get("read.rejected_lines", 0)),
        count_reasons(counts),
        counts.get("read.lines", 0),
        name_rules(manifest.corpus),
        tuple(corpus_figures(counts, objective.repeats)),
        find(manifest),
        measure_rejects(counts, len(manifest.corpus.files)),
    )


def _summarize_split(name: str, manifest: Manifest) -> SplitReport:
    split = manifest.splits[name]
    distributions = name_distributions(split.distributions, manifest.columns)
    figures = figures_of(distributions, manifest.objective.options)
    return SplitReport(
        name,
        split.rows,
        split.tokens,
        split.bytes,
        len(split.shards),
        (*figures, *_bin_figures(distributions, split.shards)),
        tuple(distributions.values()),
    )


def name_distributions(
    counts: Mapping[str, Mapping[int, int]], columns: Iterable[Column]
) -> dict[str, Distribution]:
    """The distributions of a split by name, with the names that columns give their values."""
    classes = {
        column.name: (column.value_names, column.title)
        for column in columns
        if column.role is Role.CLASS
    }
    return {
        name: Distribution(name, numbers, *classes.get(name, ()))
        for name, numbers in counts.items()
    }


def figures_of(
    distributions: Mapping[str, Distribution], options: Mapping[str, Any]
) -> Iterator[Figure]:
    """The figures of a split.

    Args:
        distributions: by name.
        options: of the objective.
    """
    if "length" in distributions:
        yield from _length_figures(distributions["length"], options)
    if "predictions" in distributions:
        yield from _prediction_figures(distributions, options)
    if "words" in distributions and all(name in distributions for name in _SEGMENTS):
        yield _word_figure(distributions)
    for distribution in distributions.values():
        for value, value_name in enumerate(distribution.value_names[1:], 1):
            name = f"{value_name} {distribution.title}"
            yield share_figure(name, distribution.share(value), "of the examples")
    if "documents" in distributions:
        share = 1 - distributions["documents"].share(1)
        yield share_figure("several documents", share, "of the examples hold more than one")
    if "second_segment_length" in distributions:
        share = distributions["second_segment_length"].share(0)
        yield share_figure("empty second segment", share, "of the examples")
    for distribution in distributions.values():
        if not distribution.value_names:
            yield describe(distribution)


def _length_figures(lengths: Distribution, options: Mapping[str, Any]) -> Iterator[Figure]:
    longest = options.get("max_seq_length") or lengths.largest
    if options.get("mode") == "stream":
        number = count_examples(lengths.weight, longest, longest)
        meaning = f"of {longest} tokens and their targets, in the stream of all shards"
        yield Figure("examples to cut", number, f"{number:,}", meaning)
        return
    yield share_figure(
        "at the full length", lengths.share(longest), f"of the examples are {longest} tokens long"
    )
    places = longest * lengths.total
    padding = 1 - lengths.weight / places if places else 0.0
    yield share_figure(
        "padding", padding, f"of the positions, if every example is padded to {longest} tokens"
    )


def _bin_figures(
    distributions: Mapping[str, Distribution], shards: Sequence[Shard]
) -> Iterator[Figure]:
    """The padding that remains if a batch is padded to the longest length of its bin."""
    places = sum(shard.rows * (shard.max_length or 0) for shard in shards)
    if places and "length" in distributions:
        padding = 1 - distributions["length"].weight / places
        yield share_figure(
            "padding in bins",
            padding,
            "of the positions, if every example is padded to the longest length of its bin",
        )


def _prediction_figures(
    distributions: Mapping[str, Distribution], options: Mapping[str, Any]
) -> Iterator[Figure]:
    predictions = distributions["predictions"]
    tokens = _count_tokens(distributions)
    share = predictions.weight / tokens if tokens else 0.0
    prob = options.get("masked_lm_prob")
    goal = "" if prob is None else f" (masked_lm_prob asks for {prob:.1%})".replace("%", " %")
    yield share_figure("masked", share, f"of the tokens that are not special are predicted{goal}")
    cap = options.get("max_predictions_per_seq")
    if cap is not None and predictions.largest >= cap:
        meaning = (
            f"of the examples have {cap} predictions, the most that max_predictions_per_seq allows"
        )
        yield share_figure("at the most predictions", predictions.share(cap), meaning)


def _count_tokens(distributions: Mapping[str, Distribution]) -> int:
    """Tokens that are not special."""
    if all(name in distributions for name in _SEGMENTS):
        return sum(distributions[name].weight for name in _SEGMENTS)
    # One [CLS] per example, and one [SEP] after each of its documents.
    lengths, documents = distributions["length"], distributions.get("documents")
    return lengths.weight - lengths.total - (documents.weight if documents else lengths.total)


def _word_figure(distributions: Mapping[str, Distribution]) -> Figure:
    tokens = sum(distributions[name].weight for name in _SEGMENTS)
    words = distributions["words"].weight
    value = tokens / words if words else 0.0
    return Figure("tokens per word", value, f"{value:.2f}", "special tokens do not count")


def describe(distribution: Distribution) -> Figure:
    """A distribution in one line: mean, percentiles, largest value."""
    values = ", ".join(f"{distribution.percentile(percent):,}" for percent in _PERCENTILES)
    percents = ", ".join(str(percent) for percent in _PERCENTILES)
    meaning = f"on average; percentiles {percents}: {values}; largest {distribution.largest:,}"
    return Figure(
        distribution.name.replace("_", " "), distribution.mean, f"{distribution.mean:,.1f}", meaning
    )
