"""Fill the tables of the page of figures: `python -m benchmarks [TABLE ...]`.

Each table of docs/explanation/figures.md is what one benchmark prints. Without names all tables
are measured anew, which takes about an hour on two cores; the others keep their figures and their
dates. A table stands between two comments, `<!-- table: NAME -->` and `<!-- end -->`, and ends
with its command, the day and the machine. The same figures as numbers are in figures.json beside
the page. They are compared with the last ones there of the same machine (benchmarks/README.md says
how), and what is slower by more than a tenth is shown in red.
"""

import argparse
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from benchmarks.builds import CHECKOUT
from benchmarks.comparison import (
    compare_tables,
    find_slower,
    read_figures,
    read_tables,
    tell,
    write_table,
)
from benchmarks.console import CONSOLE, report

PAGE = CHECKOUT / "docs" / "explanation" / "figures.md"
FIGURES = PAGE.with_suffix(".json")
TABLES: Mapping[str, str] = {
    "sizes": "job.sizes --rounds 2",
    "steps": "kernels.build_steps",
    "tokenizers": "kernels.tokenization",
    "tokbench": "kernels.tokbench",
    "training": "kernels.tokenizer_training --vocab-size 50257",
    "readers": "readers --data-sets bert --examples 30000 --rounds 1",
}
BY_NAME = {"tokbench"}  # its files are not ours; it is measured only if it is named
_TABLE = "(<!-- table: {} -->\n).*?(<!-- end -->)"
# Figures depend on them.
_PACKAGES = ("apache-beam", "pyarrow", "numba", "tokenizers", "tiktoken", "datasets", "torch")


def run(command: str) -> str:
    """Run a benchmark and return the tables that it prints, with an empty line between them."""
    report(f"python -m benchmarks.{command}")
    arguments = [sys.executable, "-m", *shlex.split(f"benchmarks.{command}")]
    process = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=True)
    lines = [line if line.startswith("|") else "" for line in process.stdout.splitlines()]
    return re.sub("\n{2,}", "\n\n", "\n".join(lines)).strip()


def describe_machine() -> dict[str, str | int]:
    """Describe what of a machine decides how fast it is; figures of equal ones are compared."""
    about = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    parts = [re.search(f"(?m)^{name}\\s*: (.*)", about) for name in ("model name", "model")]
    return {
        "processor": ", model ".join(part[1] for part in parts if part) or platform.machine(),
        "cores": os.cpu_count() or 1,
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
    }


def describe_run() -> dict[str, Any]:
    """Describe when and with which versions a table is measured, and what else runs."""
    versions = {"Python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        "day": datetime.now(UTC).date().isoformat(),
        "load": round(os.getloadavg()[1], 1),
        "versions": versions,
    }


def write_note(name: str, machine: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """Return the line below a table."""
    versions = ", ".join(f"{package} {number}" for package, number in about["versions"].items())
    return (
        f"`python -m benchmarks {name}`, {about['day']}: {machine['cores']} cores of "
        f"{machine['processor']}, {machine['memory_gib']} GiB, {versions}; "
        f"load average {about['load']:.0f}."
    )


def fill(page: str, name: str, tables: str, note: str) -> str:
    """Return the page with other tables under a name.

    Args:
        page: the text of the page.
        name: the name of the table, which the page has.
        tables: lines of Markdown.
        note: stands below them.
    """
    content = f"\n{tables}\n\n*{note}*\n"
    marked = re.compile(_TABLE.format(name), re.DOTALL)
    return marked.sub(lambda marks: f"{marks[1]}{content}{marks[2]}", page)


def measure_once(name: str) -> tuple[str, dict[str, Any]]:
    """Measure one table; return it in Markdown, and as the file of figures has it."""
    tables = run(TABLES[name])
    figures = [asdict(figure) for figure in read_figures(tables)]
    return tables, {"command": TABLES[name], **describe_run(), "figures": figures}


def measure(name: str) -> list[tuple[str, bool]]:
    """Measure one table, again if it seems slower, and write it into the page and the file.

    Returns:
        Lines of its comparison with the last one, as `comparison.tell` yields them.
    """
    machine = describe_machine()
    last = read_tables(FIGURES, machine).get(name)
    tables, now = measure_once(name)
    if slower := find_slower(compare_tables(last, now)):
        report(f"{name} is measured again: {len(slower)} figures seem slower")
        tables, now = measure_once(name)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(fill(page, name, tables, write_note(name, machine, now)), encoding="utf-8")
    write_table(FIGURES, machine, name, now)
    return list(tell(last, now, slower))


def show(lines: Mapping[str, list[tuple[str, bool]]], summary: Path | None) -> None:
    """Print how tables compare with the last ones, what is slower in red.

    Args:
        lines: of each table, as `measure` returns them.
        summary: a file to add them to, in Markdown.
    """
    shown = [(f"{name}: {line}", red) for name, own in lines.items() for line, red in own]
    for line, red in shown:
        CONSOLE.print(line, style="red" if red else "")
    if summary:
        with summary.open("a", encoding="utf-8") as file:
            file.writelines(f"- **{line}**\n" if red else f"- {line}\n" for line, red in shown)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the tables that are named, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(TABLES))
    parser.add_argument("--fail-if-slower", action="store_true", help="with status 1")
    parser.add_argument("--summary", type=Path, help="a file to add the comparison to, in Markdown")
    options = parser.parse_args(arguments)
    lines, failed = {}, False
    for name in options.tables or [name for name in TABLES if name not in BY_NAME]:
        try:
            lines[name] = measure(name)
        except subprocess.CalledProcessError as error:
            lines[name], failed = [(f"not measured: {error}", True)], True
    show(lines, options.summary)
    any_red = any(red for own in lines.values() for _, red in own)
    sys.exit(failed or (any_red and options.fail_if_slower))


if __name__ == "__main__":
    main()
