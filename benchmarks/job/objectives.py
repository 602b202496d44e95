"""Every objective beside its floor, in one run: `python -m benchmarks.job.objectives --input FILE`.

The floor of an objective is the plain loop of `benchmarks.job.floor` with the same flags. What is
compared runs in turn, `--rounds` times; medians are shown, and a ratio is the median of the ratios
of its rounds. `--times 10` repeats the file that often: with WikiText-2's training text that is the
108 MB that the streams are measured with. By default the corpus is synthetic.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Measurement, measure
from benchmarks.synthetic.corpus import write_corpus

_SYNTHETIC_BYTES = 10_800_000


@dataclass(frozen=True)
class Way:
    """What is measured: a command with flags, and the model of its tokenizer."""

    label: str
    command: tuple[str, ...]
    tokenizer: str


WAYS = (
    Way("bert", ("bert",), "wordpiece"),
    Way("bert, whole words", ("bert", "--whole-word-mask"), "wordpiece"),
    Way("bert, sentence order", ("bert", "--segments", "sentence-order"), "wordpiece"),
    Way("bert, full sentences", ("bert", "--segments", "full-sentences"), "wordpiece"),
    Way("bert, TFRecord", ("bert", "--output-format", "tfrecord"), "wordpiece"),
    Way("electra", ("electra",), "wordpiece"),
    Way("ernie", ("ernie",), "wordpiece"),
    Way("gpt, stream", ("gpt",), "bpe"),
    Way("gpt, stream, Megatron", ("gpt", "--output-format", "megatron"), "bpe"),
    Way("gpt, windows", ("gpt", "--mode", "windows"), "bpe"),
    Way("gpt, pack", ("gpt", "--mode", "pack"), "bpe"),
)

_TRAINING = {
    "wordpiece": ("--vocab-size", "30522"),
    "bpe": ("--vocab-size", "50257", "--special-tokens", "<|endoftext|>"),
}


@dataclass
class Row:
    """A way's measurements, job and floor of each round."""

    way: Way
    examples: int = 0
    jobs: list[Measurement] = field(default_factory=list)
    floors: list[Measurement] = field(default_factory=list)

    def cells(self) -> Iterator[str]:
        """The row of the table."""
        seconds, floor = (median(of.seconds for of in run) for run in (self.jobs, self.floors))
        pairs = zip(self.jobs, self.floors, strict=True)
        yield self.way.label
        yield f"{self.examples:,}"
        yield f"{seconds:.1f}"
        yield f"{self.examples / seconds:,.0f}"
        yield f"{floor:.1f}"
        yield f"{median(job.seconds / floor.seconds for job, floor in pairs):.2f}"
        yield f"{max(of.peak_mib for of in self.jobs):,.0f}"


class Bench:
    """A corpus, its tokenizers, and the commands that are compared.

    Args:
        folder: for all that is made.
        corpus: one plain file.
        shards: of each data set.
    """

    def __init__(self, folder: Path, corpus: Path, shards: int) -> None:
        self._folder, self._corpus, self._shards = folder, corpus, shards

    def tokenizer(self, model: str) -> Path:
        """A tokenizer of the model, trained on the corpus where it is missing."""
        path = self._folder / f"{self._corpus.stem}-{model}.json"
        if not path.exists():
            files = ["--input", str(self._corpus), "--output", str(path), "--model", model]
            measure(
                [sys.executable, "-m", "pipeline", "train-tokenizer", *files, *_TRAINING[model]]
            )
        return path

    def run(self, module: tuple[str, ...], way: Way, name: str, *flags: str) -> Measurement:
        """Run the job, or its floor."""
        output = self._folder / name
        shutil.rmtree(output, ignore_errors=True)
        files = [self._corpus, self.tokenizer(way.tokenizer), output]
        named = zip(("--input", "--tokenizer", "--output"), map(str, files), strict=True)
        command, *of_objective = way.command
        given = [part for pair in named for part in pair]
        workers = ("--workers", "2", "--seed", "1")
        return measure(
            [sys.executable, "-m", *module, command, *given, *workers, *of_objective, *flags]
        )

    def round(self, row: Row) -> None:
        """Measure a way once more."""
        shards = ("--num-shards", str(self._shards))
        row.jobs.append(self.run(("pipeline",), row.way, "job", *shards))
        row.floors.append(self.run(("benchmarks.job.floor",), row.way, "floor"))
        manifest = json.loads((self._folder / "job" / "dataset.json").read_text())
        row.examples = manifest["splits"]["train"]["rows"]


def make_corpus(folder: Path, given: Path | None, times: int) -> Path:
    """The corpus: a file as often as asked, or a synthetic one."""
    name = given.stem if given else "synthetic"
    path = folder / f"{name}-{times}.txt"
    if not path.exists() and given is None:
        write_corpus(path, _SYNTHETIC_BYTES * times)
    elif not path.exists() and given:
        path.write_bytes(given.read_bytes() * times)
    return path


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("benchmark-data"))
    parser.add_argument("--input", type=Path)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--only", default="", help="ways whose names hold this")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    console = Console()
    corpus = make_corpus(arguments.folder, arguments.input, arguments.times)
    bench = Bench(arguments.folder, corpus, arguments.shards)
    rows = [Row(way) for way in WAYS if arguments.only in way.label]
    for row in rows:  # compiles the kernels where nothing did yet
        bench.run(("pipeline",), row.way, "job")
    for number in range(arguments.rounds):
        for row in rows:
            console.print(f"round {number + 1}: {row.way.label} ...")
            bench.round(row)
    table = Table("", "examples", "seconds", "examples/s", "floor", "times floor", "peak MiB (PSS)")
    for row in rows:
        table.add_row(*row.cells())
    console.print(table)


if __name__ == "__main__":
    main()
