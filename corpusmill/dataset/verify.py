"""A data set compared with its manifest: every byte, every count, every file."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from corpusmill.dataset.accounting import Expected, find_imbalances, name_of_source
from corpusmill.dataset.distributions import (
    Counts,
    add_all,
    as_mapping,
    recount,
    weigh,
    weigh_segments,
)
from corpusmill.dataset.generations import current_folder, refer_to
from corpusmill.dataset.manifest import MANIFEST, SUCCESS, FileEntry, Manifest, Shard, Split
from corpusmill.dataset.manifest_json import decode, seal
from corpusmill.dataset.storage import Folder, UrlFolder
from corpusmill.errors import UserError, in_one_line

_BATCH_ROWS = 8192
# What the hub and its client add to the folder of a data set.
_FILES_OF_THE_HUB = (".gitattributes", ".cache/huggingface/")
# What a run that was stopped has left for --resume and --replace.
_FILES_OF_A_RUN = re.compile(r"_RUNNING(\.[0-9a-f]{32})?|_temporary-[0-9a-f]{32}/.*", re.DOTALL)


@dataclass(frozen=True)
class Problem:
    """One difference from the manifest.

    Attributes:
        file: name relative to the data set's folder.
        what: the difference, to be read after the name ("missing").
    """

    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


def verify(folder: Folder | str | Path) -> list[Problem]:
    """Read a data set and compare it with its manifest.

    Every byte is read, and everything that the rows tell is counted again: rows, tokens,
    distributions. Memory is bounded by a row group.

    Args:
        folder: the data set's folder, its path, or a URL that fsspec knows.

    Returns:
        All differences; an empty list for a sound data set.

    Raises:
        UserError: the folder does not hold a data set, or its manifest is not allowed.
    """
    if not isinstance(folder, Folder):
        folder = UrlFolder(str(folder))
    folder = current_folder(folder)
    files = folder.list()
    manifest, problems = _read_manifest(folder, files)
    if manifest is None:
        return problems
    entries = manifest.entries
    missing = entries.keys() - files.keys()
    problems += [Problem(name, "missing") for name in sorted(missing)]
    extra = files.keys() - entries.keys() - {MANIFEST, SUCCESS}
    problems += [
        Problem(name, "extra: the manifest does not list it")
        for name in sorted(extra)
        if not name.startswith(_FILES_OF_THE_HUB) and not _FILES_OF_A_RUN.fullmatch(name)
    ]
    damaged = set(missing)
    for name in sorted(entries.keys() & files.keys()):
        differences = list(_check_bytes(entries[name], files[name], folder))
        problems += differences
        damaged |= {problem.file for problem in differences}
    for name, split in manifest.splits.items():
        problems += _SplitCheck(folder, manifest, name, split).run(damaged)
    return [*problems, *_check_manifest(manifest)]


def _read_manifest(
    folder: Folder, files: Mapping[str, int]
) -> tuple[Manifest | None, list[Problem]]:
    """The manifest, and problems with it; None where it cannot be trusted."""
    if MANIFEST not in files:
        if SUCCESS in files:
            return None, [Problem(MANIFEST, "missing")]
        cause = f"it holds no {MANIFEST}" if files else "it is empty or does not exist"
        cause += ", so it is not a data set"
        raise UserError(folder.url, cause, "Give the folder that a build wrote")
    try:
        content = folder.read(MANIFEST)
        digest = folder.read(SUCCESS) if SUCCESS in files else None
    except OSError as error:
        return None, [Problem(MANIFEST, f"it or {SUCCESS} cannot be read: {error}")]
    if digest is not None and digest not in {seal(content), refer_to(seal(content))}:
        changed = (
            f"its sha256 is not the one that {SUCCESS} holds: one of the two was changed, and "
            "without a trustworthy manifest nothing else was checked"
        )
        return None, [Problem(MANIFEST, changed)]
    missing = Problem(SUCCESS, "missing: the build did not finish, or the file was removed")
    return decode(content, folder.url), [missing] if digest is None else []


def _check_bytes(entry: FileEntry, size: int, folder: Folder) -> Iterator[Problem]:
    """Size and sha256 of one file; a file of another size is not read."""
    if size != entry.bytes:
        kind = "shorter" if size < entry.bytes else "longer"
        cause = f"{abs(size - entry.bytes):,} bytes {kind} than the manifest says"
        yield Problem(entry.file, cause)
        return
    try:
        with folder.open(entry.file) as stream:
            digest = hashlib.file_digest(cast(BufferedReader, stream), "sha256").hexdigest()
    except OSError as error:
        yield Problem(entry.file, f"cannot be read: {error}")
        return
    if digest != entry.sha256:
        cause = f"sha256 differs: it is {digest}, and the manifest says {entry.sha256}"
        yield Problem(entry.file, cause)


@dataclass
class _SplitCheck:
    """The check of one split, which adds up the distributions of its rows."""

    folder: Folder
    manifest: Manifest
    name: str
    split: Split

    def run(self, damaged: set[str]) -> Iterator[Problem]:
        """The rows of the split's sound shards, and its sums where all of them are sound.

        Args:
            damaged: names of files that are missing or damaged; unreadable shards are added.
        """
        sums: dict[str, Counts] = {}
        for shard in self.split.shards:
            parts = self.manifest.parts(shard.file)
            if not damaged.isdisjoint(parts):
                damaged.add(shard.file)
                continue
            try:
                with ExitStack() as files:
                    streams = [files.enter_context(self.folder.open(name)) for name in parts]
                    yield from self._check_shard(shard, streams, sums)
            except Exception as error:  # each format has errors of its own
                shard_format = self.manifest.output.format
                cause = f"is not a readable {shard_format} shard: {in_one_line(error)}"
                yield Problem(shard.file, cause)
                damaged.add(shard.file)
        if damaged.isdisjoint(shard.file for shard in self.split.shards):
            yield from self._check_distributions(sums)

    def _check_shard(
        self, shard: Shard, streams: Sequence[BinaryIO], sums: dict[str, Counts]
    ) -> Iterator[Problem]:
        rows, counted = 0, dict[str, Counts]()
        columns, options = self.manifest.columns, self.manifest.output.options
        reader = self.manifest.output.shard_format.read(
            streams, columns, options, _BATCH_ROWS, self.split.longest
        )
        for batch in reader:
            rows += batch.num_rows
            add_all(counted, recount(batch, columns, self.split.longest))
        add_all(sums, counted)
        lengths = counted.get("length", np.zeros(0, np.int64))
        if rows != shard.rows:
            yield Problem(shard.file, f"holds {rows:,} rows, the manifest says {shard.rows:,}")
        tokens = weigh(lengths)
        if tokens != shard.tokens:
            cause = f"holds {tokens:,} tokens, the manifest says {shard.tokens:,}"
            yield Problem(shard.file, cause)
        if shard.min_length is not None and shard.max_length is not None:
            outside = rows - int(lengths[shard.min_length : shard.max_length + 1].sum())
            if outside:
                bounds = f"{shard.min_length} to {shard.max_length}"
                cause = f"holds {outside:,} rows whose length is not of its bin, {bounds}"
                yield Problem(shard.file, cause)

    def _check_distributions(self, sums: Mapping[str, Counts]) -> Iterator[Problem]:
        for name, stated in self.split.distributions.items():
            if name in sums and as_mapping(sums[name]) != stated:
                cause = f"{self.name}: the distribution {name} is not that of the rows"
                yield Problem(MANIFEST, cause)


def _check_manifest(manifest: Manifest) -> Iterator[Problem]:
    """What the manifest states twice, and what follows from other counts."""
    tokenizer, entries, counts = manifest.tokenizer, manifest.entries, manifest.counts
    if tokenizer.file not in entries or entries[tokenizer.file].sha256 != tokenizer.sha256:
        cause = f"it lists another {tokenizer.file} than the one that made the data set"
        yield Problem(MANIFEST, cause)
    shards = sum(len(split.shards) for split in manifest.splits.values())
    rows = manifest.rows
    # Ranges and bytes of text belong to the run, which is over.
    expected = Expected(counts.get("read.ranges", 0), -1, shards, manifest.objective.repeats)
    if counts.get("write.rows", rows) != rows:
        cause = f"its count write.rows is {counts['write.rows']:,}, its splits hold {rows:,}"
        yield Problem(MANIFEST, cause)
    tokens = sum(weigh_segments(split.distributions) for split in manifest.splits.values())
    if counts.get("write.segment_tokens", tokens) != tokens:
        cause = f"its count write.segment_tokens is not the {tokens:,} of its distributions"
        yield Problem(MANIFEST, cause)
    of_sources = {
        name_of_source(source.name, name): number
        for source in manifest.corpus.sources
        for name, number in source.counts.items()
    }
    for sentence in find_imbalances({**counts, **of_sources}, expected, rows, shards):
        yield Problem(MANIFEST, f"its counts disagree: {sentence}")
