"""The balance of the counts of all stages: the proof that nothing was lost or built twice."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from corpusmill.dataset.manifest_entries import SourceFile
from corpusmill.errors import count_things

# Why a document is left out of a source of which only a share is taken.
NOT_DRAWN = "not-drawn"
_REJECTS, _UNFINISHED = "are rejects", "could not be read to their end"
# More files that end early are counted, not named.
_NAMED_FILES = 10
# Begins the counts of a file's unread bytes, and of its bytes in ranges of which nearly all lines
# and rows are rejects: read.unread.<number of the file>.
_UNREAD, _LOST = "read.unread.", "read.lost."
# Counts documents of text, before any was cut, where the sources of a corpus are read in many ways.
TEXT_DOCUMENTS = "read.text_documents"
# Begins the counts of a source: source.<name>.<stage>.<count>.
_SOURCE = "source."
# Why documents are dropped after those that are hashed to find duplicates.
_AFTER_HASHING = ("duplicate", "near-duplicate", "overlap", NOT_DRAWN, "in-data-set")


@dataclass(frozen=True)
class Expected:
    """Totals that are known before the first record is read.

    Attributes:
        ranges: number of ranges.
        bytes: sum of the input files' sizes; -1 if files are compressed.
        shards: number of shards.
        repeats: how many times each document is built.
    """

    ranges: int
    bytes: int
    shards: int
    repeats: int


class Loss(NamedTuple):
    """How much of the input cannot be read, by one measure.

    Attributes:
        part: how much.
        whole: of how much.
        unit: what is measured.
        verb: what happened to the part.
    """

    part: int
    whole: int
    unit: str
    verb: str

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.part / max(1, self.whole)

    def exceeds(self, share: float) -> bool:
        """Whether more is lost than a share of the whole."""
        return self.part > share * self.whole


NO_LOSS = Loss(0, 0, "lines and rows", _REJECTS)


def measure_rejects(counts: Mapping[str, int], files: Sequence[SourceFile]) -> Loss:
    """Return what is lost by the measure that gives most: records, bytes, files, or stored bytes.

    A reject may be a line of two bytes, a line of a gigabyte, a block of a table, or what is left
    of a file, of which nothing is known but its size.

    Args:
        counts: counts of all stages.
        files: the files of the corpus; files do not count if there are none.
    """
    unfinished = counts.get("read.unfinished_files", 0) if files else 0
    measures = (
        measure_unread(files),
        Loss(unfinished, len(files), "files", _UNFINISHED),
        measure_rejected_records(counts),
        Loss(counts.get("read.rejected_bytes", 0), counts.get("read.bytes", 0), "bytes", _REJECTS),
    )
    return max(measures, key=lambda loss: loss.share)


def measure_unread(files: Sequence[SourceFile]) -> Loss:
    """Return how many of the stored bytes are in files, or parts of them, that were not read."""
    lost = sum(file.unread or 0 for file in files)
    return Loss(lost, sum(file.bytes for file in files), "stored bytes", _UNFINISHED)


def describe_unfinished(files: Sequence[SourceFile]) -> str:
    """Name the files that could not be read to their end; empty if there is none."""
    cut = [file for file in files if file.unread is not None]
    if not cut:
        return ""
    named = ", ".join(
        f"{file.path} ({count_things(file.bytes, 'byte')}"
        + (f", {file.unread:,} of them after the damage)" if file.unread < file.bytes else ")")
        for file in cut[:_NAMED_FILES]
        if file.unread is not None
    )
    more = f" and {len(cut) - _NAMED_FILES:,} more" if len(cut) > _NAMED_FILES else ""
    which = f"{len(cut):,} of {len(files):,} files" if len(files) > 1 else "The only file"
    share = 100 * measure_unread(files).share
    which += f" could not be read to the end, with up to {share:.1f} % of the stored bytes"
    return f"{which}: {named}{more}"


def measure_rejected_records(counts: Mapping[str, int]) -> Loss:
    """Return how many lines and rows are rejects, or files and blocks where none was read."""
    units = counts.get("read.lines", 0) + counts.get("read.rows", 0)
    # One reject may cover all rows of a damaged block, or bytes that are not a line.
    refused = counts.get("read.rejected_lines", 0) + counts.get("read.rejected_rows", 0)
    part = max(counts.get("read.rejects", 0), refused)
    unit = "lines and rows" if units else "files and blocks"
    return Loss(part, max(part, units), unit, _REJECTS)


def count_unread(file_index: int) -> str:
    """Return the name of the count of a file's unread bytes (`SourceFile.unread`)."""
    return f"{_UNREAD}{file_index}"


def count_lost(file_index: int) -> str:
    """Return the name of the count of a file's bytes in ranges that are nearly all rejects."""
    return f"{_LOST}{file_index}"


def split_files(
    counts: Mapping[str, int],
) -> tuple[dict[str, int], dict[int, int], dict[int, int]]:
    """Separate all other counts from the unread and the lost bytes of files, by their numbers.

    Example:
        {"read.lines": 3, "read.unread.7": 90} gives {"read.lines": 3}, {7: 90} and {}.
    """
    unread, lost = (
        {int(name.removeprefix(kind)): n for name, n in counts.items() if name.startswith(kind)}
        for kind in (_UNREAD, _LOST)
    )
    others = {name: n for name, n in counts.items() if not name.startswith((_UNREAD, _LOST))}
    return others, unread, lost


def find_imbalances(
    counts: Mapping[str, int], expected: Expected, written_rows: int, shards: int
) -> list[str]:
    """Describe counts that disagree, one sentence each.

    Args:
        counts: sums over all bundles, {"read.ranges": 9, ...}.
        expected: from the plan.
        written_rows: rows of all written shards.
        shards: number of written shards.
    """

    def count(name: str) -> int:
        return counts.get(name, 0)

    passes = count_copies(counts) * expected.repeats
    kinds = ("sentence", "blank", "title", "rejected")
    lines = sum(count(f"read.{kind}_lines") for kind in kinds)
    lines += count("read.rejected_rows") + count("read.records")
    units = count("read.lines") + count("read.rows")
    # Several examples may be packed into one row.
    examples = counts.get("write.pieces", written_rows)
    comparisons = [
        ("ranges read", count("read.ranges"), "ranges planned", expected.ranges),
        ("lines and rows of all kinds", lines, "lines and rows read", units),
        ("passes over documents built", count("build.passes"), "passes planned", passes),
        ("rows written", examples, "examples built", count("build.examples")),
        ("shards written", shards, "shards planned", expected.shards),
    ]
    comparisons += _compare_tokens(counts, expected.repeats)
    comparisons += compare_documents(counts)
    comparisons += _compare_sources(counts, expected.repeats)
    # Where sources of text stand beside those of records, their documents are counted apart.
    if count("read.records") and (not count("read.sentence_lines") or TEXT_DOCUMENTS in counts):
        uncut = count("read.documents") - count("read.cut_documents") - count(TEXT_DOCUMENTS)
        filled = count("read.records") - count("read.empty_records")
        comparisons.append(("records with text", filled, "documents before any was cut", uncut))
    rejects = count("read.rejects")
    if "write.rejects" in counts:
        comparisons.append(("rejects written", count("write.rejects"), "rejects found", rejects))
    if reasons := count_reasons(counts):
        comparisons.append(("rejects of all reasons", sum(reasons.values()), "rejects", rejects))
    if "pool.candidates" in counts:
        candidates = ("candidates kept", count("candidates.documents"))
        comparisons.append(("candidates of the pool", count("pool.candidates"), *candidates))
    if expected.bytes >= 0:
        comparisons.append(("bytes read", count("read.bytes"), "bytes of input", expected.bytes))
    return [
        f"{number:,} {name}, but {other:,} {other_name}"
        for name, number, other_name, other in comparisons
        if number != other
    ]


def _compare_tokens(counts: Mapping[str, int], repeats: int) -> Iterator[tuple[str, int, str, int]]:
    """Compare the tokens of the corpus with those in rows and those cut off, where known."""
    if "build.kept_tokens" in counts:
        held = counts["build.kept_tokens"] + counts.get("build.trimmed_tokens", 0)
        tokens = count_copied_tokens(counts) * repeats
        yield "tokens in rows or cut off", held, "tokens to build from", tokens
    if "write.segment_tokens" in counts and "build.trimmed_tokens" in counts:
        segment_tokens = counts["write.segment_tokens"] - counts.get("build.random_tokens", 0)
        held = segment_tokens + counts["build.trimmed_tokens"]
        tokens = count_copied_tokens(counts) * repeats
        yield "tokens in rows or cut off", held, "tokens to build from", tokens


def _compare_sources(
    counts: Mapping[str, int], repeats: int
) -> Iterator[tuple[str, int, str, int]]:
    """Compare the counts of each source, and their sums with those of all text."""
    _, sources = split_sources(counts)
    sums = Counter[str]()
    for source, each in sources.items():
        sums.update(each)
        passes = each.get("tokenize.copies", 0) * repeats
        yield f"passes over documents of {source}", each.get("build.passes", 0), "planned", passes
        used = each.get("tokenize.documents", 0) + each.get("filter.dropped", 0)
        used += each.get("tokenize.empty_documents", 0)
        yield f"documents of {source} used or dropped", used, "read", each.get("read.documents", 0)
    for name, number in sums.items():
        yield f"{name} of all sources", number, name, counts.get(name, 0)


def count_copies(counts: Mapping[str, int]) -> int:
    """Documents to build from, each as often as it was taken from its source."""
    return counts.get("tokenize.copies", counts.get("tokenize.documents", 0))


def count_copied_tokens(counts: Mapping[str, int]) -> int:
    """Tokens to build from, those of each document as often as it was taken from its source."""
    return counts.get("tokenize.copied_tokens", counts.get("tokenize.tokens", 0))


def name_of_source(source: str, name: str) -> str:
    """The name of a source's count.

    Example:
        "wiki" and "read.documents" give "source.wiki.read.documents".
    """
    return f"{_SOURCE}{source}.{name}"


def split_sources(
    counts: Mapping[str, int],
) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Separate the counts of all text from those of each source.

    Example:
        {"read.documents": 3, "source.wiki.read.documents": 2} gives {"read.documents": 3} and
        {"wiki": {"read.documents": 2}}.
    """
    common: dict[str, int] = {}
    sources: dict[str, dict[str, int]] = {}
    for name, number in counts.items():
        if name.startswith(_SOURCE):
            source, _, count = name.removeprefix(_SOURCE).partition(".")
            sources.setdefault(source, {})[count] = number
        else:
            common[name] = number
    return common, sources


def compare_documents(counts: Mapping[str, int]) -> Iterator[tuple[str, int, str, int]]:
    """Compare the documents that were read, tokenized and dropped."""
    read, dropped = counts.get("read.documents", 0), counts.get("filter.dropped", 0)
    tokenized = counts.get("tokenize.documents", 0) + counts.get("tokenize.empty_documents", 0)
    or_dropped = " or dropped" if dropped else ""
    yield f"documents tokenized{or_dropped}", tokenized + dropped, "documents read", read
    if "groups.records" in counts:
        made = counts.get("tokenize.documents", 0)
        yield "records joined", counts["groups.records"], "documents tokenized", made
    if "filter.documents" in counts:
        yield "documents filtered", counts["filter.documents"], "documents read", read
        reasons = sum(count_dropped(counts).values())
        yield "documents dropped for all reasons", reasons, "dropped", dropped
    dropped_by = Counter(count_dropped(counts))
    filtered = dropped_by.total() - sum(dropped_by[name] for name in _AFTER_HASHING)
    if "duplicates.documents" in counts:
        hashed, duplicates = counts["duplicates.documents"], counts.get("duplicates.found", 0)
        yield "documents hashed", hashed, "documents read that no filter drops", read - filtered
        yield "duplicates found", duplicates, "duplicates dropped", dropped_by["duplicate"]
    if "near.documents" in counts:
        distinct = read - filtered - dropped_by["duplicate"]
        yield "documents compared", counts["near.documents"], "documents to compare", distinct
        near, number = counts.get("near.found", 0), dropped_by["near-duplicate"]
        yield "near-duplicates found", near, "near-duplicates dropped", number
    if "known.documents" in counts:
        number = count_dropped(counts).get("in-data-set", 0)
        yield "known documents found", counts["known.documents"], "known documents dropped", number


def count_reasons(counts: Mapping[str, int]) -> dict[str, int]:
    """Rejects by reason, the most frequent first.

    Example:
        {"read.rejects": 3, "read.rejects.not-text": 1, "read.rejects.invalid-json": 2} gives
        {"invalid-json": 2, "not-text": 1}.
    """
    return _count_by_reason(counts, "read.rejects.")


def count_dropped(counts: Mapping[str, int]) -> dict[str, int]:
    """Documents that filters have dropped, by reason, the most frequent first.

    Example:
        {"filter.dropped": 3, "filter.dropped.too-short": 3} gives {"too-short": 3}.
    """
    return _count_by_reason(counts, "filter.dropped.")


def _count_by_reason(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    reasons = [
        (name.removeprefix(prefix), number)
        for name, number in counts.items()
        if name.startswith(prefix)
    ]
    return dict(sorted(reasons, key=lambda reason: (-reason[1], reason[0])))


def is_of_the_run(name: str) -> bool:
    """Whether a count is checked, but not kept: the manifest describes the data set, not the run.

    It depends on how the work was divided, or cannot be added to those of other runs.
    """
    return name in {"read.ranges", TEXT_DOCUMENTS}


def split_distributions(
    counts: Mapping[str, int],
) -> tuple[dict[str, int], dict[str, dict[str, dict[int, int]]]]:
    """Separate the plain counts from the distributions, `write.<split>.<name>.<value>`.

    Example:
        {"read.lines": 3, "write.train.length.2": 5} gives {"read.lines": 3} and
        {"train": {"length": {2: 5}}}.
    """
    plain: dict[str, int] = {}
    distributions: dict[str, dict[str, dict[int, int]]] = {}
    for name, number in sorted(counts.items()):
        match name.split("."):
            case [_, split, distribution, value] if value.lstrip("-").isdecimal():
                values = distributions.setdefault(split, {}).setdefault(distribution, {})
                values[int(value)] = number
            case _:
                plain[name] = number
    ordered = {
        split: {name: dict(sorted(values.items())) for name, values in named.items()}
        for split, named in distributions.items()
    }
    return plain, ordered
