"""What a data set is like, from the distributions in its manifest: the figures of `inspect`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corpusmill.dataset.accounting import count_reasons
from corpusmill.objectives.examples.token_stream import count_examples

_PERCENTILES = (5, 25, 50, 75, 95)
_LABELS = ("next_sentence_label", "sentence_order_label")
_SEGMENTS = ("first_segment_length", "second_segment_length")


@dataclass(frozen=True)
class Distribution:
    """How often each value occurs.

    Attributes:
        name: as the objective calls it ("length").
        counts: counts[v] examples have the value v.
    """

    name: str
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        """Number of examples."""
        return sum(self.counts)

    @property
    def weight(self) -> int:
        """Sum of the values."""
        return sum(value * number for value, number in enumerate(self.counts))

    @property
    def mean(self) -> float:
        """Mean value; 0 where there is no example."""
        return self.weight / self.total if self.total else 0.0

    @property
    def largest(self) -> int:
        """The largest value that occurs."""
        return max((value for value, number in enumerate(self.counts) if number), default=0)

    def percentile(self, percent: float) -> int:
        """The smallest value that at least `percent` % of the examples do not exceed."""
        reached = np.cumsum(self.counts)
        return int(np.searchsorted(reached, percent / 100 * self.total)) if self.total else 0

    def share(self, value: int) -> float:
        """Share of the examples that have the value."""
        return self.counts[value] / self.total if self.total and value < len(self.counts) else 0.0


@dataclass(frozen=True)
class Figure:
    """One number of the report.

    Attributes:
        name: what it is ("random next").
        value: the number; a share is between 0 and 1.
        text: the number as it is shown ("49.8 %").
        meaning: one clause that says what it is the share of.
    """

    name: str
    value: float
    text: str
    meaning: str


@dataclass(frozen=True)
class SplitReport:
    """One split.

    Attributes:
        name: "train" or "validation".
        rows: examples.
        tokens: sum of their lengths.
        bytes: of all shards.
        shards: their number.
        figures: what follows from the distributions.
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
    """What `inspect` says beside the examples.

    Attributes:
        objective: its name.
        options: name and value of the objective's options.
        splits: in the manifest's order.
        counts: of all stages.
        rejects: input records that became no example.
        reasons: how many of them have each reason, the most frequent first.
        lines: input lines.
        figures: what follows from the counts, all splits together.
    """

    objective: str
    options: Mapping[str, Any]
    splits: tuple[SplitReport, ...]
    counts: Mapping[str, int]
    rejects: int
    reasons: Mapping[str, int]
    lines: int
    figures: tuple[Figure, ...] = ()


def summarize(manifest: Mapping[str, Any]) -> Report:
    """The report of a data set.

    Args:
        manifest: as `corpusmill.dataset.manifest` describes it. A distribution that this module
            does not know is kept, and described by its mean and percentiles.
    """
    counts = manifest["counts"]
    objective = manifest["objective"]
    return Report(
        objective["name"],
        objective["options"],
        tuple(
            _summarize_split(name, split, objective["options"])
            for name, split in manifest["splits"].items()
        ),
        counts,
        counts.get("read.rejects", counts.get("read.rejected_lines", 0)),
        count_reasons(counts),
        counts.get("read.lines", 0),
        tuple(_trimmed_figures(counts, objective["repeats"])),
    )


def _trimmed_figures(counts: Mapping[str, int], repeats: int) -> Iterator[Figure]:
    """What an objective left out of examples, where it counts that (`Objective.count`)."""
    name = "build.trimmed_tokens"
    if name not in counts:
        return
    tokens = counts.get("tokenize.tokens", 0) * repeats
    parts = [
        f"{part.removeprefix(name)[1:].replace('_', ' ')} {number:,}"
        for part, number in counts.items()
        if part.startswith(f"{name}.")
    ]
    meaning = (
        f"of the tokens are in no example, too many for it: {', '.join(parts) or counts[name]}"
    )
    yield share_figure("trimmed", counts[name] / tokens if tokens else 0.0, meaning)


def _summarize_split(
    name: str, split: Mapping[str, Any], options: Mapping[str, Any]
) -> SplitReport:
    distributions = {
        of: Distribution(of, tuple(counts)) for of, counts in split["distributions"].items()
    }
    return SplitReport(
        name,
        split["rows"],
        split["tokens"],
        sum(shard["bytes"] for shard in split["shards"]),
        len(split["shards"]),
        (*figures_of(distributions, options), *_bin_figures(distributions, split["shards"])),
        tuple(distributions.values()),
    )


def figures_of(
    distributions: Mapping[str, Distribution], options: Mapping[str, Any]
) -> Iterator[Figure]:
    """What follows from the distributions of a split.

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
    if "next_sentence_label" in distributions:
        share = distributions["next_sentence_label"].share(1)
        yield share_figure(
            "random next", share, "of the examples have a second segment from a random document"
        )
    if "sentence_order_label" in distributions:
        share = distributions["sentence_order_label"].share(1)
        yield share_figure("switched", share, "of the examples have their segments switched")
    if "documents" in distributions:
        share = 1 - distributions["documents"].share(1)
        yield share_figure("several documents", share, "of the examples hold more than one")
    if "second_segment_length" in distributions:
        share = distributions["second_segment_length"].share(0)
        yield share_figure("empty second segment", share, "of the examples")
    for distribution in distributions.values():
        if distribution.name not in _LABELS:
            yield describe(distribution)


def _length_figures(lengths: Distribution, options: Mapping[str, Any]) -> Iterator[Figure]:
    longest = options.get("max_seq_length") or lengths.largest
    if options.get("mode") == "stream":
        number = count_examples(lengths.weight, longest, longest)
        meaning = f"of {longest} tokens, and their targets, in the stream of all shards"
        yield Figure("examples to cut", number, f"{number:,}", meaning)
        return
    yield share_figure(
        "at the full length", lengths.share(longest), f"of the examples are {longest} tokens long"
    )
    places = longest * lengths.total
    padding = 1 - lengths.weight / places if places else 0.0
    yield share_figure(
        "padding", padding, f"of the places, where every example is padded to {longest} tokens"
    )


def _bin_figures(
    distributions: Mapping[str, Distribution], shards: Sequence[Mapping[str, Any]]
) -> Iterator[Figure]:
    """What is left of padding where a batch is padded to the end of its bin."""
    places = sum(shard["rows"] * (shard.get("max_length") or 0) for shard in shards)
    if places and "length" in distributions:
        padding = 1 - distributions["length"].weight / places
        yield share_figure(
            "padding in bins",
            padding,
            "of the places, where every example is padded to the longest length of its bin",
        )


def _prediction_figures(
    distributions: Mapping[str, Distribution], options: Mapping[str, Any]
) -> Iterator[Figure]:
    predictions = distributions["predictions"]
    tokens = _count_tokens(distributions, options)
    if tokens is not None:
        share = predictions.weight / tokens if tokens else 0.0
        asked = options.get("masked_lm_prob")
        goal = "" if asked is None else f" (masked_lm_prob asks for {asked:.1%})".replace("%", " %")
        yield share_figure(
            "masked", share, f"of the tokens that are not special are predicted{goal}"
        )
    cap = options.get("max_predictions_per_seq")
    if cap is not None and predictions.largest >= cap:
        meaning = (
            f"of the examples have {cap} predictions, the most that max_predictions_per_seq allows"
        )
        yield share_figure("at the most predictions", predictions.share(cap), meaning)


def _count_tokens(
    distributions: Mapping[str, Distribution], options: Mapping[str, Any]
) -> int | None:
    """Tokens that are not special; None where the distributions do not tell."""
    if all(name in distributions for name in _SEGMENTS):
        return sum(distributions[name].weight for name in _SEGMENTS)
    if options.get("segments") not in {"full-sentences", "doc-sentences"}:
        return None
    # A [CLS] an example, and a [SEP] behind each of its documents.
    lengths, documents = distributions["length"], distributions.get("documents")
    return lengths.weight - lengths.total - (documents.weight if documents else lengths.total)


def _word_figure(distributions: Mapping[str, Distribution]) -> Figure:
    tokens = sum(distributions[name].weight for name in _SEGMENTS)
    words = distributions["words"].weight
    value = tokens / words if words else 0.0
    return Figure("tokens a word", value, f"{value:.2f}", "special tokens are in no word")


def describe(distribution: Distribution) -> Figure:
    """A distribution in one line: mean, percentiles, largest value."""
    values = ", ".join(f"{distribution.percentile(percent):,}" for percent in _PERCENTILES)
    percents = ", ".join(str(percent) for percent in _PERCENTILES)
    meaning = f"on average; percentiles {percents}: {values}; largest {distribution.largest:,}"
    return Figure(
        distribution.name.replace("_", " "), distribution.mean, f"{distribution.mean:,.1f}", meaning
    )


def share_figure(name: str, value: float, meaning: str) -> Figure:
    """A share between 0 and 1, shown in per cent."""
    return Figure(name, value, f"{100 * value:.1f} %", meaning)
