"""The balance of the counts of all stages: the proof that nothing was lost or built twice."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


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

    documents = count("tokenize.documents") + count("tokenize.empty_documents")
    passes = count("tokenize.documents") * expected.repeats
    kinds = ("sentence", "blank", "title", "rejected")
    lines = sum(count(f"read.{kind}_lines") for kind in kinds)
    lines += count("read.rejected_rows") + count("read.records")
    units = count("read.lines") + count("read.rows")
    # Several examples may be packed into one row.
    examples = counts.get("write.pieces", written_rows)
    comparisons = [
        ("ranges read", count("read.ranges"), "ranges planned", expected.ranges),
        ("lines and rows of all kinds", lines, "lines and rows read", units),
        ("documents tokenized", documents, "documents read", count("read.documents")),
        ("passes over documents built", count("build.passes"), "passes planned", passes),
        ("rows written", examples, "examples built", count("build.examples")),
        ("shards written", shards, "shards planned", expected.shards),
    ]
    comparisons += _compare_tokens(counts, expected.repeats)
    if count("read.records"):
        uncut = count("read.documents") - count("read.cut_documents")
        filled = count("read.records") - count("read.empty_records")
        comparisons.append(("records with text", filled, "documents before any was cut", uncut))
    rejects = count("read.rejects")
    if "write.rejects" in counts:
        comparisons.append(("rejects written", count("write.rejects"), "rejects found", rejects))
    if reasons := count_reasons(counts):
        comparisons.append(("rejects of all reasons", sum(reasons.values()), "rejects", rejects))
    if "pool.candidates" in counts:
        candidates, kept = count("pool.candidates"), count("candidates.documents")
        comparisons.append(("candidates of the pool", candidates, "candidates kept", kept))
    if expected.bytes >= 0:
        comparisons.append(("bytes read", count("read.bytes"), "bytes of input", expected.bytes))
    return [
        f"{number:,} {name}, but {other:,} {other_name}"
        for name, number, other_name, other in comparisons
        if number != other
    ]


def _compare_tokens(counts: Mapping[str, int], repeats: int) -> Iterator[tuple[str, int, str, int]]:
    """Compare the tokens of the corpus with those in rows and those cut off, where known."""
    if "write.segment_tokens" in counts and "build.trimmed_tokens" in counts:
        own = counts["write.segment_tokens"] - counts.get("build.random_tokens", 0)
        held = own + counts["build.trimmed_tokens"]
        tokens = counts.get("tokenize.tokens", 0) * repeats
        yield "tokens in rows or cut off", held, "tokens to build from", tokens


def count_reasons(counts: Mapping[str, int]) -> dict[str, int]:
    """Rejects by reason, the most frequent first.

    Example:
        {"read.rejects": 3, "read.rejects.not-text": 1, "read.rejects.invalid-json": 2} gives
        {"invalid-json": 2, "not-text": 1}.
    """
    prefix = "read.rejects."
    reasons = [
        (name.removeprefix(prefix), number)
        for name, number in counts.items()
        if name.startswith(prefix)
    ]
    return dict(sorted(reasons, key=lambda reason: (-reason[1], reason[0])))


def is_of_the_run(name: str) -> bool:
    """Whether a count depends on how the work was divided.

    Such a count is checked, but not kept: the manifest describes the data set, not the run.
    """
    return name == "read.ranges"


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
            case [_, split, distribution, value]:
                values = distributions.setdefault(split, {}).setdefault(distribution, {})
                values[int(value)] = number
            case _:
                plain[name] = number
    ordered = {
        split: {name: dict(sorted(values.items())) for name, values in named.items()}
        for split, named in distributions.items()
    }
    return plain, ordered
