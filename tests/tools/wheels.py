"""The two wheels, built by the backend that is installed, without pip as its caller."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import CHECKOUT


def build_wheels(folder: Path, with_kernels: bool = False) -> tuple[Path, Path]:
    """Build the library's wheel and the job's, which stand in the order of installation.

    Args:
        folder: for the wheels.
        with_kernels: whether the library's has compiled kernels, which takes minutes.
    """
    if with_kernels:
        kernels = CHECKOUT / "build" / "kernels"
        shutil.rmtree(kernels, ignore_errors=True)
        compile_kernels = (sys.executable, "-m", "deploy.compile_kernels", kernels)
        subprocess.run(compile_kernels, cwd=CHECKOUT, check=True, stdout=subprocess.DEVNULL)
    command = (sys.executable, "-m", "hatchling", "build", "--target", "wheel")
    hooks = {"HATCH_BUILD_HOOK_ENABLE_CUSTOM": str(with_kernels).lower()}
    for package in (CHECKOUT, CHECKOUT / "job"):
        subprocess.run(
            [*command, "--directory", folder], cwd=package, env={**os.environ, **hooks},
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    [library] = folder.glob("corpusmill-*.whl")
    [job] = folder.glob("corpusmill_job-*.whl")
    return library, job
