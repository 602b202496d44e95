"""A corpus in numbers, as `inspect-corpus` writes them to a JSON file.

    {"format": "corpusmill-corpus", "format_version": 1, "corpusmill_version": "0.1.0",
     "objective": {"name": "bert", "options": {...}, "repeats": 10}, "seed": 0,
     "tokenizer": {...}, "output": {...}, "corpus": {"options": {...}, "bytes": 9, "files": [...]},

     "counts": {"read.documents": 9, "tokenize.empty_documents": 0, "measure.words": 70, ...},
     "text": {"bytes": 340, "characters": 330, "words": 70},
     "tokens": {"tokens": 91, "per_word": 1.3, "bytes_per_token": 3.7, "characters_per_token": 3.6,
                "unknown_share": 0.01, "character_share": 0.2, "part_share": 0.0,
                "special_share": 0.0},
     "scripts": {"Latin": {"bytes": 340, "words": 70, "tokens": 91}},
     "sources": {"wiki": {"bytes": 340, "words": 70, "tokens": 91}},
     "distributions": {"tokens_per_document": {"count": 9, "mean": 10.1, "median": 9, "p90": 17,
                       "p99": 20, "max": 21, "bins": [[first, last, number, sum], ...]}, ...},
     "rejects": {"number": 1, "reasons": {"invalid-utf-8": 1},
                 "examples": [{"file": "a.txt", "offset": 7, "length": 5, "reason": ..., ...}]},

     "build": {"exact": true, "sample": {"documents": 9, "tokens": 91, "share": 1.0, "rows": 90,
                                         "distinct_rows": 90, "used_ids": 80},
               "splits": {"train": {"shards": 1,
                                    "rows": {"value": 90, "low": 90, "high": 90},
                                    "tokens": {...}, "bytes": {...}, "built_bytes": {...},
                                    "counts": {"trimmed_tokens": 5, ...},
                                    "distributions": {"length": [0, 0, 5, ...], ...}}}},
     "near_pairs": [{"source": "", "document": 1, "keeper": 0, "similarity": 0.9, "text": ...,
                     "other": ...}],
     "work": {"corpus_bytes": 9, "tasks": 1, "shards": 1, "bytes": 2500, "temporary_bytes": 5000,
              "processor_seconds": {"prepare": 0.1, "build": 0.2}, "workers": 1, "seconds": 0.3},
     "findings": [{"name": "padding", "what": ..., "value": 0.8, "usual": ..., "cause": ...,
                   "cure": ...}]}

The first part is that of a data set's manifest (`corpusmill.dataset.manifest`), and counts of
stages that a build has, too, have the same names. A number that cannot be computed is null: the
95 % confidence interval of an estimate (`low` and `high`) from very few documents, or a share of
nothing. The distributions of a split are those of the sample's examples, not scaled, as are its
counts. "work" is what a build takes, of the corpus or of one of the size that --scale-to names.
Its processor time to prepare (to read, tokenize and shuffle) and to build (also to sort and write)
was measured on a sample, and differs from run to run; "seconds" is that of all workers together.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from corpusmill.arrays.columns import Column
from corpusmill.corpus.filters.functions import NearPair
from corpusmill.dataset.accounting import count_reasons, is_of_the_run, measure_rejects
from corpusmill.dataset.manifest import Manifest, Split
from corpusmill.dataset.manifest_entries import CorpusEntry, shorten_texts
from corpusmill.errors import count_things
from corpusmill.inspection.corpus_measures import DISTRIBUTIONS, Bin, quantile, read_bins
from corpusmill.inspection.facts import parts_of
from corpusmill.inspection.figures import (
    Figure,
    Report,
    SplitReport,
    corpus_figures,
    count_figure,
    figures_of,
    name_distributions,
    name_rules,
    share_figure,
)
from corpusmill.inspection.findings import NEAR_DROPPED, Finding, find

FORMAT, FORMAT_VERSION = "corpusmill-corpus", 1
# How a file of numbers begins, by which it is known as ours.
NUMBERS_BEGIN = f'{{\n "format": "{FORMAT}"'.encode()


def collect_numbers(
    counts: Mapping[str, int], largest: Mapping[str, int], rejects: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The middle part of the numbers, about the corpus.

    Args:
        counts: sums of all stages; those of `corpusmill.inspection.corpus_measures.Measures` begin
            with "measure.".
        largest: of `Measures`.
        rejects: examples of rejects (`corpusmill.corpus.batches.Reject` as mappings).
    """
    measured = parts_of(counts, "measure.")
    # Histograms stand by themselves, and counts of the sample with the build.
    plain = {
        name: number
        for name, number in counts.items()
        if not name.endswith((".number", ".sum"))
        and not name.startswith(("pool.", "candidates.", "write."))
        and not is_of_the_run(name)
    }
    text = {name: measured.get(name, 0) for name in ("bytes", "characters", "words")}
    return {
        "counts": dict(sorted(plain.items())),
        "text": text,
        "tokens": describe_tokens(measured, plain.get("tokenize.special_tokens_in_text", 0)),
        "scripts": _group(measured, "script."),
        "sources": _group(measured, "source."),
        "distributions": {
            name: describe_bins(read_bins(name, measured), largest.get(name, 0))
            for name in DISTRIBUTIONS
        },
        "rejects": {
            "number": counts.get("read.rejects", 0),
            "reasons": count_reasons(counts),
            "examples": list(rejects),
        },
    }


def _group(measured: Mapping[str, int], prefix: str) -> dict[str, dict[str, int]]:
    names = sorted({name.rpartition(".")[0] for name in parts_of(measured, prefix)})
    return {name: parts_of(measured, f"{prefix}{name}.") for name in names}


def describe_tokens(measured: Mapping[str, int], special_tokens: int = 0) -> dict[str, Any]:
    """How well the tokenizer suits the text: its fertility, and the share of unknown tokens.

    Args:
        measured: the counts of `corpusmill.inspection.corpus_measures.Measures`.
        special_tokens: how many special tokens are written in the text.
    """
    tokens = measured.get("tokens", 0)

    def share(part: str, whole: int) -> float | None:
        return measured.get(part, 0) / whole if whole else None

    return {
        "tokens": tokens,
        "per_word": share("tokens", measured.get("words", 0)),
        "bytes_per_token": share("bytes", tokens),
        "characters_per_token": share("characters", tokens),
        "unknown_share": share("unknown_tokens", tokens),
        "character_share": share("character_tokens", tokens),
        "part_share": share("part_tokens", tokens),
        "special_share": special_tokens / tokens if tokens else None,
    }


_QUANTILES = {"median": 0.5, "p90": 0.9, "p99": 0.99}


def describe_bins(bins: Sequence[Bin], largest: int) -> dict[str, Any]:
    """A distribution in five numbers, and its bins."""
    total = sum(part.number for part in bins)
    return {
        "count": total,
        "mean": sum(part.sum for part in bins) / total if total else 0.0,
        **{name: quantile(bins, share) for name, share in _QUANTILES.items()},
        "max": largest,
        "bins": [list(part) for part in bins],
    }


class Section(NamedTuple):
    """Some figures of the report under one heading."""

    name: str
    figures: tuple[Figure, ...]


def report_sections(numbers: Mapping[str, Any]) -> tuple[Section, ...]:
    """The figures of a report.

    Args:
        numbers: complete, as in the module's docstring.
    """
    return (
        Section("text", tuple(_text_figures(numbers))),
        Section("tokens", tuple(_token_figures(numbers))),
        *(
            Section(kind, tuple(_group_figures(numbers[kind])))
            for kind in ("scripts", "sources")
            if numbers[kind]
        ),
        Section("lengths", tuple(_length_figures(numbers["distributions"]))),
        Section("rejects", tuple(_reject_figures(numbers))),
        *_near_sections(numbers),
        Section("a build", tuple(_build_figures(numbers))),
        Section("what a build takes", tuple(_work_figures(numbers["work"]))),
    )


def report_build(numbers: Mapping[str, Any]) -> Report:
    """The report that `inspect` would show of the data set, from the examples of the sample."""
    objective, counts = numbers["objective"], numbers["counts"]
    columns = msgspec.convert(numbers["columns"], tuple[Column, ...])
    corpus = msgspec.convert(numbers["corpus"], CorpusEntry)
    splits = []
    for name, split in numbers["build"]["splits"].items():
        distributions = name_distributions(_read_counts(split), columns)
        figures = (*figures_of(distributions, objective["options"], columns),)
        rows, tokens, size = (split[key]["value"] for key in ("rows", "tokens", "bytes"))
        shown = (*distributions.values(),)
        splits.append(SplitReport(name, rows, tokens, size, split["shards"], figures, shown))
    return Report(
        objective["name"],
        shorten_texts(objective["options"]),
        tuple(splits),
        counts,
        numbers["rejects"]["number"],
        numbers["rejects"]["reasons"],
        counts.get("read.lines", 0),
        name_rules(corpus),
        tuple(corpus_figures(_all_counts(numbers), objective["repeats"])),
        tuple(Finding(**finding) for finding in numbers["findings"]),
        measure_rejects(counts, corpus.files),
    )


def find_before_build(header: Manifest, numbers: Mapping[str, Any]) -> tuple[Finding, ...]:
    """The findings that a build would have, as the sample shows them.

    Args:
        header: the manifest of the build, without its results.
        numbers: as in the module's docstring, without the findings.
    """
    splits = {
        name: Split(split["rows"]["value"], split["tokens"]["value"], (), _read_counts(split))
        for name, split in numbers["build"]["splits"].items()
    }
    return find(replace(header, counts=_all_counts(numbers), splits=splits))


def _read_counts(split: Mapping[str, Any]) -> dict[str, dict[int, int]]:
    """The distributions of a split as a manifest has them."""
    return {
        name: {value: number for value, number in enumerate(counts) if number}
        for name, counts in split["distributions"].items()
    }


def _all_counts(numbers: Mapping[str, Any]) -> dict[str, int]:
    """The counts of the corpus, and those of the sample's build scaled to it."""
    build, built = numbers["build"], Counter[str]()
    for split in build["splits"].values():
        built.update(split["counts"])
    share = build["sample"]["share"] or 1
    scaled = {f"build.{name}": round(number / share) for name, number in built.items()}
    rows = sum(split["rows"]["value"] for split in build["splits"].values())
    share = build["sample"]["distinct_rows"] / max(1, build["sample"]["rows"])
    written = {"write.rows": rows, "write.distinct_rows": round(rows * share)}
    return {**numbers["counts"], **scaled, **written}


def _text_figures(numbers: Mapping[str, Any]) -> Iterator[Figure]:
    counts, text = numbers["counts"], numbers["text"]

    def count(name: str) -> int:
        return int(counts.get(name, 0))

    files = len(numbers["corpus"]["files"])
    yield count_figure("files", files, f"with {numbers['corpus']['bytes']:,} bytes")
    if lines := count("read.lines"):
        kinds = {kind: count(f"read.{kind}_lines") for kind in ("blank", "title", "rejected")}
        shown = ", ".join(f"{number:,} {kind}" for kind, number in kinds.items() if number)
        yield count_figure("lines", lines, f"{count('read.bytes'):,} bytes; {shown or 'no blank'}")
    if rows := count("read.rows"):
        yield count_figure("rows", rows, f"{count('read.rejected_rows'):,} of them rejected")
    empty = count("tokenize.empty_documents") + count("read.empty_records")
    meaning = f"{empty:,} empty, {count('read.cut_documents'):,} cut for their length"
    yield count_figure("documents", count("read.documents"), meaning)
    without = count("tokenize.empty_sentences")
    yield count_figure("sentences", count("read.sentences"), f"{without:,} without any token")
    yield count_figure("words", text["words"], "runs of text between white space")
    meaning = f"of text in {text['bytes']:,} bytes of UTF-8"
    yield count_figure("characters", text["characters"], meaning)


def _token_figures(numbers: Mapping[str, Any]) -> Iterator[Figure]:
    tokens = numbers["tokens"]
    yield count_figure("tokens", tokens["tokens"], "special tokens of examples not counted")
    figures = (
        ("per_word", "tokens per word", "the fertility of the tokenizer"),
        ("bytes_per_token", "bytes per token", "of text, without separators of sentences"),
        ("characters_per_token", "characters per token", "likewise"),
        ("unknown_share", "unknown", "of the tokens replace text that the vocabulary cannot spell"),
        ("character_share", "single characters", "of the tokens"),
        ("part_share", "parts of characters", "of the tokens: bytes that are none by themselves"),
        ("special_share", "special", "special tokens written in the text, for each token"),
    )
    for name, shown, meaning in figures:
        if (value := tokens[name]) is not None:
            text = f"{100 * value:.3f} %" if name.endswith("_share") else f"{value:.3f}"
            yield Figure(shown, value, text, meaning)
    unused = numbers["tokenizer"]["vocab_size"] - numbers["build"]["sample"]["used_ids"]
    yield count_figure("unused ids", unused, "of the vocabulary, special ones too; in the sample")


def _group_figures(groups: Mapping[str, Mapping[str, int]]) -> Iterator[Figure]:
    total = sum(counts["bytes"] for counts in groups.values())
    for name, counts in sorted(groups.items(), key=lambda item: -item[1]["bytes"]):
        per_word, per_byte = (counts["tokens"] / max(1, counts[of]) for of in ("words", "bytes"))
        meaning = f"tokens per word, {per_byte:.3f} per byte; such documents have "
        meaning += f"{100 * counts['bytes'] / max(1, total):.1f} % of the text"
        yield Figure(name, per_word, f"{per_word:.3f}", meaning)


def _length_figures(distributions: Mapping[str, Mapping[str, Any]]) -> Iterator[Figure]:
    for name, values in distributions.items():
        meaning = f"on average; median {values['median']:,}, 90 % up to {values['p90']:,}, "
        meaning += f"99 % up to {values['p99']:,}, largest {values['max']:,}"
        yield Figure(name.replace("_", " "), values["mean"], f"{values['mean']:,.1f}", meaning)


def _reject_figures(numbers: Mapping[str, Any]) -> Iterator[Figure]:
    rejects = numbers["rejects"]
    corpus = msgspec.convert(numbers["corpus"], CorpusEntry)
    loss = measure_rejects(numbers["counts"], corpus.files)
    share = f"{loss.share:.4%}".replace("%", " %") if loss.part else "0 %"
    yield count_figure("rejects", rejects["number"], f"{share} of the {loss.unit}")
    for reason, number in rejects["reasons"].items():
        shown = [reject for reject in rejects["examples"] if reject["reason"] == reason]
        places = "; ".join(f"{reject['file']} at byte {reject['offset']:,}" for reject in shown)
        yield count_figure(reason, number, f"such as {places}" if places else "")


def _near_sections(numbers: Mapping[str, Any]) -> Iterator[Section]:
    """Yield what is left out as near-duplicates, of all text and of each source, and some pairs."""
    if "near.documents" not in numbers["counts"]:
        return
    figures, sources = list[Figure](), numbers["corpus"].get("sources", ())
    for name, counts in [("all", numbers["counts"]), *((s["name"], s["counts"]) for s in sources)]:
        dropped, compared = counts.get(NEAR_DROPPED, 0), counts.get("near.documents", 0)
        size, text = counts.get("near.dropped_bytes", 0), counts.get("near.bytes", 0)
        meaning = f"of the documents that are compared, {dropped:,} of {compared:,}, with "
        meaning += f"{100 * size / max(1, text):.1f} % of their text, {size:,} of {text:,} bytes, "
        figures.append(
            share_figure(name, dropped / max(1, compared), f"{meaning}would be left out")
        )
    for pair in msgspec.convert(numbers.get("near_pairs", ()), tuple[NearPair, ...]):
        source, _, texts = pair.source or "pair", *str(pair).partition(": ")[1:]
        figures.append(Figure(source, pair.similarity, f"{pair.similarity:.3f}", texts))
    yield Section("near-duplicates", tuple(figures))


def _build_figures(numbers: Mapping[str, Any]) -> Iterator[Figure]:
    build, sample = numbers["build"], numbers["build"]["sample"]
    share = f"{100 * sample['share']:.1f} %"
    if not sample["documents"] and sample["share"] < 1:
        meaning = "of the tokens: no document fits; give more --sample-tokens to see examples"
        yield Figure("sample", 0, share, meaning)
        return
    documents = count_things(sample["documents"], "document")
    meaning = f"of the tokens, {documents}, were built to see this"
    yield Figure("sample", sample["share"], share, meaning)
    for name, split in build["splits"].items():
        for key, shown in (("rows", "examples"), ("tokens", "tokens"), ("bytes", "bytes")):
            meaning = "exactly" if build["exact"] else _tell_error(**split[key])
            if "group_by" in numbers["corpus"]["options"]:
                meaning = "if each record were a document; a build joins them"
            yield count_figure(f"{name} {shown}", split[key]["value"] or 0, meaning)
        yield count_figure(f"{name} shards", split["shards"], "files")


def _work_figures(work: Mapping[str, Any]) -> Iterator[Figure]:
    for name, meaning in (
        ("corpus_bytes", "in the files of the corpus"),
        ("tasks", "of parts of the corpus, each the work of one worker"),
        ("shards", "of examples, likewise"),
        ("bytes", "of all shards, about"),
        ("temporary_bytes", "of files during the build, in addition to the shards"),
    ):
        yield count_figure(name.replace("_", " "), work[name], meaning)
    seconds = work["processor_seconds"]
    prepare = _show_time(seconds["prepare"])
    meaning = f"about; {prepare} to read, tokenize and shuffle, the rest to build and write"
    total = sum(seconds.values())
    yield Figure("processor time", total, _show_time(total), meaning)
    meaning = f"about, with {count_things(work['workers'], 'worker')} as fast as this machine's"
    yield Figure("duration", work["seconds"], _show_time(work["seconds"]), meaning)


def _show_time(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds < 3600 else f"{seconds / 3600:,.1f} h"


def _tell_error(value: int, low: int | None, high: int | None) -> str:
    """Describe how far from the truth an estimate may be."""
    if low is None or high is None:
        return "about; the sample is too small for an error"
    margin = 100 * max(high - value, value - low) / max(1, value)
    return f"about; {low:,} to {high:,} (\u00b1 {margin:.1f} %)"
