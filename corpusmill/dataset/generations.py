"""Generations: how a data set takes the place of another one without a moment in between.

A data set that replaces another one is first complete in a *generation*, a folder below the data
set's own. `_SUCCESS` holds the SHA-256 of the manifest, and while the files are being replaced also
the generation's name. Readers take the manifest with this digest, and the files beside it. What
is added to a data set is moved beside its files before; its generation holds small files alone.
"""

import re
from hashlib import sha256

from corpusmill.dataset.manifest import MANIFEST, SUCCESS
from corpusmill.location import Layers, Location

# A regular expression of the names of generations.
GENERATION = r"_generation-[0-9a-f]{32}"


def is_generation(name: str) -> bool:
    """Whether a folder has the name of a generation."""
    return re.fullmatch(GENERATION, name) is not None


def generation_of(seal: bytes) -> str:
    """The name of the generation of a data set.

    Args:
        seal: the content of its `_SUCCESS`.

    Example:
        b"6b86b273ff34fce1..." gives "_generation-6b86b273ff34fce1...", with 32 digits.
    """
    return f"_generation-{seal[:32].decode()}"


def refer_to(seal: bytes) -> bytes:
    """The content of `_SUCCESS` that passes readers on to a data set's generation."""
    return f"{seal.decode().strip()} {generation_of(seal)}\n".encode()


def current_folder(folder: Location) -> Location:
    """The folder that holds the current data set: the given one, or a generation below it.

    On the hub, it is the folder at the current commit.

    Raises:
        UserError: the hub lacks the data set, or cannot be reached.
    """
    folder = folder.pin()
    digest, _, name = (
        (_read(folder, SUCCESS) or b"").decode(errors="replace").strip().partition(" ")
    )
    if not is_generation(name):
        return folder
    manifest = _read(folder, MANIFEST)
    is_whole = manifest is not None and sha256(manifest).hexdigest() == digest
    return folder if is_whole else Layers(folder / name, folder)


def _read(folder: Location, name: str) -> bytes | None:
    try:
        return folder.read(name)
    except Exception:  # each filesystem has errors of its own, which `read_manifest` explains
        return None
