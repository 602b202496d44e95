"""What a release lacks, as `make release-check` prints it.

    python -m tests.tools.release_check [VERSION_OF_PYTHON ...]

Each Python that is installed builds the wheels, installs them in an empty environment, and runs the
five commands of the README there, which takes some ten minutes each.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from tests.conftest import CHECKOUT

PYTHONS = ("3.11", "3.12", "3.13", "3.14")

_COMMANDS = re.compile(r"^## Your text in five commands$.*?^```sh\n(.*?)^```$", re.M | re.S)
_SECTION = re.compile(r"^## \[?(\d+\.\d+\.\d+[\w.]*)\]? - \d{4}-\d\d-\d\d$", re.M)


def read_commands(checkout: Path = CHECKOUT) -> str:
    """Return the five commands of the README."""
    [commands] = _COMMANDS.findall((checkout / "README.md").read_text(encoding="utf-8"))
    return str(commands)


def find_python(version: str) -> str:
    """Return a Python that can make environments, on the search path or of pyenv; else ""."""
    of_pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for program in filter(None, (shutil.which(f"python{version}"), *map(str, of_pyenv))):
        command = [program, "-c", "import ensurepip, venv"]
        if not subprocess.run(command, capture_output=True, check=False).returncode:
            return program
    return ""


def build_wheels(python: str, folder: Path) -> list[Path]:
    """Build the wheels as the release does, in an environment of their own."""
    _run("make", "wheels", f"PYTHON={python}", f"ENV={folder}", cwd=CHECKOUT)
    return sorted((CHECKOUT / "dist").glob("*.whl"))


def try_wheels(python: str, wheels: Sequence[Path], folder: Path) -> None:
    """Install wheels in an empty environment, and run the commands of the README there.

    Args:
        python: makes the environment.
        wheels: the library's and the job's.
        folder: a new folder for the environment and what the commands write.

    Raises:
        subprocess.CalledProcessError: something failed, as its output says.
    """
    shutil.copytree(CHECKOUT / "samples", folder / "samples")
    _run(python, "-m", "venv", folder / "environment", cwd=folder)
    programs = folder / "environment" / "bin"
    constraints = CHECKOUT / "constraints.txt"
    _run(programs / "pip", "install", "--quiet", "--constraint", constraints, *wheels, cwd=folder)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    _run("sh", "-euc", read_commands(), cwd=folder, PATH=path)


def list_missing(wheels: Sequence[Path], checkout: Path = CHECKOUT) -> list[str]:
    """Say what the checkout and its wheels lack for a tag.

    Args:
        wheels: all that were built.
        checkout: the repository.
    """
    missing = []
    if _git(checkout, "status", "--porcelain"):
        missing.append("a working tree without changes: commit them")
    sections = _SECTION.findall((checkout / "CHANGELOG.md").read_text(encoding="utf-8"))
    tags = re.findall(r"(?m)^v(\d.*)$", _git(checkout, "tag", "--points-at", "HEAD"))
    version = (tags or sections[:1] or ["VERSION"])[0]
    if not tags:
        missing.append(f"a tag at this commit: git tag v{version}")
    if version not in sections:
        missing.append(f"a section of CHANGELOG.md for it: ## {version} - YEAR-MONTH-DAY")
    if not (checkout / "LICENSE").is_file():
        missing.append("LICENSE")
    for wheel in wheels:
        if not any(name.endswith("/licenses/LICENSE") for name in ZipFile(wheel).namelist()):
            missing.append(f"a license in {wheel.name}")
        if tags and wheel.name.split("-")[1] != version:
            missing.append(f"the version {version} of {wheel.name}: build it at the tag")
    return missing


def _git(checkout: Path, *arguments: str) -> str:
    return subprocess.check_output(["git", *arguments], cwd=checkout, text=True)


def _run(*command: str | Path, cwd: Path, **environment: str) -> None:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(
        command, cwd=cwd, env=variables | environment, check=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def main(versions: Sequence[str]) -> int:
    """Try the Pythons of these versions, and print what is missing; return a process' status."""
    wheels: list[Path] = []
    untried = [f"Python {version}, which was not asked for" for version in {*PYTHONS} - {*versions}]
    for version in versions:
        if not (python := find_python(version)):
            untried.append(f"Python {version}, which is not installed here")
            continue
        print(f"Python {version}: {python}", flush=True)
        with TemporaryDirectory(prefix="corpusmill-release-") as folder:
            try:
                wheels = build_wheels(python, Path(folder, "build"))
                try_wheels(python, wheels, Path(folder, "try"))
            except subprocess.CalledProcessError as error:
                print(error.stdout)
                untried.append(f"Python {version}, where {error.cmd[0]} failed as shown above")
    missing = [*list_missing(wheels), *(f"a trial with {each}" for each in sorted(untried))]
    print("\n".join(f"missing: {each}" for each in missing) or "nothing is missing: push the tag")
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or PYTHONS))
