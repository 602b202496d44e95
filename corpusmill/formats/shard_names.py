"""The names of shards: a pattern with {split}, {shard} and {shards}.

Google's ELECTRA reads files that are named "pretrain_data.tfrecord-{shard}-of-{shards}", numbered
from 0 and without leading zeros.
"""

import re
from pathlib import PurePosixPath
from string import Formatter

from corpusmill.errors import UserError

DEFAULT = "{split}-{shard:05d}-of-{shards:05d}"

_FLAG = "--shard-name"
_PLAIN = re.compile(r"[A-Za-z0-9._=+-]*")
_SPECS = {
    "split": re.compile(""),
    "shard": re.compile("(0[1-9])?d?"),
    "shards": re.compile("(0[1-9])?d?"),
}


def check_pattern(pattern: str) -> None:
    """Refuse a pattern that names no shards.

    Raises:
        UserError: it is not a pattern, lacks {shard}, or has characters that do not belong into the
            name of a file.
    """
    try:
        parts = list(Formatter().parse(pattern))
    except ValueError as error:
        raise UserError(
            f"{_FLAG} {pattern}", str(error), "Write {split}, {shard}, {shards}"
        ) from None
    for plain, field, spec, conversion in parts:
        if field is not None and (
            field not in _SPECS or conversion or not _SPECS[field].fullmatch(spec or "")
        ):
            raise UserError(
                f"{_FLAG} {pattern}",
                f"{{{field}}} is none of its parts, or is written in a way that it lacks",
                "Write {split}, {shard}, {shards}, or {shard:05d} for five digits",
            )
        if not _PLAIN.fullmatch(plain):
            raise UserError(
                f"{_FLAG} {pattern}",
                f"{plain!r} has a character that the names of shards do not have",
                "Take letters, digits and . _ - + =",
            )
    if "shard" not in {field for _, field, _, _ in parts}:
        raise UserError(f"{_FLAG} {pattern}", "all shards would have one name", "Add {shard}")
    if pattern.startswith((".", "_")):
        raise UserError(
            f"{_FLAG} {pattern}", f"names with {pattern[0]} in front are hidden", "Begin otherwise"
        )


def check_splits(pattern: str | None, validation: bool) -> None:
    """Refuse a pattern by which two splits would have the same names.

    Raises:
        UserError: there is a validation split, and the pattern has no {split}.
    """
    if pattern is None or not validation:
        return
    if "split" not in {field for _, field, _, _ in Formatter().parse(pattern)}:
        raise UserError(
            f"{_FLAG} {pattern}",
            "the shards of train and validation would have the same names",
            "Add {split}, or leave --validation-share out",
        )


def fill(pattern: str, split: str, shard: int, shards: int) -> str:
    """The name of a shard: the default pattern gives "train-00003-of-00008"."""
    return pattern.format(split=split, shard=shard, shards=shards)


def shard_glob(pattern: str | None, split: str, file: str) -> str:
    """Return a glob of all shards of a split.

    Args:
        pattern: of the shards' names; None for the default.
        split: "train" or "validation".
        file: name of one of the shards, whose suffix the default pattern takes.

    Example:
        None, "train" and "train-00003-of-00008.parquet" give "train-*.parquet".
    """
    suffix = "".join(PurePosixPath(file).suffixes)
    texts = []
    for plain, field, _, _ in Formatter().parse(pattern or DEFAULT + suffix):
        texts += [plain, split if field == "split" else "*" if field else ""]
    return re.sub(r"\*.*\*", "*", "".join(texts))


def matcher_of(pattern: str) -> re.Pattern[str]:
    """What all names that a pattern can give look like."""
    texts = []
    for plain, field, spec, _ in Formatter().parse(pattern):
        width = int(re.sub(r"\D", "", spec or "") or 1)
        known = {"split": r"(train|validation)(-bin-\d+-of-\d+)?", None: ""}
        of = known.get(field, rf"\d{{{width},}}")
        texts += [re.escape(plain), of]
    return re.compile("".join(texts))
