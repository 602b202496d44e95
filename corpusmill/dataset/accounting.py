"""Whether the counts of all stages agree: the proof that nothing was lost or built twice."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Expected:
    """What the plan knows before the first record is read.

    Attributes:
        ranges: number of ranges.
        bytes: sum of the input files' sizes; -1 where compressed files hide it.
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
    """The sentences that say where counts disagree; none where all is well.

    Args:
        counts: sums over all bundles, {"read.ranges": 9, ...}.
        expected: from the plan.
        written_rows: rows of all shards that were written.
        shards: number of shards that were written.
    """
    return list(_compare(counts, expected, written_rows, shards))


def _compare(
    counts: Mapping[str, int], expected: Expected, written_rows: int, shards: int
) -> Iterator[str]:
    def of(name: str) -> int:
        return counts.get(name, 0)

    documents = of("tokenize.documents") + of("tokenize.empty_documents")
    passes = of("tokenize.documents") * expected.repeats
    kinds = ("sentence", "blank", "title", "rejected")
    lines = sum(of(f"read.{kind}_lines") for kind in kinds) + of("read.rejected_rows")
    units = of("read.lines") + of("read.rows")
    # Where several examples are packed into a row.
    examples = counts.get("write.pieces", written_rows)
    comparisons = [
        ("ranges read", of("read.ranges"), "ranges planned", expected.ranges),
        ("lines and rows of all kinds", lines + of("read.records"), "lines and rows read", units),
        ("documents tokenized", documents, "documents read", of("read.documents")),
        ("passes over documents built", of("build.passes"), "passes planned", passes),
        ("rows written", examples, "examples built", of("build.examples")),
        ("shards written", shards, "shards planned", expected.shards),
    ]
    if of("read.records"):
        uncut = of("read.documents") - of("read.cut_documents")
        given = of("read.records") - of("read.empty_records")
        comparisons.append(("records with text", given, "documents before any was cut", uncut))
    if "write.rejects" in counts:
        found = of("read.rejects")
        comparisons.append(("rejects written", of("write.rejects"), "rejects found", found))
    if reasons := count_reasons(counts):
        found = of("read.rejects")
        comparisons.append(("rejects of all reasons", sum(reasons.values()), "rejects", found))
    if "pool.candidates" in counts:
        given = of("pool.candidates")
        comparisons.append(
            ("candidates of the pool", given, "candidates kept", of("candidates.documents"))
        )
    if expected.bytes >= 0:
        comparisons.append(("bytes read", of("read.bytes"), "bytes of input", expected.bytes))
    for name, number, other_name, other in comparisons:
        if number != other:
            yield f"{number:,} {name}, but {other:,} {other_name}"


def count_reasons(counts: Mapping[str, int]) -> dict[str, int]:
    """Rejects by reason, the most frequent first.

    Example:
        {"read.rejects": 3, "read.rejects.not-text": 1, "read.rejects.invalid-json": 2} gives
        {"invalid-json": 2, "not-text": 1}.
    """
    prefix = "read.rejects."
    reasons = [
        (name.removeprefix(prefix), of) for name, of in counts.items() if name.startswith(prefix)
    ]
    return dict(sorted(reasons, key=lambda reason: (-reason[1], reason[0])))


def is_of_the_run(name: str) -> bool:
    """Whether a count depends on how the work was cut.

    Such a count is balanced, but not kept: the manifest is the data set's, not the run's.
    """
    return name == "read.ranges"


def split_distributions(
    counts: Mapping[str, int],
) -> tuple[dict[str, int], dict[str, dict[str, list[int]]]]:
    """The plain counts, and the distributions that `write.<split>.<name>.<value>` spell.

    Example:
        {"read.lines": 3, "write.train.length.2": 5} gives {"read.lines": 3} and
        {"train": {"length": [0, 0, 5]}}.
    """
    plain: dict[str, int] = {}
    distributions: dict[str, dict[str, list[int]]] = {}
    for name, number in sorted(counts.items()):
        parts = name.split(".")
        if len(parts) != 4:
            plain[name] = number
            continue
        values = distributions.setdefault(parts[1], {}).setdefault(parts[2], [])
        value = int(parts[3])
        values.extend([0] * (value + 1 - len(values)))
        values[value] = number
    return plain, distributions
