"""Shards are read by the caller's thread: one of a library may outlive Python, and abort it."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import CHECKOUT
from tests.tools.small_datasets import write_dataset

_PROGRAM = """
import sys
from pathlib import Path
from corpusmill.dataset.shards import open_data_set, read_shard
from corpusmill.location import locate

def count_threads():
    names = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
    return len(names) - names.count("jemalloc_bg_thd")  # which allocates memory

folder, manifest = open_data_set(locate(sys.argv[1]))
before = count_threads()
for shard in manifest.splits["train"].shards:
    assert list(read_shard(folder, manifest, shard.file))
print(count_threads() - before)
"""


def test_arrow_starts_no_thread(tmp_path: Path) -> None:
    write_dataset(tmp_path / "out")
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path / "out")],
        capture_output=True, text=True, check=False, env={"PYTHONPATH": str(CHECKOUT)},
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == ("0", "")
