"""The two wheels, built as `make wheels` does it, with the backend that is installed."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import CHECKOUT


def build_wheels(folder: Path) -> tuple[Path, Path]:
    """Build the library's wheel and the job's, which stand in the order of installation."""
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    command = (sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", folder)
    subprocess.run([*command, CHECKOUT, CHECKOUT / "job"], check=True)
    [library] = folder.glob("corpusmill-*.whl")
    [job] = folder.glob("corpusmill_job-*.whl")
    return library, job
