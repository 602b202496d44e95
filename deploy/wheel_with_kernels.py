"""How hatchling puts compiled kernels into the library's wheel, if `make wheels` builds it."""

import platform
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Kernels(BuildHookInterface[Any]):
    """Includes build/kernels, which `deploy.compile_kernels` has written with this Python."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Include the kernels, and name the Python and the machine that they are for."""
        if version == "editable":
            return
        kernels = Path(self.root, "build", "kernels")
        build_data["force_include"][str(kernels)] = "corpusmill/compiled_kernels"
        build_data["pure_python"] = False
        # They need nothing of the system but what numba's own wheel for it has.
        python = "cp{}{}".format(*sys.version_info)
        build_data["tag"] = f"{python}-none-manylinux_2_17_{platform.machine()}"
