"""What the job's distribution takes from outside of its folder: its packages, and its library."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PACKAGES = ("pipeline", "transforms")


class Packages(BuildHookInterface[Any]):
    """Includes the packages, which lie beside this file in an sdist, and above it in a checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the packages' folders, except for an editable installation, which links them."""
        if version == "editable":
            return
        here = Path(self.root)
        above = here if (here / PACKAGES[0]).is_dir() else here.parent
        build_data["force_include"].update({str(above / name): name for name in PACKAGES})


class Requirements(MetadataHookInterface):
    """Requires the library of the job's own version: their sources are one."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the dependencies."""
        extras = ",".join(self.config["library-extras"])
        library = f"corpusmill[{extras}]=={metadata['version']}"
        metadata["dependencies"] = [library, *self.config["dependencies"]]
