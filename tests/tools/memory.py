"""How much memory a piece of a program takes, in a process of its own."""

import subprocess
import sys
from textwrap import dedent

from tests.conftest import CHECKOUT

_PROGRAM = """
import ctypes, resource
# As in a worker of the local engine: large arrays come from the heap, and are not returned.
for option in (-1, -3):
    getattr(ctypes.CDLL(None), "mallopt", lambda *_: 0)(option, 256 * 2**20)
{before}
first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
{measured}
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - first)
"""


def memory_of(before: str, measured: str) -> int:
    """Return by how many bytes the largest memory of a process grows in a piece of a program.

    Args:
        before: what comes before it, in the same namespace.
        measured: the piece.
    """
    program = _PROGRAM.format(before=dedent(before), measured=dedent(measured))
    printed = subprocess.run(
        [sys.executable, "-c", program], cwd=CHECKOUT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    return 1024 * int(printed)
