"""What an objective's command builds, read from the source of its options without running it.

To import all objectives takes a second; the list of all commands is there at once.
"""

import ast
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from corpusmill.errors import UserError
from corpusmill.plugins import Plugins


def read_summary(objectives: Plugins[Any], name: str) -> str:
    """Return the `summary` of an objective's options; empty if it is not a plain text there.

    Args:
        objectives: the table of objectives.
        name: of the objective.
    """
    try:
        entry = objectives.find_entry(name)
        path = _find_source(entry.module)
        tree = ast.parse(path.read_bytes()) if path else ast.Module([], [])
    except (UserError, OSError, SyntaxError, ValueError):  # its command says what is wrong
        return ""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == entry.attr:
            for member in node.body:
                if (text := _summary_in(member)) is not None:
                    return text
    return ""


def _find_source(module: str) -> Path | None:
    """Return the file of a module, without importing the packages that it is in."""
    package, *inner = module.split(".")
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if not inner:
        return Path(spec.origin) if spec.origin else None
    for folder in spec.submodule_search_locations or ():
        for path in (Path(folder, *inner).with_suffix(".py"), Path(folder, *inner, "__init__.py")):
            if path.is_file():
                return path
    return None


def _summary_in(member: ast.stmt) -> str | None:
    match member:
        case (
            ast.AnnAssign(target=ast.Name(id="summary"), value=ast.Constant(value=str(text)))
            | ast.Assign(targets=[ast.Name(id="summary")], value=ast.Constant(value=str(text)))
        ):
            return text
    return None
