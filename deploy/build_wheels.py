"""Build the two wheels that workers elsewhere need: the library's, and one with the job itself.

    python deploy/build_wheels.py OUT_FOLDER

`corpusmill` is what a trainer installs. `corpusmill-job` holds `transforms` and `pipeline`, which
run from the checkout on one machine; it is for container images and for Beam's `--extra_package`,
which is given both, the library's first. Python and pip are all that is needed. The same sources
and the same setuptools give the same bytes, and nothing is written into the checkout.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
JOB_PACKAGES = ("transforms", "pipeline")

# What else could differ between two builds: the times and the modes of files. The oldest time that
# an archive can hold is as good as any.
_SECONDS_OF_FILES, _MODE_OF_FILES, _UMASK = "315532800", 0o644, 0o022
_NOT_SOURCES = shutil.ignore_patterns("__pycache__", "*.egg-info")


def build_wheels(folder: Path) -> tuple[Path, Path]:
    """Build both wheels.

    Args:
        folder: where they are put; it is made.

    Returns:
        The library's wheel and the job's, in the order in which they are to be installed.

    Raises:
        subprocess.CalledProcessError: pip could not build them, and has said why.
    """
    folder.mkdir(parents=True, exist_ok=True)
    project = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    library = _build("corpusmill", project, ("corpusmill",), folder)
    return library, _build("corpusmill-job", _describe_job(project), JOB_PACKAGES, folder)


def _describe_job(library: str) -> str:
    """The job's pyproject.toml: it wants the library of its own version, and what `job` names."""
    toml = tomllib.loads(library)
    of: dict[str, Any] = toml["project"]
    # A JSON text, or an array of them, is TOML, too.
    values = {
        "name": "corpusmill-job",
        "version": of["version"],
        "description": "The batch job of corpusmill, for its workers. Trainers need corpusmill.",
        "requires-python": of["requires-python"],
        "license": of["license"],
        "dependencies": [f"corpusmill=={of['version']}", *of["optional-dependencies"]["job"]],
    }
    patterns = [f"{package}*" for package in JOB_PACKAGES]
    return "\n".join([
        "[build-system]",
        f"requires = {json.dumps(toml['build-system']['requires'])}",
        f"build-backend = {json.dumps(toml['build-system']['build-backend'])}",
        "[project]",
        *(f"{key} = {json.dumps(value)}" for key, value in values.items()),
        "[tool.setuptools.packages.find]",
        f"include = {json.dumps(patterns)}",
        "[tool.setuptools.package-data]",
        '"pipeline.console" = ["*.html.jinja"]',
    ])  # fmt: skip


def _build(name: str, project: str, packages: tuple[str, ...], folder: Path) -> Path:
    """Build one wheel from a copy, as setuptools leaves files behind where it builds."""
    with TemporaryDirectory(prefix="corpusmill-wheel-") as temporary:
        source = Path(temporary)
        for package in packages:
            shutil.copytree(
                CHECKOUT / package, source / package,
                ignore=_NOT_SOURCES, copy_function=_copy_file,
            )  # fmt: skip
        for file in ("README.md", "LICENSE"):
            _copy_file(CHECKOUT / file, source / file)
        (source / "pyproject.toml").write_text(project, encoding="utf-8")
        subprocess.run(  # noqa: S603  all arguments are ours
            [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-cache-dir",
             "--disable-pip-version-check", "--wheel-dir", folder, source],
            env={**os.environ, "SOURCE_DATE_EPOCH": _SECONDS_OF_FILES},
            umask=_UMASK,
            check=True,
        )  # fmt: skip
    version = tomllib.loads(project)["project"]["version"]
    return folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"


def _copy_file(source: str | Path, target: str | Path) -> None:
    shutil.copyfile(source, target)
    Path(target).chmod(_MODE_OF_FILES)


def main() -> None:
    """Build them where the command line says, and print where they are."""
    parser = argparse.ArgumentParser(description="Build the wheels of corpusmill and of its job.")
    parser.add_argument("folder", type=Path, help="where they are put")
    for wheel in build_wheels(parser.parse_args().folder):
        sys.stdout.write(f"{wheel}\n")


if __name__ == "__main__":
    main()
