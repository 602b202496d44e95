"""The manifest of a data set, which is its only pointer: exchanged in one step, and followed.

Before it is exchanged, all files that it lists are on the disk. After it, small files are copied
beside it for those who look for them there, and what it does not list is removed. Each step can be
made again at any moment, also by the next command, and by a run that slept.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple
from uuid import uuid4

from corpusmill.dataset.manifest import MANIFEST, SUCCESS, Manifest
from corpusmill.dataset.manifest_json import decode
from corpusmill.dataset.ownership import RECORD, OwnFiles, OwnFolder, end_version
from corpusmill.errors import UserError, first_line
from corpusmill.location import TEMPORARY, Location
from transforms.recovery import Workplace, current_version, read_run
from transforms.storage.files import locate


class Committed(NamedTuple):
    """What becomes a data set, of which all files are written.

    Attributes:
        manifest: content of the manifest.
        copies: {name: content} of the files that are copied beside it.
    """

    manifest: bytes
    copies: Mapping[str, bytes]


def commit(place: Workplace, committed: Committed) -> None:
    """Make a data set of files that are written; readers see the old one or the new one.

    Args:
        place: where the run works.
        committed: the manifest, and the files that are copied beside it.

    Raises:
        UserError: another run has finished a data set since this one began.
    """
    output, content = locate(place.output), committed.manifest
    listed = decode(content, place.output)
    try:
        output.sync(listed.entries)
    except FileNotFoundError as error:
        cause = f"it is missing, and the data set has it ({first_line(error)})"
        cure = "Copy it to its place, or build the data set anew"
        raise UserError(str(error.filename), cause, cure) from None
    current, run = output.read_any(MANIFEST), read_run(place.folder)
    if current != content:
        is_ours = run is not None and bool(run.token) and run.base == digest(current)
        if not (is_ours and (output / MANIFEST).exchange(content, current, place.scratch)):
            raise overtaken(place)
    copies = {**committed.copies, SUCCESS: b""}
    copy_beside(output, place.version, copies, place.scratch)


def digest(manifest: bytes | None) -> str:
    """Return the SHA-256 of a manifest; empty if there is none."""
    return sha256(manifest).hexdigest() if manifest is not None else ""


def overtaken(place: Workplace) -> UserError:
    """Return the error of a run whose data set cannot take the place of another run's."""
    cause = f"another run has meanwhile finished a data set there, so that v{place.version} is not"
    return UserError(place.output, f"{cause} taken", "Run the command again if it is still needed")


def copy_beside(output: Location, version: int, copies: Mapping[str, bytes], scratch: str) -> None:
    """Copy the small files of a version beside the manifest, as long as that is its own.

    Args:
        output: the folder of the data set.
        version: number of the version.
        copies: the files, by name.
        scratch: a folder for what a kill may leave.
    """
    for name, content in copies.items():
        while (held := output.read_any(name)) != content:
            # The file is read before, so that it is exchanged only if no later run has done so.
            if current_version(output) != version:
                return
            if (path := output.local_path(name)) and held is None:
                path.parent.mkdir(exist_ok=True)
            (output / name).exchange(content, held, scratch)


def tidy(output: Location) -> bool:
    """Finish in a folder what the run has left to do that wrote its manifest, if it has one."""
    content = output.read_any(MANIFEST)
    if content is None:
        return False
    manifest = decode(content, str(output))
    return finish(OwnFiles.find(output, output.list(), manifest), manifest)


def finish(own: OwnFiles, manifest: Manifest) -> bool:
    """Finish what the run has left to do that wrote a manifest, and remove what is not in use.

    What a manifest does not list is not listed by a later one either, and the folders of later
    versions are left alone.

    Args:
        own: the files of the data set.
        manifest: its manifest.

    Returns:
        Whether anything was left to do.
    """
    output, number = own.folder, manifest.version
    folder = output / f"v{number}"
    recorded = own.recorded.get(number, set()) | {f"v{number}/{RECORD}"}
    of_run = own.versions.get(number, set()) - manifest.entries.keys() - recorded
    run = read_run(folder)
    if of_run or run:
        for temporary in run.list_folders(folder, output) if run else ():
            temporary.discard()
        end_version(folder)
    copies = _find_stale_copies(output, manifest)
    if copies:
        scratch = OwnFolder(folder / f"{TEMPORARY}{uuid4().hex}", {"output": output.url})
        scratch.make()
        copy_beside(output, number, copies, scratch.place.url)
        scratch.discard()
    has_stale = own.remove_stale(manifest)
    return bool(of_run or run or copies or has_stale)


def _find_stale_copies(output: Location, manifest: Manifest) -> dict[str, bytes]:
    """Read the files that are not beside the manifest as they should be, and are intact."""
    stale = {}
    for name, entry in manifest.copies.items():
        held = output.read_any(name)
        if held is None or sha256(held).hexdigest() != entry.sha256:
            original = output.read_any(entry.file) or b""
            if sha256(original).hexdigest() == entry.sha256:
                stale[name] = original
    return stale if output.read_any(SUCCESS) == b"" else {**stale, SUCCESS: b""}
