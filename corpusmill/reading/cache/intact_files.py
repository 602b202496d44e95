"""Files whose bytes were compared with their checksums, so that it need not be done again.

To compare all bytes takes as long as to read them. So files are compared once after each start of
the machine, which may have lost bytes, and again if one has been written since: its time, size or
inode is then not the one that was noted. An unpacked piece is compared when it is first mapped:

    checksums.json    {"input_ids.values": 3735928559, ...}, CRC-32C of each file
    compared.json     what `_describe` returned when the files were compared last
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import google_crc32c
import pyarrow as pa

CHECKSUMS, _COMPARED = "checksums.json", "compared.json"
_BLOCK_BYTES = 2**22
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def write_checksums(folder: Path, checksums: Mapping[str, int]) -> None:
    """Write the checksums of a new folder's files, which need not be read again.

    Args:
        folder: the folder.
        checksums: CRC-32C of each file, by its name.
    """
    (folder / CHECKSUMS).write_text(json.dumps(dict(checksums)))
    note_comparison(folder / _COMPARED, folder, checksums)


def is_intact(folder: Path) -> bool:
    """Return whether files hold what was written; False if that cannot be told."""
    try:
        checksums = json.loads((folder / CHECKSUMS).read_text())
        if were_compared(folder / _COMPARED, folder, checksums):
            return True
        if any(_checksum(folder / name) != checksum for name, checksum in checksums.items()):
            return False
        note_comparison(folder / _COMPARED, folder, checksums)
    except (OSError, ValueError, AttributeError):
        return False
    return True


def were_compared(note: Path, folder: Path, names: Iterable[str]) -> bool:
    """Return whether a note says of some files, as they are now, that they were compared.

    Args:
        note: the file that `note_comparison` wrote.
        folder: of the files.
        names: theirs.
    """
    with suppress(OSError, ValueError, TypeError, KeyError):
        noted = json.loads(note.read_text())
        return bool(noted["boot"]) and noted == _describe(folder, names)
    return False


def note_comparison(note: Path, folder: Path, names: Iterable[str]) -> None:
    """Note that some files have been compared; the rest is as of `were_compared`."""
    with suppress(OSError):  # the cache may be read-only
        new = note.with_name(f"{note.name}.{os.urandom(16).hex()}")
        new.write_text(json.dumps(_describe(folder, names)))
        new.replace(note)


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            checksum = google_crc32c.extend(checksum, pa.py_buffer(block))
    return checksum


def _describe(folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """Return what changes when the machine starts or a file is written."""
    states = {name: (folder / name).stat() for name in names}
    files = {name: [at.st_size, at.st_mtime_ns, at.st_ino] for name, at in states.items()}
    return {"boot": _BOOT_ID.read_text() if _BOOT_ID.exists() else "", "files": files}
