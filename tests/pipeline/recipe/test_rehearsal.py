import os
import subprocess
import sys
from pathlib import Path

import pytest

from corpusmill import DataSet
from corpusmill.arrays import kernel_cache
from corpusmill.console import compilation
from tests.conftest import CHECKOUT

# Rehearses in another process, which compiles are not counted in, and in this one; then builds.
_REHEARSE = """
import multiprocessing, sys
from corpusmill.arrays import numba_cache
from pipeline.command_line import main
from pipeline.recipe import preparation, rehearsal

def rehearse_first(*parts):
    rehearsal.rehearse_beside(*parts)
    [child] = multiprocessing.active_children()
    child.join()
    rehearsal.rehearse(*parts)
    load, wanted = numba_cache.KernelCache.load_overload, set()
    def note(cache, *types):
        wanted.add(cache._name.args[0].definition.__module__)
        return load(cache, *types)
    numba_cache.KernelCache.load_overload = note
    globals().update(wanted=wanted, status=child.exitcode)

preparation.before_compiling = lambda action: rehearse_first(*action.args)
main(sys.argv[1:])
print()
print(status, *sorted(wanted))
"""


@pytest.mark.parametrize("flags", [(), ("--whole-word-mask", "--no-provenance")])
def test_what_builds_and_writes_rows_finds_the_kernels_of_the_rehearsal(
    flags: tuple[str, ...], sample: Path, tokenizer_path: Path, tmp_path: Path
) -> None:
    files = ("--input", sample, "--tokenizer", tokenizer_path, "--output", tmp_path / "out")
    ended = subprocess.run(
        [sys.executable, "-c", _REHEARSE, "bert", *map(str, files), *flags],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, text=True, capture_output=True, check=True,
    )  # fmt: skip
    status, *modules = ended.stdout.splitlines()[-1].split()
    assert status == "0"
    assert "corpusmill.corpus.text.line_kernels" in modules
    later = ("corpusmill.objectives", "corpusmill.formats")
    assert not [name for name in modules if name.startswith(later)]


def test_a_reader_says_once_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[int] = []
    monkeypatch.setattr(compilation, "say_that_kernels_are_compiled", lambda: said.append(1))
    monkeypatch.setattr(kernel_cache, "_before_compiling", [])
    compilation.announce_compilation.cache_clear()
    for _ in range(2):
        DataSet(CHECKOUT / "tests" / "data" / "small_data_set")
        kernel_cache._announce()
    assert said == [1]
    compilation.announce_compilation.cache_clear()
