"""The names of shards: a pattern with {split}, {shard} and {shards}.

Google's ELECTRA reads files named "pretrain_data.tfrecord-{shard}-of-{shards}", numbered from 0 and
without leading zeros.
"""

import re
from collections.abc import Iterator
from string import Formatter

from corpusmill.errors import UserError, option

DEFAULT = "{split}-{shard:05d}-of-{shards:05d}"

_FLAG = option("shard_name")
_PLAIN = re.compile(r"[A-Za-z0-9._=+-]*")
_NUMBER = re.compile("(0[1-9])?d?")
# Regular expressions of the name of a source or an added part in names, and of what takes the
# split's place: these names follow it.
PART = r"-[A-Za-z]\w*"
SPLIT_GROUP = rf"(train|validation)({PART}){{0,2}}"
_FORMATS = {"split": re.compile(""), "shard": _NUMBER, "shards": _NUMBER}


def check_pattern(pattern: str) -> None:
    """Refuse a pattern that does not name shards.

    Raises:
        UserError: it is not a pattern, lacks {shard}, or has characters that names of shards must
            not have.
    """
    for cause, cure in _find_faults(pattern):
        raise UserError(f"{_FLAG} {pattern}", cause, cure)


def _find_faults(pattern: str) -> Iterator[tuple[str, str]]:
    """Yield cause and cure of each fault."""
    try:
        parts = list(Formatter().parse(pattern))
    except ValueError as error:
        yield str(error), "Write {split}, {shard}, {shards}"
        return
    for plain, field, form, conversion in parts:
        if field is not None and (
            field not in _FORMATS or conversion or not _FORMATS[field].fullmatch(form or "")
        ):
            cause = f"{{{field}}} is not one of {{split}}, {{shard}}, {{shards}}"
            if field in _FORMATS:
                cause = f"{{{field}}} has an unsupported format"
            yield cause, "Write {split}, {shard}, {shards}, or {shard:05d} for five digits"
        if not _PLAIN.fullmatch(plain):
            cause = f"{plain!r} has a character that names of shards must not have"
            yield cause, "Use letters, digits and . _ - + ="
    if "shard" not in _fields(pattern):
        yield "all shards would have the same name", "Add {shard}"
    if pattern.startswith((".", "_")):
        yield f"files whose names begin with {pattern[0]} are hidden", "Begin otherwise"


def _fields(pattern: str) -> set[str | None]:
    return {field for _, field, _, _ in Formatter().parse(pattern)}


def tells_parts_apart(pattern: str | None) -> bool:
    """Return whether shards of several splits, sources or generations get names of their own.

    Args:
        pattern: of the names; None for the default.
    """
    return pattern is None or "split" in _fields(pattern)


def check_parts(pattern: str | None, validation: bool, sources: bool) -> None:
    """Refuse a pattern that gives two parts of a data set the same names.

    Args:
        pattern: of the names; None for the default.
        validation: whether there is a validation split.
        sources: whether there are sources with names.

    Raises:
        UserError: there are such parts, and the pattern lacks {split}.
    """
    if tells_parts_apart(pattern) or not (validation or sources):
        return
    parts, others = "train and validation", f"{option('validation_share')}"
    if sources:
        parts, others = "all sources", "the names of sources"
    cause = f"the shards of {parts} would have the same names"
    raise UserError(f"{_FLAG} {pattern}", cause, f"Add {{split}}, or leave {others} out")


def fill(pattern: str, split: str, shard: int, shards: int) -> str:
    """Return the name of a shard: the default pattern gives "train-00003-of-00008"."""
    return pattern.format(split=split, shard=shard, shards=shards)


def matcher_of(pattern: str) -> re.Pattern[str]:
    """Return a regular expression that matches every name that a pattern can give."""
    texts = []
    for plain, field, form, _ in Formatter().parse(pattern):
        digits = int(re.sub(r"\D", "", form or "") or 1)
        other = {"split": SPLIT_GROUP, None: ""}
        texts += [re.escape(plain), other.get(field, rf"\d{{{digits},}}")]
    return re.compile("".join(texts))
