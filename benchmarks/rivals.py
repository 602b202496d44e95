"""The rivals of the tables, each in an environment of its own, which is made when it is needed.

`rivals.toml` pins them. An environment stands above that of the tests: what it lacks is found
there, and the latter stays as it is.
"""

import json
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

from benchmarks.builds import CHECKOUT
from benchmarks.console import report

FOLDER = CHECKOUT / ".venv-rivals"
RIVALS = tomllib.loads(Path(__file__).with_name("rivals.toml").read_text(encoding="utf-8"))


class NotInstalledError(RuntimeError):
    """A rival cannot be installed; the message stands in the table in place of its figures."""


def label(rival: str) -> str:
    """Return a rival's name with its version, as tables show it."""
    _, _, version = RIVALS[rival]["requirements"][0].partition("==")
    return f"{RIVALS[rival]['name']} {version}"


def name_problem(error: RuntimeError) -> str:
    """Return what stands in the table in place of a rival's figures, and print why."""
    if isinstance(error, NotInstalledError):
        return str(error)
    report(str(error))
    return "failed"


def python_of(rival: str) -> str:
    """Return the Python of a rival's environment, which is made if it is missing or outdated.

    Raises:
        NotInstalledError: if the rival cannot be installed.
    """
    folder, requirements = FOLDER / rival, RIVALS[rival]["requirements"]
    python, made_of = folder / "bin" / "python", folder / "made-of.json"
    packages = sysconfig.get_path("purelib")
    wanted = json.dumps([requirements, packages, sys.version])
    if not made_of.exists() or made_of.read_text(encoding="utf-8") != wanted:
        report(f"{label(rival)} is installed into {folder} ...")
        _run_uv("venv", "--clear", "--python", sys.executable, str(folder))
        _run_uv("pip", "install", "--no-deps", "--python", str(python), *requirements)
        own = sysconfig.get_path("purelib", "venv", {"base": str(folder)})
        lower = f"import site; site.addsitedir({packages!r})\n"
        Path(own, "environment-of-tests.pth").write_text(lower, encoding="utf-8")
        made_of.write_text(wanted, encoding="utf-8")
    return str(python)


def _run_uv(*arguments: str) -> None:
    command = [sys.executable, "-m", "uv", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        report(done.stderr)
        raise NotInstalledError("not installed")
