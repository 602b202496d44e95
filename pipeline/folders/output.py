"""How the folder stands that a command writes into, and whether the command may.

A folder is empty, or holds a whole data set, or the claim of a run. What a run has reached is read
from three files that are written whole: its claim, `_SUCCESS`, and the record of a generation.
docs/explanation/states-of-a-folder.md lists the states, and what each command does in them.
"""

import os
import socket
import time
from dataclasses import dataclass
from functools import cached_property

import psutil

from corpusmill.dataset.manifest import SUCCESS
from corpusmill.dataset.ownership import OwnFiles, OwnFolder
from corpusmill.dataset.shards import is_generation
from corpusmill.errors import UserError, option
from corpusmill.location import Location, refuse_special
from pipeline.folders.temporary_folder import (
    folder_of_run,
    has_mark,
    is_folder_of_run,
    name_of_folder,
)
from transforms.recovery import (
    CLAIM,
    COMMITTED,
    Claim,
    count_finished,
    is_copy,
    is_torn,
    last_sign,
    read_claim,
)
from transforms.storage.file_systems import join_path, split_path
from transforms.storage.files import last_written

# After which a run is taken for dead whose process cannot be asked: its job, or its command on
# another machine, gives a sign of life twice a minute. Flink needs a minute to notice that a
# machine is lost, and three for some workers.
_SECONDS_OF_SILENCE = 300.0

# What runs do, as claims name it.
BUILD, APPEND, EDIT = "build", "append", "edit"


@dataclass(frozen=True)
class Intent:
    """What a command does with the folder that it writes into.

    Attributes:
        kind: BUILD, APPEND or EDIT.
        changes: whether it changes the data set in the folder, which must be there.
        replaces: whether it may replace a data set in the folder.
        resumes: whether it may continue a run that was stopped.
    """

    kind: str = BUILD
    changes: bool = False
    replaces: bool = False
    resumes: bool = False

    @property
    def resumable(self) -> bool:
        """Whether it can continue runs at all."""
        return self.kind != EDIT


@dataclass(frozen=True)
class Standing:
    """How a folder stands.

    Attributes:
        output: the folder.
        temp_location: where temporary folders are made; in the output folder by default.
        claim: the claim in it; None for none.
        seal: the content of `_SUCCESS`; None for none.
        own: its files, without those in temporary folders of runs, and without claims.
        orphans: temporary folders in it of runs that are dead and have no claim.
    """

    output: Location
    temp_location: Location | None
    claim: Claim | None
    seal: bytes | None
    own: OwnFiles
    orphans: tuple[OwnFolder, ...]

    @property
    def generation(self) -> str:
        """The generation to which readers are passed on; empty for none."""
        return reference_of(self.seal)

    @cached_property
    def has_work(self) -> bool:
        """Whether the folder that the claim names is that of a run into this folder."""
        return self.claim is not None and is_folder_of_run(
            self.claim.temp_folder, self.output, self.temp_location
        )

    @property
    def has_revealed(self) -> bool:
        """Whether readers see what the run with the claim has made."""
        if self.generation:
            return True
        claim, seal = self.claim, (self.seal or b"").decode(errors="replace")
        if claim is None or claim.is_damaged:
            return False
        return claim.ended == COMMITTED or seal not in {"", claim.before}

    @property
    def is_whole(self) -> bool:
        """Whether there is a whole data set that no run is about to replace or to change."""
        return self.seal is not None and (self.claim is None or self.has_revealed)

    @cached_property
    def finished(self) -> dict[str, int]:
        """The units of work that a stopped run has finished, as `count_finished`."""
        return count_finished(self.claim.temp_folder) if self.claim and self.has_work else {}

    @cached_property
    def foreign(self) -> list[str]:
        """The names of files that belong neither to a data set of ours nor to a run."""
        return self.own.find_foreign()


def reference_of(seal: bytes | None) -> str:
    """Return the generation that the content of `_SUCCESS` names; empty for none."""
    name = (seal or b"").decode(errors="replace").strip().partition(" ")[2]
    return name if is_generation(name) else ""


def look(output: Location, temp_location: Location | None) -> Standing:
    """Read how a folder stands.

    Args:
        output: the folder.
        temp_location: where temporary folders are made; in the output folder by default.

    Raises:
        UserError: the folder cannot be read, or is the root of a file system.
        NotAFileError: it has something else in the place of a file.
    """
    if not output.url.strip("/"):
        cause = "it is the folder that holds everything on this machine"
        raise UserError(option("output", output), cause, "Name a folder in it")
    try:
        claim, listed = read_claim(output.url), output.list()
    except UserError as error:  # of an object store
        raise error.about(option("output", output)) from None
    for path in map(output.local_path, listed):
        if path:
            refuse_special(path)
    taken = {CLAIM}
    if claim and claim.is_damaged and not is_torn(output.read_any(CLAIM) or b""):
        claim, taken = None, set()
    seal = output.read_any(SUCCESS)
    named = name_of_folder(claim) if claim else ""
    marked = {
        name: folder_of_run(output / name, output)
        for name in {name.partition("/")[0] for name in listed if "/" in name}
        if name != named
    }
    orphans = {name: folder for name, folder in marked.items() if folder.is_there()}
    own = {
        name: size
        for name, size in listed.items()
        if name.partition("/")[0] not in {named, *taken, *orphans} and not _is_copy(name, output)
    }
    return Standing(
        output, temp_location, claim, seal, OwnFiles.find(output, own), tuple(orphans.values())
    )


def _is_copy(name: str, output: Location) -> bool:
    """Whether a file is a claim that a process did not live to rename."""
    return name.startswith(f"{CLAIM}.") and is_copy(output.read_any(name))


def check_output(output: Location, temp_location: Location | None, intent: Intent) -> Standing:
    """Refuse an output folder in which a command may not do what it is to do.

    Nothing is changed.

    Args:
        output: the folder.
        temp_location: where temporary folders are made; in the output folder by default.
        intent: what the command does.

    Raises:
        UserError: the folder is refused.
        NotAFileError: it has something else in the place of a file.
    """
    if not intent.changes:
        _refuse_file("output", output)
    if temp_location:
        _refuse_file("temp_location", temp_location)
    standing = look(output, temp_location)
    if standing.claim is not None:
        folder = standing.claim.temp_folder if standing.has_work else ""
        refuse_alive(standing.claim, str(output), output, folder)
    if intent.changes:
        _check_changed(standing, intent)
    else:
        _check_new(standing, intent)
    return standing


def _refuse_file(name: str, folder: Location) -> None:
    """Refuse a folder that cannot be made, as a file has its path or that of a folder around it."""
    path = folder.local_path()
    for place in (path, *path.parents) if path else ():
        if place.exists() and not place.is_dir():
            cause = f"{'it' if place == path else place} is a file, and no folder"
            raise UserError(option(name, folder), cause, "Give a new or an empty folder")


def _check_new(standing: Standing, intent: Intent) -> None:
    """Refuse a folder for a new data set."""
    output, claim, foreign = standing.output, standing.claim, standing.foreign
    if intent.resumes and standing.is_whole:
        return
    resumes = intent.resumes and claim is not None
    if resumes:
        _refuse_lost(standing, intent, f"Start over with {option('replace', True)}")
    has_begun = claim is not None and (claim.is_damaged or bool(standing.finished))
    if (standing.own.listed or has_begun) and not (intent.replaces or (resumes and not foreign)):
        raise _in_use(standing)
    if foreign:
        raise UserError(
            f"{option('output', output)} {option('resume' if intent.resumes else 'replace')}",
            f"it has a file that is not part of a data set ({foreign[0]})",
            "Move that file away, or give another folder",
        )


def _check_changed(standing: Standing, intent: Intent) -> None:
    """Refuse a folder whose data set is to be changed."""
    output, claim = standing.output, standing.claim
    if standing.seal is None:
        _refuse_incomplete(standing, intent)
    if CLAIM in standing.foreign:
        cause = f"it has a file {CLAIM} that is not ours"
        raise UserError(str(output), cause, "Move that file away")
    if claim is None or standing.has_revealed:
        return
    if intent.resumes:
        over = f"Leave {option('resume')} out, which starts over"
        if claim.is_damaged:
            over = f"Remove {output}/{CLAIM}, and leave {option('resume')} out"
        _refuse_lost(standing, intent, over)
        return
    if claim.is_damaged:
        cause = f"{CLAIM} there is damaged, as after a power failure, or is not ours"
        cure = f"If no run writes into the folder, remove {output}/{CLAIM}"
        raise UserError(str(output), cause, cure)
    if claim.kind != intent.kind and standing.finished:
        cause = "a build was stopped that wrote into this folder"
        cure = (
            f"Resume it: the command of the build, with {option('resume', True)}; or, to give up, "
            f"remove {claim.temp_folder}"
        )
        raise UserError(str(output), cause, cure)


def _refuse_incomplete(standing: Standing, intent: Intent) -> None:
    output = standing.output
    if standing.claim is not None and intent.kind != APPEND:
        cause = "a run was stopped that wrote into this folder"
        cure = f"Run the command again that was stopped, a build with {option('resume', True)}"
        raise UserError(str(output), cause, cure)
    if intent.kind == APPEND:
        raise UserError(
            f"{option('output', output)} {option('append')}",
            "there is no complete data set to which anything could be added",
            f"Leave {option('append')} out, or build one first",
        )


def new_claim(token: str, temp_folder: str, kind: str = BUILD) -> Claim:
    """Return the claim of a run that this process has started."""
    process = psutil.Process()
    place = (socket.gethostname(), process.pid, process.create_time())
    return Claim(token, temp_folder, *place, kind)


def refuse_alive(claim: Claim, output: str, claimed: Location, temp_folder: str) -> None:
    """Refuse to write where a run is at work.

    Args:
        claim: the claim of the run.
        output: what the run writes, for the message.
        claimed: the folder that holds the claim, whose age is a sign of life as well: a run that
            has just begun has given no other.
        temp_folder: the run's folder; empty if that is not known to be a run's.

    Raises:
        UserError: the run is alive, or may be.
    """
    if claim.is_damaged or claim.ended:
        return
    is_here = claim.host == socket.gethostname()
    if is_here and _is_alive(claim):
        raise UserError(
            option("output", output),
            f"another run (process {claim.process}) writes there",
            "Wait for it, or choose another place",
        )
    if is_here and not claim.outlives:
        return
    signs = [last_written(join_path(claimed.url, CLAIM))]
    if temp_folder:
        signs.append(last_sign(temp_folder))
    silence = time.time() - max(signs)
    if silence < _SECONDS_OF_SILENCE:
        raise UserError(
            option("output", output),
            f"another run (process {claim.process} on {claim.host}) writes there; its last sign "
            f"of life is {max(silence, 0):.0f} seconds old",
            f"Wait for it, or choose another place; if it has ended, wait until "
            f"{_SECONDS_OF_SILENCE:.0f} seconds have passed",
        )


def _refuse_lost(standing: Standing, intent: Intent, over: str) -> None:
    """Refuse to resume a run whose work cannot be found, or that is of another kind."""
    claim, output = standing.claim, standing.output
    if claim is None:
        return
    if claim.is_damaged:
        raise UserError(
            option("resume"),
            f"{output}/{CLAIM} is damaged, as after a power failure, and does not tell where the "
            "stopped run has left its work",
            over,
        )
    if claim.kind != intent.kind:
        cause, cure = "the stopped run does not add to the data set", "Leave"
        if claim.kind == APPEND:
            cause, cure = "the stopped run adds to the data set", "Add"
        if EDIT in {claim.kind, intent.kind}:
            cause = "the stopped run removes documents"
            raise UserError(option("resume"), cause, "Run the command again that was stopped")
        cure += f" {option('append')}" + (" out" if cure == "Leave" else "")
        raise UserError(f"{option('append')} {option('resume')}", cause, cure)
    if not standing.has_work and _has_folder(standing):
        raise UserError(
            option("resume"),
            f"the stopped run worked in {claim.temp_folder}, which is not a temporary folder of "
            f"runs into {output}",
            f"If it was started with {option('temp_location')}, give the same one; "
            "if its folder was moved, "
            f"copied or removed: {over[0].lower()}{over[1:]}",
        )


def _has_folder(standing: Standing) -> bool:
    """Whether a stopped run has left a folder that is not known to be that of a run into this one.

    A run that was killed before it made its folder has left nothing.
    """
    claim, elsewhere = standing.claim, standing.temp_location or standing.output
    if claim is None:
        return False
    parent = split_path(claim.temp_folder)[0]
    if parent == standing.output.url:
        return False
    return parent != elsewhere.url or has_mark(claim.temp_folder)


def _is_alive(claim: Claim) -> bool:
    """Whether the process that made a claim is still running on this machine."""
    # A run of this very process has failed.
    if claim.process == os.getpid():
        return False
    try:
        process = psutil.Process(claim.process)
        is_same = abs(process.create_time() - claim.started) < 1
        return is_same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _in_use(standing: Standing) -> UserError:
    claim, names = standing.claim, sorted(standing.own.listed)
    unfinished = claim is not None or (standing.seal is None and not standing.foreign)
    cause = f"it is not empty ({names[0]})" if names and not unfinished else ""
    if claim is not None and claim.mistake:
        # Nobody may have waited for the run to say it.
        cause = (
            f"it has an unfinished data set (its run ended with: {': '.join(claim.mistake[:2])})"
        )
    ways = [f"add {option('replace', True)}"]
    if claim is not None and not claim.is_damaged:
        ways.insert(0, f"add {option('resume', True)}")
    cure = f"Give another folder, or {', or '.join(ways)}"
    return UserError(
        option("output", standing.output),
        cause or "it has an unfinished data set",
        "Give a new or an empty folder" if standing.foreign else cure,
    )


def list_stale(standing: Standing) -> tuple[str, ...]:
    """List the files of a whole data set that a new one in its folder replaces."""
    return tuple(sorted(standing.own.of_data_set)) if standing.seal is not None else ()
