"""Runs of any shape with any thresholds: the same bytes, nothing lost, every row traced.

Each seed draws a corpus, options, thresholds and workers. `CORPUSMILL_SEEDS=1000:2000 pytest
tests/pipeline/test_simulated_runs.py` tries others.
"""

import gzip
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import numpy as np
import pytest

from corpusmill import DataSet, make_batches
from corpusmill.arrays.columns import tokens_of
from corpusmill.commands.build_command import list_flags
from corpusmill.verification.check_data_set import verify
from tests.tools.data_files import manifest_of
from tests.tools.jobs import Outcome, digests, run_any
from tests.tools.knobs import knobs, list_knobs
from tests.tools.origins import check_provenance
from transforms.task_sizes import TaskSizes

# Corpora, options and thresholds of any shape, drawn from a seed.
#
# FoundationDB draws its knobs in every simulated run, so that each constant is crossed many times
# before a user crosses it once; here the corpus, the options of a build and all thresholds are
# drawn.


# The objectives, with options under which they build examples in different ways.
_WAYS: dict[str, Sequence[Sequence[str]]] = {
    "bert": (
        (),
        ("--pairs", "google", "--whole-word-mask"),
        ("--segments", "sentence-order"),
        ("--segments", "full-sentences", "--mask", "dynamic"),
        ("--segments", "packed", "--max-predictions-per-seq", "None", "--mask", "dynamic"),
    ),
    "electra": ((), ("--overflow", "keep")),
    "ernie": ((),),
    "gpt": (
        (),
        ("--mode", "windows", "--overlap", "3"),
        ("--mode", "pack"),
        ("--fim-rate", "0.5", "--fim-cut", "tokens", "--document-rule", "wikitext"),
    ),
    "t5": ((), ("--no-merge-documents", "--overflow", "keep")),
}
_REPEATED = ("bert", "ernie", "electra")
_LINES = ("--document-rule", "wikitext", "--sentence-rule", "line")
# Thresholds of which only some values have a meaning.
_POWERS_OF_TWO = ("filter_bits", "first_slots")
_LEAST = {"packed_tokens": 2, "words_at_once": 3}
# Those below which a text has other tokens than those of the tokenizers library, or is refused.
_NOT_DRAWN = ("most_characters", "sought_characters", "block_bytes", "nested_bytes")


@dataclass(frozen=True)
class SimulatedRun:
    """A corpus, and how it is built.

    Attributes:
        objective: the objective.
        inputs: the flags that name the corpus.
        added: a file that is added as a generation of its own; None for none.
        flags: the options of the data set.
        sizes: how much a task takes, as flags.
        of_files: thresholds on which files depend, which the plain build has, too.
        others: all other thresholds.
        range_bytes: the longest range.
        workers: the number of worker processes; 0 for this process.
    """

    objective: str
    inputs: Sequence[str]
    added: Path | None
    flags: Sequence[str]
    sizes: Sequence[str]
    of_files: Mapping[str, int]
    others: Mapping[str, int]
    range_bytes: int
    workers: int

    def commands(self, tokenizer: Path, output: Path, *flags: str) -> list[list[str]]:
        """Return the commands that build the data set, with some further flags."""
        given = ("--tokenizer", str(tokenizer), "--output", str(output), *self.flags, *flags)
        commands = [[self.objective, *self.inputs, *given]]
        if self.added:
            append = ("--append", "--existing", "allow")
            commands.append([self.objective, "--input", str(self.added), *given, *append])
        return commands

    @property
    def way(self) -> list[str]:
        """The flags that say in which ranges, sizes and processes it is built."""
        flags = ["--range-bytes", str(self.range_bytes), *self.sizes]
        if self.workers:
            flags += ["--workers", str(self.workers), "--min-bytes-per-worker", "0"]
        return flags


def draw_run(seed: int, folder: Path) -> SimulatedRun:
    """Draw a run.

    Args:
        seed: the same one gives the same run.
        folder: where the corpus is written.
    """
    random = Random(seed)  # noqa: S311  no secret
    objective = random.choice(list(_WAYS))
    flags = [*random.choice(_WAYS[objective])]
    # A document that is built twice has no place of its own in the corpus.
    keeps_order = random.random() < 0.2
    inputs = _draw_corpus(random, folder, [""] if keeps_order else ["", "@2", "@0.5", "@1.5"])
    has_sources = inputs[0] == "--source"
    added = None
    if not has_sources and random.random() < 0.4:
        added = folder / "added.txt"
        added.write_bytes(_draw_text(random))
    flags += _draw_flags(random, objective, keeps_order)
    workers = 3 if random.random() < 0.2 else 0
    # Fewer tasks than workers are refused.
    thresholds = (_draw_sizes(random), *_draw_knobs(random))
    range_bytes = 50 if workers else round(2 ** random.uniform(7, 14))
    return SimulatedRun(objective, inputs, added, flags, *thresholds, range_bytes, workers)


def _draw_corpus(random: Random, folder: Path, repeats: Sequence[str]) -> list[str]:
    names = random.choice([("",), ("",), ("books", "web"), ("a", "b", "c")])
    if names == ("",):
        return ["--input", *_draw_files(random, folder)]
    sources = []
    for name in names:
        (folder / name).mkdir()
        _draw_files(random, folder / name)
        sources.append(f"{name}={folder / name}{random.choice(repeats)}")
    return ["--source", *sources]


def _draw_files(random: Random, folder: Path) -> list[str]:
    paths = []
    for number in range(random.randint(1, 6)):
        content = _draw_text(random)
        is_packed = random.random() < 0.2
        path = folder / f"{number:02}.txt{'.gz' * is_packed}"
        path.write_bytes(gzip.compress(content, mtime=0) if is_packed else content)
        paths.append(str(path))
    return paths


def _draw_text(random: Random) -> bytes:
    """Draw the documents of a file, by WikiText's rule, with lines that cannot be read."""
    lines: list[bytes] = []
    for document in range(random.choice([1, 3, 12, 24])):
        lines.append(b" = Title %d = " % document)
        for _ in range(random.choice([0, 1, 2, 5, 9])):
            words = random.choice([1, 4, 12, 30, 90])
            line = " ".join(_draw_word(random) for _ in range(words)).encode()
            lines.append(b"bad \xff line" if random.random() < 0.03 else line)
        lines.append(b"")
    return b"\n".join(lines)


def _draw_word(random: Random) -> str:
    length = min(12, round(random.expovariate(0.3)) + 1)
    return "".join(random.choice("etaoinshrdlucm.,") for _ in range(length))


def _draw_flags(random: Random, objective: str, keeps_order: bool) -> list[str]:
    flags = ["--num-shards", str(random.choice([1, 2, 3, 7])), "--seed", str(random.randint(0, 99))]
    flags += ["--max-seq-length", str(random.choice([32, 64, 128]))]
    if objective in _REPEATED:
        flags += ["--duplicates", "1" if keeps_order else str(random.choice([1, 2, 4]))]
    if objective != "gpt":
        flags += _LINES
    if random.random() < 0.5:
        flags += ["--validation-share", "0.3"]
    if keeps_order:
        flags += ["--order", "corpus"]
    if random.random() < 0.3:
        flags += ["--drop-duplicates"]
    if random.random() < 0.3:
        flags += ["--output-format", random.choice(["tfrecord", "avro"])]
    return flags


def _draw_sizes(random: Random) -> list[str]:
    """Draw each size of tasks anywhere between its least value and one that few bytes cross."""
    names = [name for name in asdict(TaskSizes()) if random.random() >= 0.2]
    sizes = {name: max(2, round(2 ** random.uniform(0, 14))) for name in names}
    return [*list_flags(TaskSizes, sizes)]


def _draw_knobs(random: Random) -> tuple[dict[str, int], dict[str, int]]:
    """Draw those on which files depend, which have no test value, and all others."""
    drawn: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for name, knob in list_knobs().items():
        if random.random() < 0.2 or name in _NOT_DRAWN:
            continue
        value = round(2 ** random.uniform(0, 14))
        if name in _POWERS_OF_TWO:
            value = 2 ** random.randint(3, 12)
        drawn[knob.test is not None][name] = max(_LEAST.get(name, 1), min(value, knob.usual))
    return drawn


_FIRST, _LAST = map(int, os.environ.get("CORPUSMILL_SEEDS", "0:8").split(":"))


def run_all(commands: list[list[str]]) -> Outcome:
    """Run commands until one is refused."""
    for command in commands:
        outcome = run_any(*command)
        if outcome.status:
            break
    return outcome


@pytest.mark.parametrize("seed", range(_FIRST, _LAST))
def test_a_run_of_any_shape_keeps_all_promises(
    seed: int, any_tokenizer: Path, tmp_path: Path
) -> None:
    (tmp_path / "corpus").mkdir()
    run = draw_run(seed, tmp_path / "corpus")
    plain, drawn = tmp_path / "plain", tmp_path / "drawn"
    with knobs(**run.of_files):
        expected = run_all(run.commands(any_tokenizer, plain, "--workers", "1"))
    with knobs(**run.of_files, **run.others):
        outcome = run_all(run.commands(any_tokenizer, drawn, *run.way))
    assert outcome.status == expected.status, (run, outcome.errors, expected.errors)
    if outcome.status:
        assert outcome.errors.replace(str(drawn), str(plain)) == expected.errors
        return
    assert digests(drawn) == digests(plain), run
    with knobs(**run.of_files, **run.others):
        assert verify(drawn) == []
        check_epoch(drawn, tmp_path / "cache", seed)
    assert check_provenance(drawn, tmp_path / "corpus", *([run.added] if run.added else []))


def check_epoch(folder: Path, cache: Path, seed: int) -> None:
    """Check that an epoch has every row once, whatever its order is, and can be read."""
    for split, entry in manifest_of(folder).splits.items():
        data_set = DataSet(folder, split, cache_folder=cache)
        order = make_batches(data_set, 4, seed=seed).order
        for epoch in range(2):
            samples = order.locate(np.arange(epoch * len(order), (epoch + 1) * len(order)))
            assert np.array_equal(np.sort(samples), np.arange(entry.rows))
        read = (data_set[number] for number in samples.tolist())
        first = tokens_of(data_set.columns).name
        assert sum(len(row[first]) for row in read) == entry.tokens
