"""A rehearsal: where kernels must be compiled, a second process compiles those of the later stages.

Reading and tokenizing, which a build tries first, have about as many kernels as what builds, sorts
and writes rows. The rows of the rehearsal are of random tokens and go nowhere.
"""

import sys
import threading
from contextlib import suppress
from multiprocessing import get_context, parent_process

import numpy as np

from corpusmill.console.compilation import say_that_kernels_are_compiled
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import resolve
from corpusmill.inspection.sample_build import build_sample
from corpusmill.layout.placement import Layout
from corpusmill.objectives.objective import Objective
from corpusmill.objectives.random_documents import Pool
from corpusmill.tokenization.tokenizer_file import TokenizerFile


def rehearse_beside(*parts: object) -> None:
    """Say that this process compiles kernels, and let another one rehearse the build.

    Args:
        parts: the arguments of `rehearse`.
    """
    say_that_kernels_are_compiled()
    # A process with threads cannot be forked without harm, and one of a pool may start no other.
    may_fork = sys.platform == "linux" and threading.active_count() == 1 and not parent_process()
    if may_fork:
        get_context("fork").Process(target=rehearse, args=parts, daemon=True).start()


def rehearse(objective: Objective, output: OutputOptions, tokenizer: TokenizerFile) -> None:
    """Build and write rows of a few documents.

    What is wrong with the options or with the objective is left to the build.

    Args:
        objective: what is built.
        output: how shards are written.
        tokenizer: the tokenizer.
    """
    # Four documents of eight sentences of 32 tokens, all of the first split.
    offsets = np.arange(0, 33, 8), np.arange(0, 1025, 32)
    token_ids = np.arange(1024).astype(tokenizer.choose_dtype(objective.words))
    arrays = (np.arange(4, dtype=np.uint64), *offsets, token_ids, np.array([0, 4, 4]))
    for array in arrays:
        array.flags.writeable = False  # as in a pool that is mapped, for which kernels differ
    with suppress(BaseException):
        build_sample(objective, Pool(*arrays), Layout(0, 1, 0), resolve(output, objective.columns))
