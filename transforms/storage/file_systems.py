"""Paths, and Beam's file systems, which are imported for the first path that is not a local one.

Beam takes a second to import. A mistake of the user's is found before that, unless it is about a
URL.
"""

import sys
from collections.abc import Sequence
from typing import Any


def join_path(folder: str, *names: str) -> str:
    """Join a folder, or its URL, and names below it."""
    return "/".join([folder.rstrip("/"), *names])


def split_path(path: str) -> tuple[str, str]:
    """Split an absolute path or a URL into the folder and the name in it."""
    folder, _, name = path.rpartition("/")
    return folder or "/", name


def beam_file_systems() -> Any:
    """Import Beam's `FileSystems`."""
    from apache_beam.io.filesystems import FileSystems  # noqa: PLC0415  see above
    from apache_beam.options.pipeline_options import PipelineOptions  # noqa: PLC0415

    if FileSystems._pipeline_options is None:
        FileSystems.set_options(PipelineOptions([]))
    return FileSystems


def set_beam_options(arguments: Sequence[str]) -> None:
    """Let Beam's file systems use these options; without any, and without Beam, nothing is done.

    Args:
        arguments: valid options of Beam's own.
    """
    if not arguments and "apache_beam.io.filesystems" not in sys.modules:
        return
    from apache_beam.options.pipeline_options import PipelineOptions  # noqa: PLC0415  see above

    beam_file_systems().set_options(PipelineOptions(list(arguments)))


def beam_errors() -> tuple[type[OSError], ...]:
    """The class of the errors of Beam's file systems; none as long as Beam is not imported."""
    module = sys.modules.get("apache_beam.io.filesystem")
    return (module.BeamIOError,) if module else ()
