"""The output folder before, during and after a run."""

import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psutil
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from corpusmill.dataset.manifest import CARD, MANIFEST, REJECTS, SUCCESS, TOKENIZER
from corpusmill.dataset.manifest_json import decode
from corpusmill.errors import UserError
from corpusmill.formats.shard_formats import FORMATS, all_suffixes
from corpusmill.formats.shard_names import matcher_of
from pipeline.preparation.beam_folder import BeamFolder
from pipeline.preparation.inputs import absolute, is_local, read_bytes
from transforms.recovery.claim import CLAIM, Claim, read_claim
from transforms.storage.files import remove_folder, write_file
from transforms.storage.objects import is_object_path

_TEMPORARY = "_temporary-"
_SUFFIXES = "|".join(map(re.escape, all_suffixes()))
_COMPANIONS = "|".join(
    re.escape(name) for shard_format in FORMATS.values() for name in shard_format.companion_names
)
_JOINED = "|".join(
    sorted({name for shard_format in FORMATS.values() for name in shard_format.joined.values()})
)
_OURS = re.compile(
    rf"((train|validation)(-bin-\d+-of-\d+)?-\d{{5}}-of-\d{{5}}|{_JOINED})({_SUFFIXES})"
    rf"|{SUCCESS}|{re.escape(MANIFEST)}|{re.escape(CARD)}|{_COMPANIONS}"
    rf"|{re.escape(TOKENIZER)}|{re.escape(REJECTS)}|{_TEMPORARY}[^/]*/.*"
)


def check_output(
    output: str, replace: bool, shard_name: str | None = None, resume: bool = False
) -> tuple[str, ...]:
    """Refuse an output folder that is in use, and with --replace one with files that are not ours.

    Args:
        output: the folder.
        replace: whether a data set in it may be replaced.
        shard_name: the pattern of the names of the new shards, of which a failed run may have left
            some.
        resume: whether a run into it that was stopped may be resumed.

    Returns:
        The files that the commit replaces.

    Raises:
        UserError: the folder is refused.
    """
    try:
        claim, listed = read_claim(absolute(output)), BeamFolder(output).list()
    except UserError as error:  # of an object store
        raise UserError(f"--output {output}", error.cause, error.cure) from None
    if claim is not None and _is_alive(claim):
        raise UserError(
            f"--output {output}",
            f"another run (process {claim.process}) writes into this folder",
            "Wait for it, or give another folder",
        )
    stopped = claim.temp_folder.removeprefix(absolute(output)).strip("/") if claim else ""
    names = [
        name
        for name in listed
        if name != CLAIM and not (stopped and name.startswith(f"{stopped}/"))
    ]
    own = matcher_of(shard_name) if shard_name else _OURS
    foreign = [name for name in names if not (_OURS.fullmatch(name) or own.fullmatch(name))]
    if foreign:
        known = _list_shards(output)
        foreign = [name for name in foreign if name not in known]
    if resume and claim is None and SUCCESS in names:
        raise UserError(
            "--resume", f"the data set in {output} is complete", "Nothing is left to do"
        )
    resumes = resume and claim is not None and not foreign
    if (names or claim) and not (replace or resumes):
        raise _in_use(output, names, foreign, claim is not None)
    if foreign:
        raise UserError(
            f"--output {output} {'--resume' if resume else '--replace'}",
            f"it has a file that is not part of a data set ({foreign[0]})",
            "Move that file away, or give another folder",
        )
    return tuple(names)


def _is_alive(claim: Claim) -> bool:
    """Whether the process that made a claim is still running on this machine."""
    # A run of this very process has failed; that of another machine cannot be asked.
    if claim.host != socket.gethostname() or claim.process == os.getpid():
        return False
    try:
        return bool(abs(psutil.Process(claim.process).create_time() - claim.started) < 1)
    except psutil.Error:
        return False


def _in_use(output: str, names: list[str], foreign: list[str], stopped: bool) -> UserError:
    unfinished = stopped or (SUCCESS not in names and not foreign)
    cause = f"it is not empty ({names[0]})" if names and not unfinished else ""
    cures = [*(["add --resume"] if stopped else []), "add --replace"]
    cure = f"Give another folder, or {', or '.join(cures)}"
    return UserError(
        f"--output {output}",
        cause or "it has an unfinished data set",
        "Give a new or an empty folder" if foreign else cure,
    )


def _list_shards(output: str) -> set[str]:
    """List the files that the manifest in a folder names, whatever their names are."""
    content = read_bytes(str(FileSystems.join(absolute(output), MANIFEST)))
    try:
        return set(decode(content or b"", output).entries)
    except UserError:
        return set()


def make_temporary_folder(output: str, temp_location: str | None) -> str:
    """Make a new folder for one run, in the output folder or another one.

    Raises:
        UserError: it cannot be made.
    """
    folder = FileSystems.join(absolute(temp_location or output), f"{_TEMPORARY}{uuid4().hex}")
    flag = f"--temp-location {temp_location}" if temp_location else f"--output {output}"
    try:
        if is_object_path(folder):
            # A store has no folders; only a write shows whether one may write there.
            write_file(f"{folder}/begin", b"")
        else:
            FileSystems.mkdirs(folder)
    except (OSError, BeamIOError) as error:
        raise UserError(
            flag, f"no folder can be made there ({error})", "Give a folder you can write to"
        ) from None
    except UserError as error:
        raise UserError(flag, error.cause, error.cure) from None
    return str(folder)


@contextmanager
def temporary_folder(output: str, temp_location: str | None) -> Iterator[str]:
    """Make a folder for a run that writes no data set, and remove it at the end of the block.

    Raises:
        UserError: it cannot be made.
    """
    parent = absolute(temp_location or output)
    is_new = is_local(parent) and not Path(parent).exists()
    folder = make_temporary_folder(output, temp_location)
    try:
        yield folder
    finally:
        remove_folder(folder)
        remove_empty_folders(output)
        if is_new and not any(Path(parent).iterdir()):
            Path(parent).rmdir()


def remove_empty_folders(output: str) -> None:
    """Remove temporary folders of earlier runs that have no files left, as after --replace."""
    if not is_local(output):
        return
    for folder in Path(absolute(output)).glob(f"{_TEMPORARY}*"):
        if not any(path.is_file() for path in folder.rglob("*")):
            shutil.rmtree(folder)


def write_text(path: str, text: str) -> None:
    """Write a report to this machine or to a store."""
    write_file(absolute(path), text.encode())
