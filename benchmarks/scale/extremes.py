"""What breaks first, at few bytes.

    python -m benchmarks.scale.extremes [--only NAME] [--scale 0.1]

Each corpus is built beside an ordinary one of as many bytes, with the same objective, in turn;
"times ordinary" is the ratio of their times a byte. The driver is the process that plans, submits
and waits; its memory must not grow with the number of documents, which the last two rows show:
the same bytes in four times as many documents. Each row is one run, on a machine that may be busy.
"""

import argparse
import json
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Measurement, measure
from benchmarks.scale import extreme_corpora as corpora
from benchmarks.synthetic.corpus import write_corpus
from corpusmill.corpus.options import DocumentOptions
from pipeline.preparation.inputs import choose_format, list_inputs
from pipeline.preparation.probe import read_probe

_MB = 10**6
_BERT = ("bert", "--duplicates", "2")
_GPT = ("gpt", "--mode", "pack", "--max-seq-length", "512")
_LINES = ("--input-format", "lines")


@dataclass(frozen=True)
class Extreme:
    """A corpus, and how it is built.

    Attributes:
        name: of the row.
        write: makes it at a path, of ordinary text, at a scale below or at 1.
        command: the objective with its flags, of the ordinary corpus, too.
        flags: of this corpus alone.
    """

    name: str
    write: Callable[[Path, Path, float], None]
    command: tuple[str, ...] = _BERT
    flags: tuple[str, ...] = ()


def _link(path: Path, text: Path, _: float) -> None:
    shutil.copy(text, path)


def _many(files: int) -> Callable[[Path, Path, float], None]:
    return lambda path, text, scale: corpora.write_many_files(path, text, int(files * scale))


def _lines(number: int, line_bytes: int) -> Callable[[Path, Path, float], None]:
    return lambda path, text, scale: corpora.write_lines_of_one_size(
        path, text, int(number * scale), line_bytes
    )


def _endless(num_bytes: int, newline: bytes) -> Callable[[Path, Path, float], None]:
    return lambda path, text, scale: corpora.write_endless_document(
        path, text, int(num_bytes * scale), newline
    )


def _one_length(path: Path, _: Path, scale: float) -> None:
    corpora.write_one_length(path, int(250_000 * scale), 126)


def _empty(path: Path, text: Path, scale: float) -> None:
    corpora.write_empty_records(path, text, int(100_000 * scale), int(20_000 * scale))


def _long_names(path: Path, text: Path, scale: float) -> None:
    corpora.write_long_names(path, text, int(1000 * scale))


def _deep(path: Path, text: Path, scale: float) -> None:
    corpora.write_deep_folders(path, text, int(1000 * scale), 60)


def _large(path: Path, _: Path, scale: float) -> None:
    write_corpus(path, int(5000 * _MB * scale))


EXTREMES = (
    Extreme("50,000 files", _many(50_000), flags=("--document-rule", "wikitext")),
    Extreme("5,000 shards", _link, flags=("--num-shards", "5000")),
    Extreme("documents of one length, in bins", _one_length, flags=("--bin-size", "64")),
    Extreme("documents of one length, packed", _one_length, _GPT, _LINES),
    Extreme("2,000,000 documents of a line", _lines(2_000_000, 50), flags=_LINES),
    Extreme("a document of 1 GB", _endless(1000 * _MB, b"\n")),
    Extreme("a line of 1 GB", _endless(1000 * _MB, b" ")),
    Extreme("100,000 empty documents", _empty, flags=("--input-format", "json-lines")),
    Extreme("names of 200 characters", _long_names),
    Extreme("60 folders in each other", _deep),
    Extreme("a file of 5 GB", _large),
    Extreme("500,000 documents of 200 bytes", _lines(500_000, 200), flags=_LINES),
    Extreme("2,000,000 documents of 50 bytes", _lines(2_000_000, 50), flags=_LINES),
)


@dataclass(frozen=True)
class Row:
    """A corpus' run, and that of an ordinary corpus beside it."""

    extreme: Extreme
    corpus_bytes: int
    files: int
    manifest_bytes: int
    counts: dict[str, int]
    run: Measurement
    ordinary: Measurement | None

    def cells(self) -> Iterator[str]:
        """The row of the table."""
        yield self.extreme.name
        yield f"{self.corpus_bytes / _MB:,.0f}"
        yield f"{self.files:,}"
        yield f"{self.counts.get('read.documents', 0):,}"
        yield f"{self.counts.get('build.examples', 0):,}"
        yield f"{self.counts.get('read.rejects', 0):,}"
        yield f"{self.manifest_bytes / 1e6:.2f}"
        yield f"{self.run.seconds:.1f}"
        yield f"{self.run.seconds / self.ordinary.seconds:.2f}" if self.ordinary else "-"
        yield f"{self.run.peak_mib:,.0f}"
        yield f"{self.ordinary.peak_mib:,.0f}" if self.ordinary else "-"
        yield f"{self.run.first_mib:,.0f}"


HEADINGS = (
    "", "MB", "files", "documents", "examples", "rejects", "manifest, MB", "seconds",
    "times ordinary", "peak MiB (PSS)", "of the ordinary", "driver MiB",
)  # fmt: skip


class Bench:
    """Corpora, tokenizers and runs in one folder.

    Args:
        folder: for all of it.
        workers: of each run.
        console: for the line that says what runs.
    """

    def __init__(self, folder: Path, workers: int, console: Console) -> None:
        self._folder, self._workers, self._console = folder, workers, console
        folder.mkdir(parents=True, exist_ok=True)

    def ordinary(self, num_bytes: int) -> Path:
        """A synthetic corpus of that size, made where it is missing."""
        path = self._folder / f"ordinary-{num_bytes}.txt"
        if not path.exists():
            write_corpus(path, num_bytes)
        return path

    def row(self, extreme: Extreme, scale: float) -> Row:
        """Build a corpus and an ordinary one of its size; all but their manifests is removed."""
        corpus = self._folder / "extreme"
        self._console.print(f"{extreme.name}: writing ...")
        _remove(corpus)
        extreme.write(corpus, self.ordinary(int(100 * _MB * scale)), scale)
        files = [corpus] if corpus.is_file() else [of for of in corpus.rglob("*") if of.is_file()]
        corpus_bytes = sum(path.stat().st_size for path in files)
        self._console.print(f"{extreme.name}: {corpus_bytes / _MB:,.0f} MB ...")
        planned = self._plan(corpus) if len(files) > 1 else ""
        run, counts, size = self._build(corpus, extreme.command, extreme.flags)
        _remove(corpus)
        ordinary = self.ordinary(corpus_bytes)
        beside, _, _ = self._build(ordinary, extreme.command, ())
        row = Row(extreme, corpus_bytes, len(files), size, counts, run, beside)
        self._console.print(f"{'  '.join(row.cells())}  {planned}")
        return row

    def tokenizer(self, model: str) -> Path:
        """A tokenizer of the model, trained where it is missing."""
        path = self._folder / f"{model}.json"
        if not path.exists():
            special = ("--special-tokens", "<|endoftext|>") if model == "bpe" else ()
            self._run(
                "train-tokenizer", "--input", self.ordinary(10 * _MB), "--output", path,
                "--model", model, "--vocab-size", 30522, *special,
            )  # fmt: skip
        return path

    def _build(
        self, corpus: Path, command: tuple[str, ...], flags: tuple[str, ...]
    ) -> tuple[Measurement, dict[str, int], int]:
        output = self._folder / "out"
        _remove(output)
        name, *of_objective = command
        tokenizer = self.tokenizer("bpe" if name == "gpt" else "wordpiece")
        run = self._run(
            name, "--input", corpus, "--tokenizer", tokenizer, "--output", output,
            "--workers", self._workers, "--min-bytes-per-worker", 0, *of_objective, *flags,
        )  # fmt: skip
        content = (output / "dataset.json").read_bytes()
        _remove(output)
        return run, json.loads(content)["counts"], len(content)

    def _run(self, *arguments: object) -> Measurement:
        return measure([sys.executable, "-m", "pipeline", *map(str, arguments)])

    def _plan(self, corpus: Path) -> str:
        of_plan = [sys.executable, "-m", "benchmarks.scale.extremes", "--plan", str(corpus)]
        return measure(of_plan).output.strip()


def _remove(path: Path) -> None:
    if path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def plan(corpus: str) -> str:
    """List, check and probe a corpus as a job does before it starts, and say what that took."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    files = list_inputs([corpus], "nowhere")
    options = choose_format(files, DocumentOptions(document_rule="wikitext"), Console(quiet=True))
    read_probe(files, options)
    seconds = time.perf_counter() - began
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return f"planned {len(files):,} files in {seconds:.1f} s with {grown:,.0f} MiB"


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("benchmark-data/extremes"))
    parser.add_argument("--only", default="", help="rows whose names hold this")
    parser.add_argument("--scale", type=float, default=1.0, help="of all numbers and sizes")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--plan", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.plan:
        print(plan(arguments.plan))
        return
    console = Console(width=200)
    bench = Bench(arguments.folder, arguments.workers, console)
    table = Table(*HEADINGS)
    for extreme in EXTREMES:
        if arguments.only in extreme.name:
            table.add_row(*bench.row(extreme, arguments.scale).cells())
    console.print(table)


if __name__ == "__main__":
    main()
