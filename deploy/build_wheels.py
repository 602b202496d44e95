"""Build the two wheels for workers on other machines: the library's and the job's.

    python deploy/build_wheels.py FOLDER

`corpusmill` is the library, which trainers install. `corpusmill-job` has `transforms` and
`pipeline`, which run from the checkout on a single machine. Container images install both, and so
do workers if `--extra_package` names both, the library's first. This needs only Python and pip. The
same sources and setuptools give the same bytes, and nothing is written into the checkout.
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

# Builds could otherwise differ in the times and the modes of files. The time is the oldest one that
# a ZIP file can hold.
_FILE_TIME, _FILE_MODE, _UMASK = "315532800", 0o644, 0o022
_NOT_SOURCES = shutil.ignore_patterns("__pycache__", "*.egg-info")


def build_wheels(folder: Path) -> tuple[Path, Path]:
    """Build both wheels.

    Args:
        folder: of the wheels; it is created if it does not exist.

    Returns:
        The library's wheel and the job's, in the order of installation.

    Raises:
        subprocess.CalledProcessError: pip failed, and has printed the reason.
    """
    folder.mkdir(parents=True, exist_ok=True)
    project = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    library = _build("corpusmill", project, ("corpusmill",), folder)
    return library, _build("corpusmill-job", _describe_job(project), JOB_PACKAGES, folder)


def _describe_job(library: str) -> str:
    """Return the job's pyproject.toml, which requires this library and the extra `job`."""
    toml = tomllib.loads(library)
    project: dict[str, Any] = toml["project"]
    # Strings in JSON, and arrays of them, are also valid TOML.
    values = {
        "name": "corpusmill-job",
        "version": project["version"],
        "description": "The batch job of corpusmill, for its workers. Trainers need corpusmill.",
        "requires-python": project["requires-python"],
        "license": project["license"],
        "dependencies": [
            f"corpusmill=={project['version']}",
            *project["optional-dependencies"]["job"],
        ],
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
    """Build one wheel from a copy, as setuptools leaves files in the folder of a build."""
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
        subprocess.run(  # noqa: S603  the arguments are constants
            [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-cache-dir",
             "--disable-pip-version-check", "--wheel-dir", folder, source],
            env={**os.environ, "SOURCE_DATE_EPOCH": _FILE_TIME},
            umask=_UMASK,
            check=True,
        )  # fmt: skip
    version = tomllib.loads(project)["project"]["version"]
    return folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"


def _copy_file(source: str | Path, target: str | Path) -> None:
    shutil.copyfile(source, target)
    Path(target).chmod(_FILE_MODE)


def main() -> None:
    """Build both wheels and print their paths."""
    parser = argparse.ArgumentParser(description="Build the wheels of corpusmill and of its job.")
    parser.add_argument("folder", type=Path, help="of the wheels")
    for wheel in build_wheels(parser.parse_args().folder):
        sys.stdout.write(f"{wheel}\n")


if __name__ == "__main__":
    main()
