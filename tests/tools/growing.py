"""A data set that is built of one half of a text, and to which the other half is added."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.shards import open_data_set, read_shard
from corpusmill.errors import count_things
from corpusmill.location import locate
from tests.tools.jobs import Outcome, build, digests, run_here
from tests.tools.origins import list_documents, list_origins

SHARE = ("--validation-share", "0.2")
# What an append writes anew.
DESCRIPTIONS = (
    "_SUCCESS", "README.md", "dataset.json",
)  # fmt: skip


def halve(text: bytes, folder: Path) -> tuple[Path, Path]:
    """Write two files of one name, each with one half of a text and with a reject."""
    lines = text.splitlines(keepends=True)
    middle = next(
        number for number in range(len(lines) // 2, len(lines)) if lines[number].startswith(b" = ")
    )
    files = []
    for name, half in (("first", lines[:middle]), ("second", lines[middle:])):
        file = folder / name / "text"
        file.parent.mkdir()
        file.write_bytes(b"".join(half) + b"Not \xff text .\n")
        files.append(file)
    return files[0], files[1]


@dataclass(frozen=True)
class Growing:
    """The folder of a data set, and the options that all of its parts have.

    Attributes:
        output: the folder.
        tokenizer: the tokenizer.
        flags: of all commands.
        objective: of all commands.
    """

    output: Path
    tokenizer: Path
    flags: Sequence[str | Path] = SHARE
    objective: str = "bert"

    def build(self, *inputs: Path, flags: Sequence[str | Path] = (), **end: Any) -> Outcome:
        """Build the data set."""
        options = (*self.flags, *flags)
        return build(inputs, self.tokenizer, self.output, *options, objective=self.objective, **end)

    def append(self, *inputs: Path, flags: Sequence[str | Path] = (), **end: Any) -> Outcome:
        """Add text to the data set."""
        return self.build(*inputs, flags=("--append", *flags), **end)

    def copy_to(self, output: Path) -> "Growing":
        """Copy the data set, so that it can be changed."""
        shutil.copytree(self.output, output)
        return replace(self, output=output)

    def files(self) -> dict[str, str]:
        """Return the digests of all files."""
        return digests(self.output)

    def manifest(self) -> Manifest:
        """Return the manifest that readers see."""
        return open_data_set(locate(str(self.output)))[1]


def without_descriptions(files: dict[str, str]) -> dict[str, str]:
    """Return the files that no append may touch, or leave out."""
    return {
        name: digest
        for name, digest in files.items()
        if name not in DESCRIPTIONS and not name.startswith("v1/root/")
    }


def choose(output: Path) -> list[int]:
    """Choose every fifth document of a data set."""
    return [record.document for record in list_documents(output)][::5]


def read_rows(output: Path) -> list[dict[str, Any]]:
    """Return the rows of all splits."""
    folder, manifest = open_data_set(locate(str(output)))
    shards = [shard.file for split in manifest.splits.values() for shard in split.shards]
    batches = chain.from_iterable(read_shard(folder, manifest, shard) for shard in shards)
    return list(pa.Table.from_batches(batches).to_pylist())


def check_removal(growing: Growing) -> None:
    """Remove some documents, and check that the rows that hold one of them go, and no other."""
    output, before = growing.output, growing.manifest()
    rows, origins = read_rows(output), list_origins(output)
    documents = choose(output)
    held = [not {*documents}.isdisjoint((one.document, *one.documents)) for one in origins]
    assert 0 < sum(held) < len(held)
    printed = run_here("drop", output, "--document", *map(str, documents)).output
    expected = [row for row, is_held in zip(rows, held, strict=True) if not is_held]
    assert read_rows(output) == expected
    after = growing.manifest()
    assert (after.counts, after.rows) == (before.counts, len(expected))
    [removal] = after.removals
    assert (removal.documents, removal.rows) == (len(documents), sum(held))
    totals = [sum(split.tokens for split in one.splits.values()) for one in (before, after)]
    assert removal.tokens == totals[0] - totals[1]
    assert f"removed {count_things(len(documents), 'document')}, and the {sum(held)} row" in printed
    # The list of removed documents is the only file that is new, whatever version others are of.
    assert after.paths.keys() - before.paths.keys() == {"provenance/removed-00000.parquet"}
