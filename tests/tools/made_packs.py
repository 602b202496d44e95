"""Packs of a token stream that other processes make, which import no more than they need."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np

from corpusmill.objectives.examples.packing import pack_stream
from corpusmill.reading import token_packs
from corpusmill.reading.data_set import DataSet, Samples
from corpusmill.reading.token_packs import TokenPacks

Pieces = list[tuple[int, ...]]


def pieces_of(samples: Samples) -> Pieces:
    """The pieces of all rows, row after row."""
    rows = samples.take(np.arange(len(samples)))
    found = []
    for row in rows:
        bounds = row["cu_seqlens"].tolist()
        assert bounds[0] == 0 < len(row["input_ids"]) == bounds[-1]
        cut = np.split(row["input_ids"], bounds[1:-1])
        found += [tuple(piece.tolist()) for piece in cut]
    return found


def make(arguments: tuple[str, Path, Path]) -> tuple[str, Pieces]:
    folder, cache, file = arguments
    packs = TokenPacks(DataSet(folder, cache_folder=cache), 64, file)
    return packs.digest, pieces_of(packs)


def be_killed(arguments: tuple[str, Path, Path]) -> None:
    """Make a file of packs in a process that is killed within its second shard."""
    packed = []

    def stop(*pack: Any) -> Any:
        packed.append(pack)
        if len(packed) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return pack_stream(*pack)

    vars(token_packs)["pack_stream"] = stop
    make(arguments)
