"""The figures that reports show, from a manifest alone.

Of a corpus, the rules by which it was read and what became of its text; of a data set, the
distributions in its manifest.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corpusmill.arrays.columns import ANY_LENGTH, Column, Role
from corpusmill.dataset.accounting import (
    NO_LOSS,
    Loss,
    count_copied_tokens,
    count_dropped,
    count_reasons,
    measure_rejects,
)
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.manifest_entries import CorpusEntry, Source, shorten_texts
from corpusmill.errors import count_things
from corpusmill.inspection.facts import parts_of
from corpusmill.inspection.findings import Finding, find
from corpusmill.objectives.examples.windows import count_examples
from corpusmill.settings.words import write_own_options


@dataclass(frozen=True)
class Figure:
    """One number of the report.

    Attributes:
        name: its name ("padding").
        value: the number; a share is between 0 and 1.
        text: the number as it is shown ("49.8 %").
        meaning: a clause that explains it, such as what it is a share of.
    """

    name: str
    value: float
    text: str
    meaning: str


def name_rules(corpus: CorpusEntry) -> dict[str, Any]:
    """The rules that made documents and sentences of files, those that were not used left out."""
    filtering = corpus.filtering.options if corpus.filtering else {}
    rules = {**corpus.options, "sentence_splitter": corpus.sentence_splitter, **filtering}
    return {name: value for name, value in rules.items() if value not in (None, (), [])}


def corpus_figures(counts: Mapping[str, int], repeats: int) -> Iterator[Figure]:
    """The share of the documents that were dropped, and the share of the tokens in rows.

    Args:
        counts: of all stages; those of `Objective.count` begin with "build.".
        repeats: how many times each document was built.
    """
    documents = counts.get("read.documents", 0)
    cut = f"of the {documents:,} documents go on where another one was cut for its length"
    in_parts = "of the texts or words were so long that they were tokenized in parts"
    special = "special tokens, such as [SEP], stand in the text of the corpus"
    for name, stem, meaning in (
        ("pieces", "read.cut_documents", cut),
        ("tokenized in parts", "tokenize.cut_texts", in_parts),
        ("special tokens in text", "tokenize.special_tokens_in_text", special),
    ):
        if number := counts.get(stem, 0):
            yield count_figure(name, number, meaning)
    if records := counts.get("groups.records", 0):
        joined, cuts, alone = (counts[f"groups.{name}"] for name in ("documents", "cut", "alone"))
        meaning = f"documents are made of {count_things(records, 'record')}"
        meaning += f"; {cuts:,} go on where a group was cut" if cuts else ""
        meaning += f"; {alone:,} of them without a group" if alone else ""
        yield count_figure("joined", joined, meaning)
    if "filter.documents" in counts:
        kept, dropped = counts["filter.documents"], counts.get("filter.dropped", 0)
        reasons = _list_counts(count_dropped(counts))
        meaning = f"of the documents, {dropped:,} of {kept:,}{': ' if reasons else ''}{reasons}"
        yield share_figure("dropped", dropped / kept if kept else 0.0, meaning)
    yield from _coverage_figures(counts, repeats)
    if learned := counts.get("build.learned_tokens", 0):
        kept = counts.get("build.kept_tokens", learned)
        yield share_figure(
            "learned", learned / kept, f"of the tokens in examples are learned: {learned:,}"
        )
    unread = "times a field of a record has not reached the text: "
    for name, meaning in (("messages", ""), ("unread", unread)):
        if parts := parts_of(counts, f"tokenize.{name}."):
            yield count_figure(name, sum(parts.values()), meaning + _list_counts(parts))


def _list_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())


def _coverage_figures(counts: Mapping[str, int], repeats: int) -> Iterator[Figure]:
    """The share of the tokens that stand in a row, if the objective counts the others."""
    name = "build.trimmed_tokens"
    if name not in counts:
        return
    tokens = count_copied_tokens(counts) * repeats
    trimmed = counts[name] / tokens if tokens else 0.0
    parts = {part.replace("_", " "): n for part, n in parts_of(counts, f"{name}.").items()}
    others = f"; {100 * trimmed:.1f} % were cut off: {_list_counts(parts) or f'{counts[name]:,}'}"
    passes = f" in each of {repeats} passes" if repeats > 1 else ""
    meaning = f"of the corpus' tokens stand in an example{passes}{others if trimmed else ''}"
    yield share_figure("coverage", 1 - trimmed, meaning)


@dataclass(frozen=True)
class SourceFigures:
    """What became of the text of a source.

    Attributes:
        entry: of the manifest.
        rows: examples of all splits.
        row_tokens: their tokens.
    """

    entry: Source
    rows: int
    row_tokens: int

    def __str__(self) -> str:
        entry, (documents, dropped, rejects, tokens) = self.entry, self.counts
        text = entry.name if entry.repeat == 1 else f"{entry.name}, taken {entry.repeat:g} times"
        text += f": {count_things(entry.bytes, 'byte')}, {count_things(documents, 'document')}"
        text += f", {dropped:,} of them dropped" if dropped else ""
        text += f", {count_things(rejects, 'reject')}" if rejects else ""
        text += f", {count_things(tokens, 'token')}; {count_things(self.rows, 'example')} of "
        text += count_things(self.row_tokens, "token")
        return f"{text}; {self.reading}" if self.reading else text

    @property
    def counts(self) -> tuple[int, ...]:
        """The documents, those that were left out, rejects, and the tokens of those kept."""
        names = ("read.documents", "filter.dropped", "read.rejects", "tokenize.tokens")
        return tuple(self.entry.counts.get(name, 0) for name in names)

    @property
    def reading(self) -> str:
        """How it was read, as `--source` has it; empty if it was read as the other sources."""
        return write_own_options("", self.entry.options or {}).lstrip(";").replace(";", ", ")


def source_figures(manifest: Manifest) -> tuple[SourceFigures, ...]:
    """The figures of each source; none where no part of the corpus has a name."""
    rows, tokens = Counter[str | None](), Counter[str | None]()
    for split in manifest.splits.values():
        for shard in split.shards:
            rows[shard.source] += shard.rows
            tokens[shard.source] += shard.tokens
    sources = manifest.corpus.sources
    return tuple(SourceFigures(each, rows[each.name], tokens[each.name]) for each in sources)


def share_figure(name: str, value: float, meaning: str) -> Figure:
    """A share between 0 and 1, shown as a percentage."""
    return Figure(name, value, f"{100 * value:.1f} %", meaning)


def count_figure(name: str, value: int, meaning: str) -> Figure:
    """A number of things."""
    return Figure(name, value, f"{value:,}", meaning)


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
    splits = []
    for name, split in manifest.splits.items():
        distributions = name_distributions(split.distributions, manifest.columns)
        figures = (*figures_of(distributions, objective.options, manifest.columns),)
        sizes = split.rows, split.tokens, split.bytes, len(split.shards)
        splits.append(SplitReport(name, *sizes, figures, (*distributions.values(),)))
    return Report(
        objective.name,
        shorten_texts(objective.options),
        tuple(splits),
        counts,
        counts.get("read.rejects", counts.get("read.rejected_lines", 0)),
        count_reasons(counts),
        counts.get("read.lines", 0),
        name_rules(manifest.corpus),
        tuple(corpus_figures(counts, objective.repeats)),
        find(manifest),
        measure_rejects(counts, manifest.corpus.files),
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
    distributions: Mapping[str, Distribution], options: Mapping[str, Any], columns: Sequence[Column]
) -> Iterator[Figure]:
    """The figures of a split.

    Args:
        distributions: by name.
        options: of the objective.
        columns: of the data set.
    """
    if lengths := distributions.get("length"):
        is_stream = columns[0].width == ANY_LENGTH
        yield from _length_figures(lengths, options.get("max_seq_length"), is_stream)
    if "predictions" in distributions:
        yield from _prediction_figures(distributions, options)
    if "words" in distributions and all(name in distributions for name in _SEGMENTS):
        tokens = sum(distributions[name].weight for name in _SEGMENTS)
        value = tokens / max(1, distributions["words"].weight)
        yield Figure("tokens per word", value, f"{value:.2f}", "special tokens do not count")
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
            yield describe_distribution(distribution)


def _length_figures(lengths: Distribution, width: int | None, is_stream: bool) -> Iterator[Figure]:
    longest = width or lengths.largest
    if is_stream:
        meaning = f"of {longest} tokens and their targets, in the stream of all shards"
        yield count_figure(
            "examples to cut", count_examples(lengths.weight, longest, longest), meaning
        )
        return
    meaning = f"of the examples are {longest} tokens long"
    yield share_figure("at the full length", lengths.share(longest), meaning)
    places = longest * lengths.total
    padding = 1 - lengths.weight / places if places else 0.0
    meaning = f"of the positions, if every example is padded to {longest} tokens"
    yield share_figure("padding", padding, meaning)


def _prediction_figures(
    distributions: Mapping[str, Distribution], options: Mapping[str, Any]
) -> Iterator[Figure]:
    predictions = distributions["predictions"]
    if all(name in distributions for name in _SEGMENTS):
        tokens = sum(distributions[name].weight for name in _SEGMENTS)
    else:  # there are one [CLS] per example, and one [SEP] after each of its documents
        lengths = distributions["length"]
        documents = distributions.get("documents")
        separators = documents.weight if documents else lengths.total
        tokens = lengths.weight - lengths.total - separators
    share = predictions.weight / tokens if tokens else 0.0
    prob = options.get("masked_lm_prob")
    goal = "" if prob is None else f" (masked_lm_prob asks for {prob:.1%})".replace("%", " %")
    yield share_figure("masked", share, f"of the tokens that are not special are predicted{goal}")
    cap = options.get("max_predictions_per_seq")
    if cap is not None and predictions.largest >= cap:
        meaning = f"of the examples have {cap} predictions, the most that max_predictions_per_seq "
        meaning += "allows"
        yield share_figure("at the most predictions", predictions.share(cap), meaning)


def describe_distribution(distribution: Distribution) -> Figure:
    """A distribution in one line: mean, percentiles, largest value."""
    values = ", ".join(f"{distribution.percentile(percent):,}" for percent in _PERCENTILES)
    percents = ", ".join(str(percent) for percent in _PERCENTILES)
    meaning = f"on average; percentiles {percents}: {values}; largest {distribution.largest:,}"
    name, mean = distribution.name.replace("_", " "), distribution.mean
    return Figure(name, mean, f"{mean:,.1f}", meaning)
