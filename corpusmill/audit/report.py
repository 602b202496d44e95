"""The report of an audit: figures, findings and rows, for people and programs."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from corpusmill.audit.audit import Audit
from corpusmill.audit.measures import WINDOW
from corpusmill.audit.token_files import Aligned
from corpusmill.audit.tokenizer_checks import TokenizerChecks
from corpusmill.errors import as_flag, count_things, option, spell
from corpusmill.inspection import figures
from corpusmill.inspection.figures import Figure, count_figure, share_figure
from corpusmill.inspection.findings import Finding

FORMAT, FORMAT_VERSION = "corpusmill-audit", 1
_KEYS = ("name", "format", "dtype", "tokens", "faults")
# How a file of numbers begins, by which it is known as ours.
NUMBERS_BEGIN = f'{{\n "format": "{FORMAT}"'.encode()


@dataclass(frozen=True)
class ShownRow:
    """A row of a token file as a person reads it.

    Attributes:
        why: why it is shown ("longest").
        place: its file and its number.
        length: the number of its ids.
        text: its first ids as text, or as numbers without a tokenizer.
    """

    why: str
    place: str
    length: int
    text: str


@dataclass(frozen=True)
class AuditReport:
    """What an audit has found.

    Attributes:
        audit: what was measured.
        findings: what is wrong.
        tokenizer: its name; empty without one.
        figures: of all files together.
        rows: the first, the last, the longest and the shortest one.
    """

    audit: Audit
    findings: Sequence[Finding]
    tokenizer: str
    figures: Sequence[Figure]
    rows: Sequence[ShownRow]

    def to_json(self) -> dict[str, Any]:
        """Return all of it, as `corpusmill audit --json` writes it."""
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "files": [{key: getattr(file, key) for key in _KEYS} for file in self.audit.files],
            "tokenizer": self.tokenizer,
            "conventions": self.audit.conventions._asdict(),
            "sampled": 1 / self.audit.every,
            "counts": dict(sorted(self.audit.measures.counts.items())),
            **{key: [*map(asdict, getattr(self, key))] for key in ("figures", "findings", "rows")},
        }


def make_report(
    audit: Audit, findings: Sequence[Finding], checks: TokenizerChecks | None
) -> AuditReport:
    """Make the report of an audit."""
    shown = dict[tuple[int, int], ShownRow]()
    for why, note in audit.measures.notes.items():
        text = checks.decode(note.ids) if checks else " ".join(map(str, note.ids))
        text += " ..." * (note.length > len(note.ids))
        file, row = note.address
        place = f"{audit.files[file].name}, row {row:,}"
        shown.setdefault(note.address, ShownRow(why, place, note.length, text))
    name = checks.tokenizer.public_name if checks else ""
    return AuditReport(audit, findings, name, [*_list_figures(audit, checks)], [*shown.values()])


def _list_figures(audit: Audit, checks: TokenizerChecks | None) -> Iterator[Figure]:
    counts, measures = audit.measures.counts, audit.measures
    kind = "documents" if audit.has_documents else "rows"
    part = f", in a sample of one in {audit.every:,} parts" if audit.every > 1 else ""
    files = count_things(len(audit.files), "file")
    yield count_figure("ids", counts["tokens"], f"in {files}{part}")
    if not any(file.is_stream for file in audit.files):
        meaning = f"cut at {audit.width:,} ids, wherever documents end"
        yield count_figure(kind, counts["rows"], meaning * audit.conventions.are_windows)
        lengths = figures.Distribution("length", dict(sorted(measures.lengths.items())))
        yield figures.describe_distribution(lengths)
    different, size = int((measures.ids > 0).sum()), audit.conventions.vocab_size
    of_all = f"of the tokenizer's {size:,}; " * bool(size)
    yield count_figure("different ids", different, f"{of_all}the largest is {measures.largest:,}")
    yield from _list_kinds(audit, checks) if checks else ()
    for name in ("begin", "end"):
        if (token := getattr(audit.conventions, name)) >= 0:
            shown = f"{checks.show(token)}, the id {token}" if checks else f"the id {token}"
            edges = f"; at the {name} of {counts[f'{name}.rows']:,} {kind}" * audit.has_documents
            yield count_figure(f"{name}s", counts[f"{name}.all"], f"of {shown}{edges}")
        elif name == "end":
            meaning = f"are not known; {option('tokenizer')} or {option('end_id')} tells them"
            yield Figure("ends", 0, "-", spell(meaning, as_flag))
    if counts["padding"]:
        yield share_figure("padding", counts["padding"] / counts["tokens"], "of the ids")
    if total := measures.windows.total:
        meaning = f"of the windows of {WINDOW} ids occur before, as {total:,} of them tell"
        yield share_figure("repeated", measures.windows.repeated_share, meaning)
    for name in Aligned.LABELS, Aligned.LEARNED:
        if tokens := counts[f"{name}.tokens"]:
            meaning = f"of the ids that are no padding, by {name}"
            yield share_figure("learned", counts[f"{name}.learned"] / tokens, meaning)


def _list_kinds(audit: Audit, checks: TokenizerChecks) -> Iterator[Figure]:
    """Yield the shares of ids that tell little of a text."""
    unknown = [token for token in (audit.conventions.unknown,) if token >= 0]
    for name, ids, kind in (
        ("unknown", unknown, "unknown tokens"),
        ("replaced", checks.replacements, "U+FFFD, in the place of bytes that were no text"),
        ("bytes", checks.bytes, "single bytes, of letters that the vocabulary lacks"),
    ):
        if ids:
            number = int(audit.measures.ids[ids].sum())
            share = number / max(1, audit.measures.counts["tokens"])
            yield share_figure(name, share, f"of the ids are {kind}")
