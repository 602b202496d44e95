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


@cache
def _sentences() -> dict[str, dict[str, str]]:
    return tomllib.loads((resources("corpusmill.audit") / "findings.toml").read_text())


class _Judge:
    """Judges quantities, and keeps the findings.

    Args:
        values: what sentences say, by name.
    """

    def __init__(self, **values: Any) -> None:
        self._values, self.findings = values, list[Finding]()

    def __call__(self, key: str, value: float, **values: Any) -> None:
        """Judge a quantity.

        Args:
            key: of its sentences.
            value: of the quantity.
            values: what they say besides.
        """
        texts, name = _sentences()[key], key.partition(".")[0]
        said = {**self._values, **values, "value": value}
        said["way"] = _sentences()["ways"].get(said.get("way", ""), "")
        parts = [texts[part].format_map(said) for part in ("what", "cause", "cure")]
        parts = [_PERCENT.sub(" %", f"{part[:1].upper()}{part[1:]}") for part in parts]
        self.findings += judge(name, value, *parts)


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
    ids, counts = audit.conventions, audit.measures.counts
    tool = TOKEN_FORMATS[audit.files[0].format]

    def name(token: int) -> str:
        shown = f"{checks.show(token)} " if checks and token >= 0 else ""
        return f"{shown}(id {token})" if token >= 0 else "a token of its own"

    judge_one = _Judge(
        tool=tool.tool, ends=tool.ends, begins=tool.begins,
        begin=name(ids.begin), end=name(ids.end), unknown=name(ids.unknown), width=audit.width,
        vocab_size=ids.vocab_size, tokens=counts["tokens"], dtype=audit.dtype,
    )  # fmt: skip
    _check_files(audit, judge_one)
    _check_ids(audit, checks, judge_one)
    _check_ends(audit, checks, judge_one)
    _check_boundaries(audit, judge_one)
    runs = {key: number for key, number in counts.items() if key.startswith("run.")}
    longest = name(int(max(runs, key=runs.__getitem__, default="run.-1")[4:]))
    judge_one("runs of one id", _share(sum(runs.values()), counts["tokens"]), longest=longest)
    windows = audit.measures.windows
    if windows.total >= FEWEST_ROWS:
        judge_one("repeated windows", windows.repeated_share, windows=windows.total)
    judge_one("empty rows", _share(counts["empty_rows"], counts["rows"] + counts["empty_rows"]))
    judge_one("padding", _share(counts["padding"], counts["tokens"]))
    for column in (Aligned.LABELS, Aligned.LEARNED):
        if counts[f"{column}.rows"]:
            _check_labels(audit, checks, column, judge_one)
    for one in (checks, texts):
        for key, value, values in one.judge() if one else ():
            judge_one(key, value, **values)
    return judge_one.findings


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _check_files(audit: Audit, judge_one: _Judge) -> None:
    damaged = [file for file in audit.files if file.faults]
    named = [f"{file.name}: {', '.join(file.faults)}" for file in damaged[:_NAMED_FILES]]
    shown = "; ".join(named) + " and others" * (len(damaged) > len(named))
    numbers = {"damaged": len(damaged), "files": len(audit.files)}
    judge_one("unfinished files", len(damaged), named=shown, **numbers)


def _check_ids(audit: Audit, checks: TokenizerChecks | None, judge_one: _Judge) -> None:
    ids, size, counts = audit.measures.ids, audit.conventions.vocab_size, audit.measures.counts
    if not size:
        return
    beyond = int(ids[size:].sum()) + counts["uncounted"]
    judge_one("ids beyond the vocabulary", beyond, largest=audit.measures.largest)
    if np.dtype(audit.dtype).itemsize <= 2:
        judge_one("ids too large for their type", max(0, size - 2**16))
    if counts["tokens"] >= _ENOUGH * size:
        judge_one("unused ids", 1 - int((ids[:size] > 0).sum()) / size)
    if audit.conventions.unknown >= 0:
        judge_one("unknown tokens", _share(int(ids[audit.conventions.unknown]), counts["tokens"]))
    if checks:
        replacements = sum(int(ids[token]) for token in checks.replacements)
        judge_one("replacement characters", _share(replacements, counts["tokens"]))


def _check_ends(audit: Audit, checks: TokenizerChecks | None, judge_one: _Judge) -> None:
    """Check what begins and ends documents."""
    counts, ids = audit.measures.counts, audit.conventions
    documents = counts["rows"]
    if not audit.has_documents:
        documents = counts["end.all"] - counts["end.doubled"]
    # Where others end with it, those that are as long as the longest were cut.
    cut = audit.measures.unended[audit.width] if counts["end.rows"] else 0
    if audit.has_documents and documents >= FEWEST_ROWS:
        judge_one("end of text", documents - counts["end.rows"] - cut, documents=documents)
        judge_one("cut documents", _share(cut, documents))
    elif not audit.has_documents and ids.end >= 0:
        judge_one("end of text.nowhere", int(not documents))
    if checks and checks.tokenizer.special.before and ids.begin >= 0:
        begun = counts["begin.rows"] if audit.has_documents else counts["begin.all"]
        # The first document of a stream may begin before it, and the last one end after it.
        lacking = max(0, documents - begun - (0 if audit.has_documents else len(audit.files)))
        judge_one("begin of text", lacking, documents=documents)
    for mark in ("begin", "end"):
        judge_one(f"doubled marks.{mark}", counts[f"{mark}.doubled"])


def _check_boundaries(audit: Audit, judge_one: _Judge) -> None:
    """Compare boundaries that ids, columns and the index have."""
    counts = audit.measures.counts
    inner = counts["end.all"] - counts["end.rows"] - counts["end.doubled"]
    boundaries = counts["boundaries"]
    # Where some tokens are not learned, and where most rows have several, the id ends turns.
    has_labels = counts["labels.rows"] or counts["learned.rows"]
    has_turns = has_labels or 2 * inner > counts["rows"]
    if audit.has_documents and not boundaries and not has_turns:
        judge_one("merged documents", _share(inner, counts["rows"]), inner=inner)
    for name in ("unconfirmed", "unbounded") if counts["end.all"] and not has_labels else ():
        if name == "unconfirmed" or counts[name] < boundaries:
            numbers = {"boundaries": boundaries, name: counts[name]}
            judge_one(f"unmarked boundaries.{name}", _share(counts[name], boundaries), **numbers)
    for name in ("contradictions", "jumps", "holes"):
        judge_one(f"contradicting columns.{name}", counts[name])


def _check_labels(
    audit: Audit, checks: TokenizerChecks | None, column: Aligned, judge_one: _Judge
) -> None:
    names = audit.files[0].label_names if column is Aligned.LABELS else ()
    prefix, name = f"{column}.", ", ".join(names) or ("labels" if names else "the mask")
    found = {
        key.removeprefix(prefix): number
        for key, number in audit.measures.counts.items()
        if key.startswith(prefix)
    }
    is_mask = column is Aligned.LEARNED
    turns = checks.count_turns(audit.measures.ids) if checks else 0
    judge_one("unlearned rows", _share(found["rows_none"], found["rows"]), column=name)
    others = found["comparable"] - found["same"] - found["following"]
    is_masked = 4 * found["masked"] >= 3 * others > found["comparable"]
    if not (is_mask or is_masked) and found["comparable"] >= FEWEST_ROWS:
        are_targets = bool(names) and {*names} <= _TARGETS
        key, number = ("never", "same") if are_targets else ("twice", "following")
        judge_one(f"shifted labels.{key}", _share(found[number], found["comparable"]), column=name)
        judge_one("labels of other tokens", _share(others, found["comparable"]), column=name)
        if found["same"] < found["comparable"] // 2:
            return  # where labels lie otherwise, nothing else of them is certain
    # Texts may name a few tokens that begin turns.
    learns_all = found["learned"] >= found["tokens"] and (is_mask or turns >= found["rows"])
    judge_one("masks without effect", int(learns_all), column=name)
    judge_one("learned padding", found["padding"], column=name)
    if is_masked:
        return  # neither ends nor turns are learned
    if found["final_ends"] and found["learned"] < found["tokens"]:
        lost = 1 - _share(found["learned_final_ends"], found["final_ends"])
        judge_one("unlearned ends.final", lost)
    if found["learned_final_ends"] and found["inner_ends"]:
        lost = 1 - _share(found["learned_inner_ends"], found["inner_ends"])
        judge_one("unlearned ends.inner", lost)
