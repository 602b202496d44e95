"""The programs of other projects that train, as they are installed or lie in a folder."""

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.shards import read_shard
from corpusmill.location import locate
from tests.conftest import CHECKOUT
from tests.docs.pages import read_blocks

VARIABLE = "CORPUSMILL_TRAINERS"
"""Names a folder with checkouts by the names of their repositories, such as `torchtitan`."""

BATCHES = 100


def find_checkout(program: str) -> Path:
    """Return the folder of a program, or skip the test without it."""
    folder = Path(os.environ.get(VARIABLE, ""), program)
    if VARIABLE not in os.environ or not folder.is_dir():
        pytest.skip(f"{VARIABLE} names no folder with a checkout of {program}")
    return folder


@contextmanager
def borrow(program: str, inside: str = ".", bare: Sequence[str] = ()) -> Iterator[None]:
    """Let the modules of a program be imported for a while.

    Without a folder of programs, they are imported as they are installed.

    Args:
        program: the name of its repository.
        inside: the folder of its checkout that its packages lie in.
        bare: packages whose own `__init__` is not run, as it imports models and what these need.
    """
    folder = Path(os.environ.get(VARIABLE, ""), program, inside).absolute()
    is_checkout = VARIABLE in os.environ and folder.is_dir()
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as monkeypatch:
        if is_checkout:
            monkeypatch.syspath_prepend(folder)
        for name in bare if is_checkout else ():
            package = ModuleType(name)
            package.__path__ = [str(folder.joinpath(*name.split(".")))]
            monkeypatch.setitem(sys.modules, name, package)
        try:
            yield
        finally:
            for name in set(sys.modules) - before if is_checkout else ():
                origin = folder / name.partition(".")[0]
                if origin.is_dir() or origin.with_suffix(".py").is_file():
                    del sys.modules[name]


def load(module: str) -> Any:
    """Import a module of a program, or skip the test where it or what it needs is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        cure = f"install the trainer, or name a folder with its checkout in {VARIABLE}"
        pytest.skip(f"{module} cannot be imported ({error}): {cure}")


def read_program(page: str, title: str) -> dict[str, Any]:
    """Run the program of this title on a how-to page, as its readers do, and return its names.

    The test is skipped where the program imports what is missing.
    """
    blocks = read_blocks(CHECKOUT / "docs" / "how-to" / page)
    [code] = [block.code for block in blocks if block.title == title]
    module = ModuleType(title.removesuffix(".py").replace(" ", "_"))
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        exec(compile(code, title, "exec"), module.__dict__)  # noqa: S102  the code of our pages
    except ImportError as error:
        pytest.skip(f"the trainer of {page} is not installed: {error}")
    finally:
        del sys.modules[module.__name__]
    return module.__dict__


def rows_of(folder: Path, manifest: Manifest, split: str = "train") -> list[dict[str, Any]]:
    """Return the rows of a split of a data set, of any format, as they lie in its shards."""
    place = locate(str(folder))
    return [
        row
        for shard in manifest.splits[split].shards
        for batch in read_shard(place, manifest, shard.file)
        for row in batch.to_pylist()
    ]


def tokens_of(folder: Path, manifest: Manifest, split: str = "train") -> list[tuple[int, ...]]:
    """Return the tokens of each row of a split."""
    return [tuple(row["input_ids"]) for row in rows_of(folder, manifest, split)]


def expect_next_tokens(row: dict[str, Any], width: int) -> tuple[tuple[int, ...], ...]:
    """Return what a packed row teaches: its tokens, labels and positions, in plain Python.

    A label is the next token of the same document, or else -100. Padding is a document by itself.
    """
    ids, marks = list(row["input_ids"]), row["cu_seqlens"]
    labels, positions = list[int](), list[int]()
    for begin, end in pairwise(marks):
        labels += [*ids[begin + 1 : end], -100][: end - begin]
        positions += range(end - begin)
    padding = width - len(ids)
    return ((*ids, *[0] * padding), (*labels, *[-100] * padding), (*positions, *range(padding)))


def as_rows(array: Any, width: int) -> list[tuple[int, ...]]:
    """Return the rows of this width in an array of any shape."""
    return [tuple(row) for row in np.asarray(array).reshape(-1, width).tolist()]
