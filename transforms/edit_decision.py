"""Decide what becomes of data sets from which rows are removed, or which are joined."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from apache_beam.io.filesystems import FileSystems

from corpusmill.dataset import manifest_json
from corpusmill.dataset.accounting import split_distributions
from corpusmill.dataset.editing import remove_rows
from corpusmill.dataset.manifest import TOKENIZER, FileEntry, Manifest, Shard
from corpusmill.dataset.removal import Removal, removal_name
from corpusmill.errors import UserError
from transforms.checksums import read_blocks, seal, unseal
from transforms.decide import CommitWork, Decided, Inputs
from transforms.describe import describe
from transforms.elements import WrittenFile
from transforms.recovery.claim import check_claim
from transforms.recovery.publish import Move
from transforms.storage.files import read_file, write_file


@dataclass(frozen=True)
class EditPlan:
    """What the result of an edit is, as far as it is known before.

    Attributes:
        manifest: of the result, before anything is removed.
        files: the final names of the files of all units (`transforms.edit.EditShards`).
        tokenizer: path of a copy of the tokenizer.
        value: what the user gave, for messages.
        reason: as `Removal` has it; None if nothing is removed.
        listed: a file that lists the documents that are removed; None if none does.
        stale: names of the files of an earlier data set, which is replaced.
    """

    manifest: Manifest
    files: Sequence[Sequence[str]]
    tokenizer: str
    value: str
    reason: str | None = None
    listed: WrittenFile | None = None
    stale: Sequence[str] = field(default_factory=tuple)

    def write(self, path: str) -> None:
        """Write it to a file."""
        entries = {**vars(self), "manifest": manifest_json.to_json(self.manifest)}
        write_file(path, seal(json.dumps(entries).encode()))

    @classmethod
    def read(cls, path: str) -> "EditPlan":
        """Read what `write` wrote."""
        entries: dict[str, Any] = json.loads(unseal(read_file(path), path))
        entries["manifest"] = manifest_json.from_json(entries["manifest"])
        entries["listed"] = entries["listed"] and WrittenFile(*entries["listed"])
        return cls(**entries)


@dataclass(frozen=True)
class EditDecision:
    """A `transforms.decide.Decider` for what `transforms.edit.EditShards` has written.

    Attributes:
        work: how much there is to do.
        plan: path of the `EditPlan`.
    """

    work: CommitWork
    plan: str

    def decide(self, inputs: Inputs) -> Decided:
        """Prepare every file of the data set.

        Raises:
            RuntimeError: units were lost, or a file is not the copy that it should be.
            UserError: nothing would be left, or another run has taken the folder.
        """
        plan, place = EditPlan.read(self.plan), self.work.place
        counts, distributions = split_distributions(inputs.counts)
        if counts.get("removed.units") != len(plan.files):
            done, total = counts.get("removed.units", 0), len(plan.files)
            raise RuntimeError(f"{done:,} of {total:,} units were edited")
        moves, entries = list[Move](), dict[str, FileEntry]()
        for file in sorted(inputs.written):
            entry = _entry(plan, plan.files[file.shard][file.part], file)
            moves.append(Move(file.path, self._final(entry.file), file.bytes))
            entries[entry.file] = entry
        manifest = plan.manifest
        if plan.reason is not None:
            removal = _describe_removal(plan, counts)
            if plan.listed:
                name = removal_name(len(manifest.removals))
                moves.append(Move(plan.listed.path, self._final(name), plan.listed.bytes))
                entries[name] = FileEntry(name, plan.listed.bytes, plan.listed.sha256)
            manifest = remove_rows(manifest, entries, removal, distributions)
            if not manifest.rows:
                cause = "no row would be left"
                raise UserError(plan.value, cause, "Check the condition with `corpusmill trace`")
        else:
            _check_copies(manifest, entries.values())
        tokenizer = b"".join(read_blocks(plan.tokenizer, manifest.tokenizer.sha256))
        contents = {TOKENIZER: tokenizer, **describe(manifest, tokenizer)}
        check_claim(place.output, place.token)
        return Decided(moves, contents, list(plan.stale))

    def _final(self, name: str) -> str:
        return str(FileSystems.join(self.work.place.output, *name.split("/")))


def _entry(plan: EditPlan, name: str, file: WrittenFile) -> FileEntry:
    known = plan.manifest.entries[name]
    changes: dict[str, Any] = {"bytes": file.bytes, "sha256": file.sha256}
    if isinstance(known, Shard):
        changes |= {"rows": file.rows, "tokens": file.tokens}
    return msgspec.structs.replace(known, **changes)


def _describe_removal(plan: EditPlan, counts: Mapping[str, int]) -> Removal:
    names = ("documents", "rows", "tokens", "segment_tokens")
    numbers = {name: counts.get(f"removed.{name}", 0) for name in names}
    return Removal(plan.reason or "", is_listed=plan.listed is not None, **numbers)


def _check_copies(manifest: Manifest, entries: Iterable[FileEntry]) -> None:
    """Check that files that were copied are what they were."""
    for entry in entries:
        if entry != manifest.entries[entry.file]:
            raise RuntimeError(f"the copy of {entry.file} is not what it was")
