"""Which run writes into an output folder, so that of two runs one wins whole.

A run leaves its *claim* in the folder before it works, and the commit goes on only while the claim
is still its own. A local folder and a bucket of Google Cloud Storage or S3 give a claim to exactly
one of two runs that ask at once; elsewhere the last one keeps it, and the other one sees that when
it looks again.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from corpusmill.errors import UserError
from transforms.storage.files import delete_files, open_file, write_file
from transforms.storage.objects import find_object, is_object_path

CLAIM = "_RUNNING"


@dataclass(frozen=True)
class Claim:
    """A run's claim on an output folder.

    Attributes:
        token: of one start of a run; one that goes on has a new one.
        temp_folder: of the run.
        host: where it was started.
        process: its process there.
        started: when that process was, in seconds since 1970, by which it is told from a later one
            of the same number.
    """

    token: str
    temp_folder: str
    host: str
    process: int
    started: float


def read_claim(output: str) -> Claim | None:
    """The claim on a folder; None where there is none, or none that can be read."""
    try:
        with open_file(_path(output)) as stream:
            return Claim(**json.loads(stream.read()))
    except (ValueError, TypeError, OSError, BeamIOError):
        return None


def take_claim(output: str, claim: Claim, over: str | None = None) -> None:
    """Leave a claim on a folder.

    Args:
        output: the folder.
        claim: of this run.
        over: token of the claim that it may take over.

    Raises:
        UserError: another run has one.
    """
    content = json.dumps(asdict(claim)).encode()
    known = read_claim(output)
    if known is not None and known.token != over:
        raise _taken(output, known)
    if FileSystems.get_scheme(output) is None and known is None:
        try:
            with Path(_path(output)).open("xb") as stream:
                stream.write(content)
        except FileExistsError:
            raise _taken(output, read_claim(output)) from None
        return
    if is_object_path(output):
        store, name = find_object(_path(output))
        # Where it is there all the same, it may be this run's own, whose receipt was lost.
        with suppress(FileExistsError):
            store.put(name, content, new=known is None)
    else:
        write_file(_path(output), content)
    check_claim(output, claim.token)


def check_claim(output: str, token: str) -> None:
    """Make sure that a folder is still this run's.

    Raises:
        UserError: it is another run's.
    """
    known = read_claim(output)
    if known is None or known.token != token:
        raise _taken(output, known)


def drop_claim(output: str, token: str) -> None:
    """Take this run's claim away; another run's stays."""
    known = read_claim(output)
    if known is not None and known.token == token:
        delete_files([_path(output)])


def _taken(output: str, claim: Claim | None) -> UserError:
    who = f" (process {claim.process} on {claim.host})" if claim else ""
    return UserError(
        f"--output {output}",
        f"another run{who} writes into this folder",
        "Wait for it, or give another folder",
    )


def _path(output: str) -> str:
    return str(FileSystems.join(output, CLAIM))
