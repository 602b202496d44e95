"""What reports say of a corpus: the rules by which it was read, and what became of its text."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from corpusmill.dataset.accounting import count_copied_tokens, count_dropped
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.manifest_entries import CorpusEntry


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
    yield from _cut_figures(counts)
    yield from _dropped_figures(counts)
    yield from _coverage_figures(counts, repeats)


def _cut_figures(counts: Mapping[str, int]) -> Iterator[Figure]:
    if cut := counts.get("read.cut_documents", 0):
        documents = counts.get("read.documents", 0)
        meaning = f"of the {documents:,} documents go on where another one was cut for its length"
        yield Figure("pieces", cut, f"{cut:,}", meaning)


def _dropped_figures(counts: Mapping[str, int]) -> Iterator[Figure]:
    if "filter.documents" in counts:
        documents, dropped = counts["filter.documents"], counts.get("filter.dropped", 0)
        reasons = ", ".join(
            f"{reason} {number:,}" for reason, number in count_dropped(counts).items()
        )
        meaning = f"of the documents, {dropped:,} of {documents:,}"
        meaning += f": {reasons}" if reasons else ""
        yield share_figure("dropped", dropped / documents if documents else 0.0, meaning)


def _coverage_figures(counts: Mapping[str, int], repeats: int) -> Iterator[Figure]:
    """The share of the tokens that stand in a row, if the objective counts the others."""
    name = "build.trimmed_tokens"
    if name not in counts:
        return
    tokens = count_copied_tokens(counts) * repeats
    parts = [
        f"{part.removeprefix(name)[1:].replace('_', ' ')} {number:,}"
        for part, number in counts.items()
        if part.startswith(f"{name}.")
    ]
    trimmed = counts[name] / tokens if tokens else 0.0
    others = f"; {100 * trimmed:.1f} % were cut off: {', '.join(parts) or f'{counts[name]:,}'}"
    passes = f" in each of {repeats} passes" if repeats > 1 else ""
    meaning = f"of the corpus' tokens stand in an example{passes}{others if trimmed else ''}"
    yield share_figure("coverage", 1 - trimmed, meaning)


@dataclass(frozen=True)
class SourceFigures:
    """What became of the text of a source.

    Attributes:
        name: of the source.
        repeat: how often its documents were taken.
        files: number of its files.
        bytes: their size.
        documents: those that were read.
        dropped: those that were left out, by filters or because a share was taken.
        rejects: what could not be read.
        tokens: of the documents that were kept, each counted once.
        rows: examples of all splits.
        row_tokens: their tokens.
    """

    name: str
    repeat: float
    files: int
    bytes: int
    documents: int
    dropped: int
    rejects: int
    tokens: int
    rows: int
    row_tokens: int

    def __str__(self) -> str:
        taken = "" if self.repeat == 1 else f", taken {self.repeat:g} times"
        dropped = f", {self.dropped:,} of them dropped" if self.dropped else ""
        rejects = f", {self.rejects:,} rejects" if self.rejects else ""
        return (
            f"{self.name}{taken}: {self.bytes:,} bytes, {self.documents:,} documents{dropped}"
            f"{rejects}, {self.tokens:,} tokens; {self.rows:,} examples of {self.row_tokens:,} "
            "tokens"
        )


def source_figures(manifest: Manifest) -> tuple[SourceFigures, ...]:
    """The figures of each source; none where no part of the corpus has a name."""
    rows, tokens = Counter[str | None](), Counter[str | None]()
    for split in manifest.splits.values():
        for shard in split.shards:
            rows[shard.source] += shard.rows
            tokens[shard.source] += shard.tokens
    return tuple(
        SourceFigures(
            source.name,
            source.repeat,
            source.files,
            source.bytes,
            source.counts.get("read.documents", 0),
            source.counts.get("filter.dropped", 0),
            source.counts.get("read.rejects", 0),
            source.counts.get("tokenize.tokens", 0),
            rows[source.name],
            tokens[source.name],
        )
        for source in manifest.corpus.sources
    )


def share_figure(name: str, value: float, meaning: str) -> Figure:
    """A share between 0 and 1, shown as a percentage."""
    return Figure(name, value, f"{100 * value:.1f} %", meaning)
