"""Findings about token files: what makes a training on them worse, whoever wrote them.

`findings.toml` has their sentences, and docs/reference/findings.md a row for each.
"""

import re
import tomllib
from functools import cache
from importlib.resources import files as resources
from typing import Any

import numpy as np

from corpusmill.audit.audit import Audit
from corpusmill.audit.measures import LABEL_COUNTS
from corpusmill.audit.text_checks import TextChecks
from corpusmill.audit.token_files import TOKEN_FORMATS, Aligned
from corpusmill.audit.tokenizer_checks import TokenizerChecks
from corpusmill.inspection.facts import FEWEST_ROWS
from corpusmill.inspection.findings import Finding, judge

# More files are counted, not named.
_NAMED_FILES = 3
# Of fewer ids for each one of the vocabulary, many are unused by chance.
_ENOUGH = 100
# As in all reports, a space stands before it.
_PERCENT = re.compile(r"(?<=\d)%")
# The columns whose labels a loss compares as they are, without shifting them.
_TARGETS = frozenset({"targets", "target_ids", "shift_labels", "y"})
# The sentences of a finding.
_KINDS = ("what", "cause", "cure")


@cache
def _sentences() -> dict[str, dict[str, str]]:
    return tomllib.loads((resources("corpusmill.audit") / "findings.toml").read_text())


def find(
    audit: Audit, checks: TokenizerChecks | None = None, texts: TextChecks | None = None
) -> list[Finding]:
    """Find what is wrong with token files.

    Args:
        audit: what was measured.
        checks: what a tokenizer says of them; None without one.
        texts: what the corpus says of them; likewise.

    Returns:
        The findings, those that usually cause others first.
    """
    judge = _Judge(audit, checks)
    judge.check_files()
    judge.check_ids()
    judge.check_ends()
    judge.check_boundaries()
    judge.check_rows()
    for column in (Aligned.LABELS, Aligned.LEARNED):
        if audit.measures.counts[f"{column}.rows"]:
            judge.check_labels(column)
    for comparison in (checks, texts):
        for key, value, values in comparison.judge() if comparison else ():
            judge(key, value, **values)
    return judge.findings


class _Judge:
    """Judges quantities, and keeps the findings.

    Args:
        audit: what was measured.
        checks: what a tokenizer says of it; None without one.
    """

    def __init__(self, audit: Audit, checks: TokenizerChecks | None) -> None:
        ids, tool = audit.conventions, TOKEN_FORMATS[audit.files[0].format]
        self._audit, self._checks, self._ids = audit, checks, ids
        self._counts, self.findings = audit.measures.counts, list[Finding]()
        self._values: dict[str, Any] = {
            "tool": tool.tool, "ends": tool.ends, "begins": tool.begins, "way": "",
            "begin": self._name(ids.begin), "end": self._name(ids.end),
            "unknown": self._name(ids.unknown), "width": audit.width, "dtype": audit.dtype,
            "vocab_size": ids.vocab_size, "tokens": self._counts["tokens"],
        }  # fmt: skip

    def _name(self, token: int) -> str:
        if token < 0:
            return "a token of its own"
        shown = f"{self._checks.show(token)} " if self._checks else ""
        return f"{shown}(id {token})"

    def __call__(self, key: str, part: float, whole: float | None = None, **values: Any) -> None:
        """Judge a quantity.

        Args:
            key: of its sentences.
            part: the quantity.
            whole: what it is a part of, so that its share is judged; None for itself.
            values: what sentences say besides.
        """
        value = part if whole is None else part / whole if whole else 0.0
        values = {**self._values, **values, "value": value}
        values["way"] = _sentences()["ways"].get(values["way"], "")
        sentences = (_sentences()[key][kind].format_map(values) for kind in _KINDS)
        parts = [_PERCENT.sub(" %", f"{text[:1].upper()}{text[1:]}") for text in sentences]
        self.findings += judge(key.partition(".")[0], value, *parts)

    def check_files(self) -> None:
        """Name the files that are damaged."""
        files = self._audit.files
        faults = [f"{file.name}: {', '.join(file.faults)}" for file in files if file.faults]
        named = "; ".join(faults[:_NAMED_FILES]) + " and others" * (len(faults) > _NAMED_FILES)
        self("unfinished files", len(faults), named=named, damaged=len(faults), files=len(files))

    def check_ids(self) -> None:
        """Compare ids with the vocabulary."""
        numbers, size = self._audit.measures.ids, self._ids.vocab_size
        if not size:
            return
        tokens = self._counts["tokens"]
        beyond = int(numbers[size:].sum()) + self._counts["uncounted"]
        self("ids beyond the vocabulary", beyond, largest=self._audit.measures.largest)
        if np.dtype(self._audit.dtype).itemsize <= 2:
            self("ids too large for their type", max(0, size - 2**16))
        if tokens >= _ENOUGH * size:
            self("unused ids", int(np.count_nonzero(numbers[:size] == 0)), size)
        if self._ids.unknown >= 0:
            self("unknown tokens", int(numbers[self._ids.unknown]), tokens)
        if self._checks:
            self("replacement characters", int(numbers[self._checks.replacements].sum()), tokens)

    def check_ends(self) -> None:
        """Check what begins and ends documents."""
        counts, keeps_documents = self._counts, self._audit.has_documents
        documents = counts["rows"] if keeps_documents else counts["end.all"] - counts["end.doubled"]
        # Where others end with it, those that are as long as the longest were cut.
        cut = self._audit.measures.unended[self._audit.width] if counts["end.rows"] else 0
        if not all(file.ends_documents for file in self._audit.files):
            pass  # that something else tells
        elif keeps_documents and documents >= FEWEST_ROWS:
            self("end of text", documents - counts["end.rows"] - cut, documents=documents)
            self("cut documents", cut, documents)
        elif not keeps_documents and self._ids.end >= 0:
            self("end of text.nowhere", int(not documents))
        if self._checks and self._checks.tokenizer.special.before and self._ids.begin >= 0:
            # The first document of a stream may begin before it, and the last one end after it.
            begun = counts["begin.rows" if keeps_documents else "begin.all"]
            begun += 0 if keeps_documents else len(self._audit.files)
            self("begin of text", max(0, documents - begun), documents=documents)
        for mark in ("begin", "end"):
            self(f"doubled marks.{mark}", counts[f"{mark}.doubled"])

    def check_boundaries(self) -> None:
        """Compare boundaries that ids, columns and the index have."""
        counts, rows = self._counts, self._counts["rows"]
        inner = counts["end.all"] - counts["end.rows"] - counts["end.doubled"]
        boundaries = counts["boundaries"]
        has_labels = bool(counts["labels.rows"] or counts["learned.rows"])
        # Where some tokens are not learned, and where most rows have several, the id ends turns.
        has_turns = has_labels or 2 * inner > rows
        if self._audit.has_documents and not boundaries and not has_turns:
            self("merged documents", inner, rows, inner=inner)
        for name in ("unconfirmed", "unbounded") if counts["end.all"] and not has_labels else ():
            if name == "unconfirmed" or counts[name] < boundaries:
                numbers = {"boundaries": boundaries, name: counts[name]}
                self(f"unmarked boundaries.{name}", counts[name], boundaries, **numbers)
        for name in ("contradictions", "jumps", "holes"):
            self(f"contradicting columns.{name}", counts[name])

    def check_rows(self) -> None:
        """Check what tells little: ids and windows that occur again, and empty rows."""
        counts, windows = self._counts, self._audit.measures.windows
        runs = {key: number for key, number in counts.items() if key.startswith("run.")}
        longest = self._name(int(max(runs, key=runs.__getitem__, default="run.-1")[4:]))
        self("runs of one id", sum(runs.values()), counts["tokens"], longest=longest)
        if windows.total >= FEWEST_ROWS:
            self("repeated windows", windows.repeated_share, windows=windows.total)
        self("empty rows", counts["empty_rows"], counts["rows"] + counts["empty_rows"])
        self("padding", counts["padding"], counts["tokens"])

    def check_labels(self, column: Aligned) -> None:
        """Check what is learned, as labels or a mask tell it."""
        is_mask = column is Aligned.LEARNED
        names = () if is_mask else self._audit.files[0].label_names
        name = ", ".join(names) or "the mask"
        counts = {key: self._counts[f"{column}.{key}"] for key in LABEL_COUNTS}
        comparable, same = counts["comparable"], counts["same"]
        self("unlearned rows", counts["rows_none"], counts["rows"], column=name)
        others = comparable - same - counts["following"]
        is_masked = 4 * counts["masked"] >= 3 * others > comparable
        if not (is_mask or is_masked) and comparable >= FEWEST_ROWS:
            are_targets = bool(names) and {*names} <= _TARGETS
            key, number = ("never", same) if are_targets else ("twice", counts["following"])
            self(f"shifted labels.{key}", number, comparable, column=name)
            self("labels of other tokens", others, comparable, column=name)
            if same < comparable // 2:
                return  # where labels lie otherwise, nothing else of them is certain
        # Texts may name a few tokens that begin turns.
        turns = self._checks.count_turns(self._audit.measures.ids) if self._checks else 0
        has_turns, learns_all = turns >= counts["rows"], counts["learned"] >= counts["tokens"]
        self("masks without effect", int(learns_all and (is_mask or has_turns)), column=name)
        self("learned padding", counts["padding"], column=name)
        if is_masked:
            return  # neither ends nor turns are learned
        ends, learned_ends = counts["final_ends"], counts["learned_final_ends"]
        if ends and not learns_all:
            self("unlearned ends.final", ends - learned_ends, ends)
        if learned_ends and counts["inner_ends"]:
            lost = counts["inner_ends"] - counts["learned_inner_ends"]
            self("unlearned ends.inner", lost, counts["inner_ends"])
