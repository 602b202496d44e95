"""The output folder before, during and after a run."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from corpusmill.dataset.manifest import CARD, MANIFEST, REJECTS, SUCCESS, TOKENIZER
from corpusmill.dataset.manifest_json import decode
from corpusmill.errors import UserError
from corpusmill.formats.shard_formats import FORMATS, all_suffixes
from corpusmill.formats.shard_names import matcher_of
from pipeline.preparation.beam_folder import BeamFolder
from pipeline.preparation.inputs import absolute, is_local, read_bytes
from transforms.recovery.claim import CLAIM, read_claim
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
    """Refuse a folder that holds anything, and with `replace` one that holds what is not ours.

    Args:
        output: the folder.
        replace: whether a data set in it may be replaced.
        resume: whether a run in it that was stopped may go on.
        shard_name: the pattern of the shards' names that are to be written; a run that failed may
            have left some.

    Returns:
        The files that the commit replaces.

    Raises:
        UserError: it does.
    """
    try:
        claim, listed = read_claim(absolute(output)), BeamFolder(output).list()
    except UserError as error:  # of an object store
        raise UserError(f"--output {output}", error.cause, error.cure) from None
    of_run = "" if claim is None else claim.temp_folder.removeprefix(absolute(output)).strip("/")
    names = [
        name for name in listed if name != CLAIM and not (of_run and name.startswith(f"{of_run}/"))
    ]
    own = matcher_of(shard_name) if shard_name else _OURS
    foreign = [name for name in names if not (_OURS.fullmatch(name) or own.fullmatch(name))]
    if foreign:
        of_manifest = _listed_shards(output)
        foreign = [name for name in foreign if name not in of_manifest]
    if resume and claim is None and SUCCESS in names:
        raise UserError("--resume", f"the data set in {output} is whole", "Nothing is left to do")
    goes_on = resume and claim is not None and not foreign
    if (names or claim) and not (replace or goes_on):
        raise _in_use(output, names, foreign, claim is not None)
    if foreign:
        raise UserError(
            f"--output {output} {'--resume' if resume else '--replace'}",
            f"it holds a file that no data set has ({foreign[0]})",
            "Move that file away, or give another folder",
        )
    return tuple(names)


def _in_use(output: str, names: list[str], foreign: list[str], stopped: bool) -> UserError:
    unfinished = stopped or (SUCCESS not in names and not foreign)
    cause = f"it is not empty ({names[0]})" if names and not unfinished else ""
    cures = [*(["go on with --resume"] if stopped else []), "add --replace"]
    cure = f"Give another folder, or {', or '.join(cures)}"
    return UserError(
        f"--output {output}",
        cause or "it holds an unfinished data set",
        "Give a new or an empty folder" if foreign else cure,
    )


def _listed_shards(output: str) -> set[str]:
    """The files that a data set in the folder lists itself, whatever their names are."""
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
            # A store has no folders: whether one may write there is seen by writing.
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
    """A new folder for a run that writes no data set, removed at its end, however it ends.

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
    """What is left of earlier runs' temporary folders once `--replace` has deleted their files."""
    if not is_local(output):
        return
    for folder in Path(absolute(output)).glob(f"{_TEMPORARY}*"):
        if not any(path.is_file() for path in folder.rglob("*")):
            shutil.rmtree(folder)


def write_text(path: str, text: str) -> None:
    """Write a report, to this machine or to a store."""
    write_file(absolute(path), text.encode())
