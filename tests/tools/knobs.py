"""The thresholds of all modules: their table, and other values of them for a test.

    python -m tests.tools.knobs

prints the table.
"""

import ast
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib import import_module
from multiprocessing import forkserver
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from corpusmill.knobs import VARIABLE
from transforms.task_sizes import TaskSizes

# The sizes of tasks that are options of a run, as flags: a few kilobytes cross all of them.
SMALL_SIZES = (
    "--fan-in", "3", "--buffer-bytes", "5000", "--merge-bytes", "20000", "--most-references", "4",
    "--sort-bytes", "20000",
)  # fmt: skip

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGES = ("corpusmill", "transforms", "pipeline")


class Knob(NamedTuple):
    """A threshold.

    Attributes:
        name: that of the constant, in lower case.
        module: the module that has it.
        usual: the usual value.
        test: a value that a test crosses; None where results depend on it.
        change: what changes beyond it.
    """

    name: str
    module: str
    usual: int
    test: int | None
    change: str


@cache
def list_knobs() -> dict[str, Knob]:
    """Return the thresholds of all packages, by name."""
    knobs = [
        knob
        for package in PACKAGES
        for path in sorted((CHECKOUT / package).rglob("*.py"))
        for knob in _read_knobs(path)
    ]
    names = [knob.name for knob in knobs]
    assert len(set(names)) == len(names), sorted(names)
    return {knob.name: knob for knob in knobs}


def _read_knobs(path: Path) -> Iterator[Knob]:
    module = ".".join(path.relative_to(CHECKOUT).with_suffix("").parts)
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for node, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=constant)],
                value=ast.Call(func=ast.Name(id="knob"), args=arguments, keywords=keywords),
            ):
                name, *values = (_value_of(argument) for argument in arguments)
                values += [_value_of(keyword.value) for keyword in keywords]
                assert name == constant.lower(), f"{module}.{constant}"
                assert isinstance(after, ast.Expr), f"{module}.{constant} says not what it is"
                words = " ".join(str(_value_of(after.value)).split())
                usual, test = [*values, None][:2]
                yield Knob(name, module, usual, test, words)


def _value_of(node: ast.expr) -> Any:
    return eval(compile(ast.Expression(node), "", "eval"), {})  # noqa: S307  it is our own source


@contextmanager
def knobs(small: bool | int = False, **values: int) -> Iterator[None]:
    """Give thresholds other values in this process, and in those that it starts meanwhile.

    Args:
        small: whether all of them get their test values.
        values: by name; other values of some.
    """
    known = list_knobs()
    assert values.keys() <= known.keys(), values.keys() - known.keys()
    tests = {name: knob.test for name, knob in known.items() if small and knob.test is not None}
    changed = {**tests, **values}
    modules = {name: import_module(known[name].module) for name in changed}
    before = {name: getattr(module, name.upper()) for name, module in modules.items()}
    words = [*(["test"] if small else []), *(f"{name}={value}" for name, value in values.items())]
    outer = os.environ.get(VARIABLE, "")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv(VARIABLE, " ".join([outer, *words]).strip())
        _set_all(changed)
        try:
            with _fresh_processes(monkeypatch):
                yield
        finally:
            _set_all(before)


def _set_all(values: dict[str, int]) -> None:
    """Set the constants of these names, also in modules that import them."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PACKAGES:
            for constant in vars(module).keys() & {name.upper() for name in values}:
                setattr(module, constant, values[constant.lower()])


@contextmanager
def _fresh_processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let processes come from a server that has imported all modules in this block, if any do."""
    server: Any = forkserver._forkserver
    ensure_running, is_fresh = server.ensure_running, False

    def ensure_fresh() -> None:
        nonlocal is_fresh
        if not is_fresh:
            server._stop()
        is_fresh = True
        ensure_running()

    monkeypatch.setattr(server, "ensure_running", ensure_fresh)
    try:
        yield
    finally:
        if is_fresh:
            server._stop()


def small_batches(size: int) -> AbstractContextManager[None]:
    """Give all thresholds of reading the corpus values that a few times `size` bytes cross."""
    few = max(1, size // 16)
    return knobs(
        batch_bytes=size, batch_rows=few, batch_rejects=few, block_lines=few, parsed_bytes=few,
        small_member_bytes=size,
    )  # fmt: skip


@contextmanager
def in_buckets(bucket_bytes: int, merge_bytes: int) -> Iterator[TaskSizes]:
    """Let few documents be compared in many buckets, and in levels if less is merged at a time."""
    values = {"hash_bucket_bytes": bucket_bytes, "filter_bits": 1024}
    if merge_bytes >= bucket_bytes:
        with knobs(**values):
            yield TaskSizes(merge_bytes=merge_bytes)
        return
    with knobs(**values, smallest_segment_bytes=16 * 2**20):
        yield TaskSizes(merge_bytes=merge_bytes, most_references=2)


def main() -> None:
    """Print the table of all thresholds."""
    for knob in sorted(list_knobs().values(), key=lambda knob: (knob.module, knob.name)):
        sys.stdout.write(f"{knob.module}.{knob.name.upper()} = {knob.usual:,} ({knob.test})\n")
        sys.stdout.write(f"    {knob.change}\n")


if __name__ == "__main__":
    main()
