"""The rows of a data set, shard by shard, from any folder and in any format it was written in."""

from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa

from corpusmill.dataset.manifest import MANIFEST, SUCCESS, Manifest
from corpusmill.dataset.manifest_json import decode, seal
from corpusmill.dataset.storage import Folder
from corpusmill.errors import UserError
from corpusmill.formats.shard_formats import FORMATS

# What a run that writes into a folder keeps there.
_RUNNING = "_RUNNING"


def read_manifest(folder: Folder) -> Manifest:
    """The manifest of a data set that is complete.

    Raises:
        UserError: there is no data set, or not yet, or its manifest is damaged.
    """
    digest, content = _read(folder, SUCCESS), _read(folder, MANIFEST)
    if digest is None or content is None:
        cause, cure = _why_none(folder, digest is not None, content is not None)
        raise UserError(folder.url, cause, cure)
    if digest.strip() != seal(content).strip():
        cause = f"its {len(content):,} bytes are not those that {SUCCESS} vouches for"
        cure = "Copy or build the data set again"
        raise UserError(f"{folder.url}/{MANIFEST}", cause, cure)
    return decode(content, folder.url)


def _read(folder: Folder, name: str) -> bytes | None:
    """The bytes of a small file; None where there is none."""
    try:
        return folder.read(name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Exception as error:  # each filesystem has errors of its own
        cause = f"{name} cannot be read ({getattr(error, 'strerror', None) or error})"
        cure = "Check the URL, the connection and the rights to read it"
        raise UserError(folder.url, cause, cure) from error


def _why_none(folder: Folder, has_seal: bool, has_manifest: bool) -> tuple[str, str]:
    """The cause and the cure where a data set is not whole."""
    local = folder.local_path("")
    if local is not None and local.is_file():
        return "it is a file", "Give the folder that a build wrote"
    if local is not None and not local.exists():
        return "there is no such folder", "Give the folder that a build wrote"
    if _read(folder, _RUNNING) is not None:
        cause = f"a build is at work there or was stopped: there is {_RUNNING} and no {SUCCESS}"
        return cause, "Wait until it has finished, or run it again with --resume"
    if has_seal or has_manifest:
        there, missing = (SUCCESS, MANIFEST) if has_seal else (MANIFEST, SUCCESS)
        cause = f"there is {there} and no {missing}, so it was not built or copied to its end"
        return cause, "Copy it again, with _SUCCESS last, or build it again"
    return f"there is no {SUCCESS}, so it is no data set", "Give the folder that a build wrote"


def read_shard(
    folder: Folder, manifest: Manifest, shard: str, rows: int = 8192
) -> Iterator[pa.RecordBatch]:
    """The rows of a shard, in order, in batches of at most `rows`.

    Args:
        folder: of the data set.
        manifest: its manifest.
        shard: a file that the manifest lists as one.
        rows: most in a batch.
    """
    options = manifest.output.options
    with ExitStack() as files:
        streams = [files.enter_context(folder.open(name)) for name in manifest.parts(shard)]
        reader = FORMATS[options.output_format].read(streams, manifest.columns, options, rows)
        yield from reader
