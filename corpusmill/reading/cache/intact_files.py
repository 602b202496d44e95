"""The files of an unpacked shard, compared with their checksums when they are first mapped.

To compare all bytes takes as long as to read them. So a folder is compared once after each start of
the machine, which may have lost bytes, and again if a file has been written since: its time, size
or inode is then not the one that was noted.

    checksums.json    {"input_ids.values": 3735928559, ...}, CRC-32C of each file
    compared.json     what `_describe` returned when the files were compared last
"""

import json
import os
from collections.abc import Mapping
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
    _note(folder, checksums)


def is_intact(folder: Path) -> bool:
    """Return whether files hold what was written; False if that cannot be told."""
    try:
        checksums = json.loads((folder / CHECKSUMS).read_text())
        if _read_note(folder) == _describe(folder, checksums):
            return True
        if any(_checksum(folder / name) != checksum for name, checksum in checksums.items()):
            return False
        _note(folder, checksums)
    except (OSError, ValueError, AttributeError):
        return False
    return True


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            checksum = google_crc32c.extend(checksum, pa.py_buffer(block))
    return checksum


def _describe(folder: Path, names: Mapping[str, int]) -> dict[str, Any]:
    """Return what changes when the machine starts or a file is written."""
    states = {name: (folder / name).stat() for name in names}
    files = {name: [at.st_size, at.st_mtime_ns, at.st_ino] for name, at in states.items()}
    return {"boot": _BOOT_ID.read_text() if _BOOT_ID.exists() else "", "files": files}


def _read_note(folder: Path) -> Any:
    with suppress(OSError, ValueError):
        note = json.loads((folder / _COMPARED).read_text())
        return note if note["boot"] else None
    return None


def _note(folder: Path, names: Mapping[str, int]) -> None:
    with suppress(OSError):  # the cache may be read-only
        new = folder / f"{_COMPARED}.{os.urandom(16).hex()}"
        new.write_text(json.dumps(_describe(folder, names)))
        new.replace(folder / _COMPARED)
