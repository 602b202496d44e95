"""A data set against its manifest: every byte, every count, every file."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from corpusmill.arrays.columns import Column
from corpusmill.dataset.accounting import Expected, find_imbalances
from corpusmill.dataset.distributions import add_counts, recount
from corpusmill.dataset.manifest import (
    MANIFEST,
    SUCCESS,
    FileEntry,
    ShardEntry,
    columns_of,
    decode,
    listed_files,
    output_options_of,
)
from corpusmill.dataset.storage import Folder
from corpusmill.errors import UserError
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, part_names

OpenFile = Callable[[str], BinaryIO]

_BLOCK_BYTES = 2**20
_BATCH_ROWS = 8192


@dataclass(frozen=True)
class Problem:
    """One thing that is not as the manifest says.

    Attributes:
        file: name relative to the data set's folder.
        what: the difference, to be read behind the name ("missing").
    """

    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


@dataclass(frozen=True)
class _Split:
    name: str
    rows: int
    tokens: int
    shards: tuple[ShardEntry, ...]
    distributions: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class _Claims:
    """What the manifest says, in the form in which it is checked."""

    entries: Mapping[str, FileEntry]
    splits: tuple[_Split, ...]
    columns: tuple[Column, ...]
    types: list[str]
    options: OutputOptions
    pad_id: int
    tokenizer: tuple[str, str]
    counts: Mapping[str, int]
    repeats: int


def verify(files: Mapping[str, int], open_file: OpenFile, place: str) -> list[Problem]:
    """Read a data set and compare it with its manifest.

    Every byte is read, and every count that the rows tell is taken again: rows, tokens,
    distributions. Memory is bounded by a row group.

    Args:
        files: every file below the folder: name relative to it (with `/`), and bytes.
        open_file: opens one of them, seekable, for reading.
        place: the folder, for messages.

    Returns:
        What is wrong; nothing where all is well.

    Raises:
        UserError: the folder is no data set at all.
    """
    claims, problems = _read_claims(files, open_file, place)
    if claims is None:
        return problems
    problems += [Problem(name, "missing") for name in sorted(claims.entries.keys() - files.keys())]
    extra = files.keys() - claims.entries.keys() - {MANIFEST, SUCCESS}
    problems += [Problem(name, "extra: the manifest does not list it") for name in sorted(extra)]
    damaged = set(claims.entries.keys() - files.keys())
    for name in sorted(claims.entries.keys() & files.keys()):
        found = list(_check_bytes(claims.entries[name], files[name], open_file))
        problems += found
        damaged |= {problem.file for problem in found}
    for split in claims.splits:
        problems += _check_split(split, claims, damaged, open_file)
    return [*problems, *_check_manifest(claims)]


def list_local(folder: str | Path) -> dict[str, int]:
    """Every file below a local folder, as `verify` takes it; nothing where there is no folder."""
    return Folder(str(folder)).list()


def verify_local(folder: str | Path) -> list[Problem]:
    """`verify` for a folder of this machine."""
    return verify_folder(Folder(str(folder)))


def verify_folder(folder: Folder) -> list[Problem]:
    """`verify` for a folder that lies anywhere fsspec reaches."""
    return verify(folder.list(), folder.open, folder.url)


def _read_claims(
    files: Mapping[str, int], open_file: OpenFile, place: str
) -> tuple[_Claims | None, list[Problem]]:
    """The manifest's claims; None where it cannot be believed."""
    if MANIFEST not in files:
        if SUCCESS in files:
            return None, [Problem(MANIFEST, "missing")]
        cause = f"it holds no {MANIFEST}" if files else "it is empty or does not exist"
        raise UserError(
            place, f"{cause}, so it is no data set", "Give the folder that a build wrote"
        )
    try:
        content = _read(MANIFEST, open_file)
        seal = _read(SUCCESS, open_file) if SUCCESS in files else None
    except OSError as error:
        return None, [Problem(MANIFEST, f"it or {SUCCESS} cannot be read: {error}")]
    if seal is not None and seal != f"{hashlib.sha256(content).hexdigest()}\n".encode():
        changed = (
            f"its sha256 is not the one that {SUCCESS} holds: one of the two was changed, and "
            "without a manifest to believe nothing else was checked"
        )
        return None, [Problem(MANIFEST, changed)]
    missing = Problem(SUCCESS, "missing: the build did not finish, or the file was removed")
    return _parse(content, place), [missing] if seal is None else []


def _parse(content: bytes, place: str) -> _Claims:
    try:
        manifest = decode(content, place)
        entries = listed_files(manifest)
        return _Claims(
            entries,
            tuple(_parse_split(name, split) for name, split in manifest["splits"].items()),
            columns_of(manifest),
            [of["type"] for of in manifest["columns"]],
            output_options_of(manifest),
            manifest["tokenizer"]["special"]["pad_id"] or 0,
            (manifest["tokenizer"]["file"], manifest["tokenizer"]["sha256"]),
            manifest["counts"],
            manifest["objective"]["repeats"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        cause = f"an entry of it is missing or of a wrong kind ({error})"
        raise UserError(f"{place}/{MANIFEST}", cause, "Build the data set again") from None


def _parse_split(name: str, split: Mapping[str, Any]) -> _Split:
    distributions = {
        of: np.array(counts, np.int64) for of, counts in split["distributions"].items()
    }
    shards = tuple(ShardEntry(**shard) for shard in split["shards"])
    return _Split(name, split["rows"], split["tokens"], shards, distributions)


def _read(name: str, open_file: OpenFile) -> bytes:
    with open_file(name) as stream:
        return stream.read()


def _check_bytes(entry: FileEntry, size: int, open_file: OpenFile) -> Iterator[Problem]:
    """Size and sha256 of one file; a file of another size is not read."""
    if size != entry.bytes:
        difference = "shorter" if size < entry.bytes else "longer"
        yield Problem(
            entry.file, f"{abs(size - entry.bytes):,} bytes {difference} than the manifest says"
        )
        return
    digest = hashlib.sha256()
    try:
        with open_file(entry.file) as stream:
            while block := stream.read(_BLOCK_BYTES):
                digest.update(block)
    except OSError as error:
        yield Problem(entry.file, f"cannot be read: {error}")
        return
    if digest.hexdigest() != entry.sha256:
        yield Problem(
            entry.file,
            f"sha256 differs: it is {digest.hexdigest()}, and the manifest says {entry.sha256}",
        )


def _check_split(
    split: _Split, claims: _Claims, damaged: set[str], open_file: OpenFile
) -> Iterator[Problem]:
    """The rows of a split's sound shards, and its sums where all of them are sound."""
    sums: dict[str, np.ndarray] = {}
    suffixes = FORMATS[claims.options.output_format].suffixes(claims.options)
    for shard in split.shards:
        names = part_names(shard.file, suffixes)
        if not damaged.isdisjoint(names):
            damaged.add(shard.file)
            continue
        try:
            with ExitStack() as files:
                streams = [files.enter_context(open_file(name)) for name in names]
                yield from _check_shard(shard, streams, claims, sums)
        except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
            yield Problem(
                shard.file, f"is no readable {claims.options.output_format} shard: {error}"
            )
            damaged.add(shard.file)
    for name in ("rows", "tokens"):
        total = sum(getattr(shard, name) for shard in split.shards)
        if total != getattr(split, name):
            yield Problem(
                MANIFEST,
                f"{split.name}: its shards add up to {total:,} {name}, "
                f"not to {getattr(split, name):,}",
            )
    if damaged.isdisjoint(shard.file for shard in split.shards):
        yield from _check_distributions(split, sums)


def _check_shard(
    shard: ShardEntry,
    streams: Sequence[BinaryIO],
    claims: _Claims,
    sums: dict[str, np.ndarray],
) -> Iterator[Problem]:
    rows = 0
    lengths = np.zeros(0, np.int64)
    of = FORMATS[claims.options.output_format]
    for batch in of.read(streams, claims.columns, claims.options, _BATCH_ROWS):
        rows += batch.num_rows
        for name, counts in recount(batch, claims.pad_id).items():
            sums[name] = add_counts(sums.get(name, counts[:0]), counts)
            lengths = add_counts(lengths, counts) if name == "length" else lengths
    if rows != shard.rows:
        yield Problem(shard.file, f"holds {rows:,} rows, the manifest says {shard.rows:,}")
    tokens = int(lengths @ np.arange(len(lengths)))
    if tokens != shard.tokens:
        yield Problem(shard.file, f"holds {tokens:,} tokens, the manifest says {shard.tokens:,}")
    if shard.min_length is not None and shard.max_length is not None:
        outside = rows - int(lengths[shard.min_length : shard.max_length + 1].sum())
        if outside:
            bounds = f"{shard.min_length} to {shard.max_length}"
            yield Problem(
                shard.file, f"holds {outside:,} rows whose length is not of its bin, {bounds}"
            )


def _check_distributions(split: _Split, sums: Mapping[str, np.ndarray]) -> Iterator[Problem]:
    for name, counts in split.distributions.items():
        if int(counts.sum()) != split.rows:
            yield Problem(
                MANIFEST,
                f"{split.name}: the distribution {name} counts {int(counts.sum()):,} of "
                f"{split.rows:,} rows",
            )
        elif name in sums and add_counts(counts, -sums[name]).any():
            yield Problem(
                MANIFEST, f"{split.name}: the distribution {name} is not that of the rows"
            )


def _check_manifest(claims: _Claims) -> Iterator[Problem]:
    """What the manifest says twice, or what follows from other counts."""
    tokenizer, sha256 = claims.tokenizer
    if tokenizer not in claims.entries or claims.entries[tokenizer].sha256 != sha256:
        yield Problem(MANIFEST, f"it lists another {tokenizer} than the one that made the data set")
    types = [str(of.arrow_field(claims.options.is_padded).type) for of in claims.columns]
    if types != claims.types:
        yield Problem(MANIFEST, f"its columns have the types {types}, not {claims.types}")
    shards = sum(len(split.shards) for split in claims.splits)
    rows = sum(split.rows for split in claims.splits)
    # Ranges and bytes of text are of the run, which is over.
    expected = Expected(claims.counts.get("read.ranges", 0), -1, shards, claims.repeats)
    if claims.counts.get("write.rows", rows) != rows:
        yield Problem(
            MANIFEST,
            f"its count write.rows is {claims.counts['write.rows']:,}, its splits hold {rows:,}",
        )
    for sentence in find_imbalances(claims.counts, expected, rows, shards):
        yield Problem(MANIFEST, f"its counts disagree: {sentence}")
