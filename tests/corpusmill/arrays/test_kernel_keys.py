"""Kernels are compiled anew just when something changes that they are compiled from."""

import os
import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import corpusmill
from corpusmill.arrays import kernel_keys
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.kernel_keys import Compilable, digest_kernel

_SOURCES = {
    "constants.py": """
from typing import NamedTuple

FACTOR, TABLE = 3, (5, 7)

class Pair(NamedTuple):
    first: int
    second: int
""",
    "inner.py": """
from corpusmill.arrays.intrinsics import _Intrinsic
from corpusmill.arrays.kernel_cache import njit
from package import constants

def _type_raise(_context, number):
    from numba.core.types import int64
    def generate(context, builder, signature, values):
        return builder.add(values[0], values[0].type(1_000))
    return int64(number), generate

raised = _Intrinsic("raised", None, _type_raise)

def unrelated():
    return 1

@njit
def multiply(number):
    return number * constants.FACTOR + constants.TABLE[0]
""",
    "outer.py": '''
import numba
from corpusmill.arrays.kernel_cache import njit
from package.constants import Pair
from package.inner import multiply, raised

@njit
def subtract(pair, less=0):
    """Subtract one number from the other."""
    return pair.first - pair.second - less

@njit
def combine(number):
    return raised(multiply(number)) + 10_000 * subtract(Pair(number, 1))

@numba.njit
def negate(number):
    return -number

@njit
def use_another_compiler(number):
    return negate(number)
''',
}
# A change of a file; what `combine(2)` and `subtract(Pair(9, 2))` then return; and which of them,
# and of a kernel that calls one of numba's, are loaded: "c", "s", "n".
_CHANGES = [
    ("outer.py", "", "", "11011 7"),
    ("outer.py", "", "", "11011 7 csn"),
    ("constants.py", "FACTOR, TABLE = 3", "FACTOR, TABLE = 4", "11013 7 sn"),
    ("constants.py", "(5, 7)", "(6, 7)", "11012 7 sn"),
    ("constants.py", "first: int\n    second: int", "second: int\n    first: int", "-8989 -7 n"),
    ("inner.py", "number * constants", "number * 2 * constants", "11017 7 sn"),
    ("inner.py", "type(1_000)", "type(2_000)", "12011 7 sn"),
    ("inner.py", "():\n    return 1", "():\n\n    return 2", "11011 7 csn"),
    ("outer.py", "less=0", "less=1", "1011 6"),
    ("outer.py", "return -number", "return -number - 1", "11011 7 cs"),
    ("outer.py", "\nimport numba", "\n# A comment.\nimport numba", "11011 7 cs"),
    ("outer.py", "Subtract one number", "Take one number", "11011 7 cs"),
]  # fmt: skip
_CALL = """
import os, sys, numba
numba.njit(lambda: 0)()  # what numba itself needs is shared
for folder in sys.argv[1:]:
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
        continue
    sys.path.insert(0, folder)
    from package.outer import Pair, combine, subtract, use_another_compiler
    results = combine(2), subtract(Pair(9, 2))
    use_another_compiler(1)
    hits = [k.compiled.stats.cache_hits for k in (combine, subtract, use_another_compiler)]
    print(*results, "".join(k for k, hit in zip("csn", hits) if hit), flush=True)
    os._exit(0)
"""


def test_a_change_compiles_just_the_kernels_that_it_concerns(tmp_path: Path) -> None:
    folders = []
    for number, (name, old, new, *_) in enumerate(_CHANGES):
        folders.append(tmp_path / str(number))
        (folders[-1] / "package").mkdir(parents=True)
        for file, source in _SOURCES.items():
            assert file != name or old in source
            changed = source.replace(old, new) if file == name else source
            (folders[-1] / "package" / file).write_text(changed)
    ran = subprocess.run(
        [sys.executable, "-c", _CALL, *map(str, folders)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert list(map(str.rstrip, ran.stdout.splitlines())) == [change[-1] for change in _CHANGES]


def test_kernels_of_one_line_differ_by_what_they_take_from_around_them() -> None:
    def make(captured: object) -> Compilable:
        @njit
        def kernel() -> object:
            return captured

        return kernel  # type: ignore[no-any-return]

    values = [1, True, 1.0, (1, 2), (1, 2.0), np.arange(3), np.arange(3.0), make(1), {1: 2}, {1: 3}]
    assert len({digest_kernel(make(value)) for value in values}) == len(values)


def test_no_kernel_of_the_library_depends_on_all_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = {
        value: name
        for module in pkgutil.walk_packages(corpusmill.__path__, "corpusmill.")
        for name, value in vars(import_module(module.name)).items()
        if isinstance(value, Compilable)
    }
    kernel_keys._describe.cache_clear()
    monkeypatch.setattr(kernel_keys, "digest_sources", lambda *_: pytest.fail("a value is unknown"))
    keys = {digest_kernel.__wrapped__(kernel) for kernel in kernels}
    assert len(keys) == len(kernels)
