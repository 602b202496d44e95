"""Plans that tests make in this process."""

import json
from pathlib import Path
from typing import Any

from tests.tools.jobs import run_here


def plan(objective: str, tokenizer: Path, *flags: str | Path) -> dict[str, Any]:
    """Return the numbers of a plan."""
    output = run_here("plan", objective, "--tokenizer", tokenizer, *flags, "--json").output
    numbers: dict[str, Any] = json.loads(output)
    return numbers
