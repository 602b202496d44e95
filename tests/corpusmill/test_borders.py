"""No public function reads or writes beside its arrays, whatever it is called with."""

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import CHECKOUT
from tests.tools.small_datasets import OBJECTIVES, Recipe, write_dataset


def test_calls_with_any_arrays_are_refused_or_right(tmp_path: Path) -> None:
    folder, log = tmp_path / "out", tmp_path / "log"
    write_dataset(folder, Recipe(OBJECTIVES["bert_dynamic"]))
    # Interpreted kernels check bounds, and compiling them with checks would take a minute.
    checked = {"NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.tools.border_calls", folder, log],
        env={**os.environ, **checked, "PYTHONPATH": str(CHECKOUT)},
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{log.read_text()}\n{done.stdout}\n{done.stderr}"
    accepted = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    assert len(accepted) == 9
    assert all(int(number) for number in accepted.values()), accepted
