"""Paths, and Beam's file systems, which are imported for the first path that is not a local one.

Beam takes a second to import. A mistake of the user's is found before that, unless it is about a
URL.
"""

import os
import re
import sys
from collections.abc import Sequence
from typing import Any

# As Beam finds it.
_SCHEME = re.compile(r"\s*([a-zA-Z][-a-zA-Z0-9+.]*)://")


def scheme_of(path: str) -> str | None:
    """Return the scheme of a URL ("gs"); None for a path on this machine."""
    match = _SCHEME.match(path)
    return match[1] if match else None


def join_path(folder: str, *names: str) -> str:
    """Join a folder, or its URL, and names below it."""
    if scheme_of(folder) is None:
        return os.path.join(folder, *names)  # noqa: PTH118  a text, as for URLs
    return str(beam_file_systems().join(folder, *names))


def split_path(path: str) -> tuple[str, str]:
    """Split a path or a URL into the folder and the name in it."""
    if scheme_of(path) is None:
        return os.path.split(os.path.abspath(path))  # noqa: PTH100  a text, as for URLs
    folder, name = beam_file_systems().split(path)
    return str(folder), str(name)


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
