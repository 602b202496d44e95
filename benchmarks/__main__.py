"""Fill the tables of the page of figures: `python -m benchmarks [TABLE ...]`.

Each table of docs/explanation/figures.md is what one benchmark prints. Without names all tables
are measured anew, which takes about an hour on two cores; the others keep their figures and their
dates. A table stands between two comments, `<!-- table: NAME -->` and `<!-- end -->`, and ends
with its command, the day and the machine.
"""

import argparse
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil

from benchmarks.builds import CHECKOUT
from benchmarks.console import report

PAGE = CHECKOUT / "docs" / "explanation" / "figures.md"
TABLES: Mapping[str, str] = {
    "sizes": "job.sizes --rounds 2",
    "objectives": "job.objectives --times 10 --rounds 1",
    "start": "job.start",
    "append": "job.appending",
    "provenance": "job.provenance",
    "tokenizers": "kernels.tokenization",
    "training": "kernels.tokenizer_training --vocab-size 50257",
    "text": "kernels.reading",
    "tables": "kernels.corpus_formats",
    "shards": "kernels.shard_formats --length 512",
    "readers": "readers --data-sets bert --examples 30000 --rounds 1",
    "order": "readers.shuffle_quality",
}
_TABLE = "(<!-- table: {} -->\n).*?(<!-- end -->)"


def run(command: str) -> str:
    """Run a benchmark and return the tables that it prints, with an empty line between them."""
    report(f"python -m benchmarks.{command}")
    arguments = [sys.executable, "-m", *shlex.split(f"benchmarks.{command}")]
    process = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=True)
    lines = [line if line.startswith("|") else "" for line in process.stdout.splitlines()]
    return re.sub("\n{2,}", "\n\n", "\n".join(lines)).strip()


def describe_machine() -> str:
    """Describe processor, memory, the versions on which figures depend, and what else ran."""
    named = re.search("model name\\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    processor = named[1] if named else platform.machine()
    memory = round(psutil.virtual_memory().total / 2**30)
    packages = ("apache-beam", "pyarrow", "numba", "tokenizers")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return (
        f"{os.cpu_count()} cores of {processor}, {memory} GiB, "
        f"Python {platform.python_version()}, {versions}; load average {os.getloadavg()[1]:.0f}"
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


def measure(name: str) -> None:
    """Measure one table and write it into the page."""
    tables, day = run(TABLES[name]), datetime.now(UTC).date()
    note = f"`python -m benchmarks {name}`, {day}: {describe_machine()}."
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(fill(page, name, tables, note), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the tables that are named, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(TABLES))
    for name in parser.parse_args(arguments).tables or TABLES:
        measure(name)


if __name__ == "__main__":
    main()
